"""ApiVersions and UpdateFeatures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ErrorCode
from logbus.handlers.api_versions import ApiVersionsHandlers
from logbus.net.request_context import RequestContext
from logbus.wire.kafka_releases import RELEASES, advertised_table, release_table
from logbus.wire.messages.api_versions import ApiVersionsRequest, FeatureUpdateKey, UpdateFeaturesRequest
from tests.handlers.kit import HandlerCase, a_request

WHO = ApiVersionsRequest(client_software_name="me", client_software_version="1")


class FeatureTests(SynchronousTestCase):
    """Features of a broker that supports all versions of Kafka's newest release."""

    def ask(self, message: Any, version: int, release: str | None = None) -> Any:
        """The answer of a broker that names itself as ``release``."""
        handlers = ApiVersionsHandlers(lambda: advertised_table(release, release_table(RELEASES[-1])))
        context = RequestContext(1, "kafka", "10.0.0.1", 4000)
        if isinstance(message, ApiVersionsRequest):
            return handlers.api_versions(context, a_request(message, version))
        return handlers.update_features(context, a_request(message, version))

    def update(self, *updates: tuple[str, int], version: int = 2, release: str | None = None) -> Any:
        keys = [FeatureUpdateKey(feature=name, max_version_level=level) for name, level in updates]
        return self.ask(UpdateFeaturesRequest(feature_updates=keys), version, release)

    def test_features(self) -> None:
        """The finalized levels of the cluster, and from version 4 on that each feature may be disabled."""
        for version in (3, 4):
            answer = self.ask(WHO, version)
            levels = {each.name: (each.min_version_level, each.max_version_level) for each in answer.finalized_features}
            on = {
                "group.version": (1, 1),
                "share.version": (1, 1),
                "streams.version": (1, 1),
                "transaction.version": (2, 2),
            }
            self.assertEqual(levels, on)
            possible = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
            every = {name: (0, most) for name, (_, most) in on.items()}
            self.assertEqual(possible, every if version == 4 else {})
            self.assertEqual(answer.finalized_features_epoch, 2)

    def test_of_an_older_release(self) -> None:
        """Kafka 3.9 has none of them."""
        answer = self.ask(WHO, 4, "3.9")
        self.assertEqual((answer.finalized_features, answer.supported_features), ([], []))
        self.assertEqual(answer.finalized_features_epoch, -1)
        self.assertEqual(self.update(("group.version", 1), release="3.9").error_code, ErrorCode.INVALID_UPDATE_VERSION)

    def test_update_without_a_change(self) -> None:
        """Nothing changes, and that is well; each feature is named before version 2."""
        for version in range(3):
            answer = self.update(("transaction.version", 2), ("group.version", 1), version=version)
            self.assertEqual((answer.error_code, answer.error_message), (0, None))
            named = [(each.feature, each.error_code) for each in answer.results]
            self.assertEqual(named, [("transaction.version", 0), ("group.version", 0)])

    def test_refused_updates(self) -> None:
        """All is refused, with what stands in the way, and what is fine by itself with it."""
        refused: Iterable[tuple[tuple[str, int], str]] = (
            (("transaction.version", 1), "transaction.version stays at 2: it goes with the versions"),
            (("transaction.version", 3), "transaction.version has levels from 0 to 2, not 3"),
            (("group.version", -1), "group.version has levels from 0 to 1, not -1"),
            (("metadata.version", 29), "no feature 'metadata.version' here; known: group.version, share.version, "),
        )
        for update, why in refused:
            answer = self.update(("group.version", 1), update)
            self.assertEqual(answer.error_code, ErrorCode.INVALID_UPDATE_VERSION)
            self.assertIn(why, answer.error_message)
            self.assertEqual(answer.results, [])


class UpdateTests(HandlerCase):
    """Over the wire."""

    def test_every_version(self) -> None:
        """Each version says in its own way what is wrong."""
        for version in range(3):
            updates = [FeatureUpdateKey(feature="no.such", max_version_level=1)]
            answer = self.client.ask(UpdateFeaturesRequest(feature_updates=updates), version)
            self.assertEqual(answer.error_code, ErrorCode.INVALID_UPDATE_VERSION)
