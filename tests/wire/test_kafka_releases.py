"""Tests of :mod:`logbus.wire.kafka_releases`."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ConfigError
from logbus.wire.kafka_releases import (
    CONSUMER_GROUP_APIS,
    DEFAULT_RELEASE,
    RELEASES,
    advertised_table,
    finalized_features,
    release_table,
)
from logbus.wire.messages import api, api_keys

try:
    from kafka.protocol.broker_version_data import BROKER_API_VERSIONS, infer_broker_version_from_api_versions
except ImportError:
    BROKER_API_VERSIONS = None

BETWEEN_BROKERS = {*range(4, 8), *range(52, 57), 58, 59, 62, 63, 64, 67, 70, 73, *range(80, 88)}

# Served by a broker that has all.
ALL = dict(release_table("4.3"))


class TablesTests(SynchronousTestCase):
    """The facts."""

    def test_tables_are_those_of_the_releases(self) -> None:
        """Each table agrees with the one that a widely used client ships, but for what we leave out on purpose."""
        if BROKER_API_VERSIONS is None:
            self.skipTest("kafka-python is not installed")
        for release in RELEASES:
            theirs = dict(BROKER_API_VERSIONS[tuple(map(int, release.split(".")))])
            left_out = BETWEEN_BROKERS | ({68, 69} if release < "4.0" else set())
            expected = {key: tuple(versions) for key, versions in theirs.items() if key not in left_out}
            self.assertEqual({key: tuple(versions) for key, versions in release_table(release).items()}, expected)

    def test_highest_versions_do_not_shrink(self) -> None:
        """A later release has every version that an earlier one had, at the upper end."""
        for older, newer in pairwise(RELEASES):
            for key, (_, highest) in release_table(older).items():
                self.assertGreaterEqual(release_table(newer)[key].max, highest, (key, newer))

    def test_default_table(self) -> None:
        """Unless a release is asked for, it is the newest."""
        self.assertEqual(DEFAULT_RELEASE, RELEASES[-1])
        self.assertEqual({**advertised_table(None, ALL), 0: (0, 13)}, release_table("4.3"))

    def test_unknown_release(self) -> None:
        """The error says which releases are known."""
        error = self.assertRaises(ConfigError, release_table, "0.9")
        self.assertIn("2.1, 2.8, 3.0", str(error))
        self.assertRaises(ConfigError, advertised_table, "5.0", {})


class AdvertisedTests(SynchronousTestCase):
    """The advertised versions and features."""

    def test_produce_is_advertised_from_zero(self) -> None:
        """Old librdkafka compresses only for a broker that advertises Produce 0; all others are served."""
        self.assertEqual(advertised_table(None, {0: (3, 11), 1: (4, 17)}), {0: (0, 11), 1: (4, 17)})
        self.assertEqual(advertised_table("2.1", {0: (3, 13)}), {0: (0, 7)})

    def test_no_common_version_is_no_api(self) -> None:
        """An API without a version common to release and broker is not advertised, not even Produce."""
        self.assertEqual(advertised_table("2.1", {0: (8, 13), 1: (12, 18), 18: (0, 4)}), {18: (0, 2)})

    def test_features(self) -> None:
        """Clients that get a feature's versions are told that it is on; a table of Kafka 3.9 has none."""
        both = {"group.version": 1, "transaction.version": 2}
        every = {**both, "share.version": 1, "streams.version": 1}
        for release, expected in ((None, every), ("3.9", {}), ("4.0", both), ("4.3", every)):
            self.assertEqual(finalized_features(advertised_table(release, ALL)), expected, release)
        classic = {key: versions for key, versions in ALL.items() if key not in CONSUMER_GROUP_APIS}
        others = {name: level for name, level in every.items() if name != "group.version"}
        self.assertEqual(finalized_features(advertised_table(None, classic)), others)

    def test_transactions_2_need_feature_and_version(self) -> None:
        """
        Trap 40: a client that finds Produce 12 without the feature fails its transactions. Without one of the three
        versions that belong together, the feature is off, and none of the others is told.
        """
        for missing, highest in ((0, 11), (26, 4), (28, 4)):
            told = advertised_table(None, {**ALL, missing: (ALL[missing].min, highest)})
            self.assertEqual([tuple(told[key]) for key in (0, 26, 28)], [(0, 11), (0, 4), (0, 4)])
            self.assertEqual(finalized_features(told), {"group.version": 1, "share.version": 1, "streams.version": 1})
            without = advertised_table(None, {key: versions for key, versions in ALL.items() if key != missing})
            highest_told = {key: without[key].max for key in (0, 26, 28) if key != missing}
            self.assertEqual(highest_told, {key: most for key, most in {0: 11, 26: 4, 28: 4}.items() if key != missing})

    def test_unadvertised_versions(self) -> None:
        """An API served only in versions that may not be advertised is not advertised at all."""
        self.assertEqual(advertised_table(None, {26: (5, 5)}), {})

    def test_private_apis_are_not_advertised(self) -> None:
        """What no Kafka release has is for our own brokers only."""
        self.assertEqual(advertised_table("4.3", {18: (0, 4), 10_000: (0, 1)}), {18: (0, 4)})

    def test_a_client_infers_the_release(self) -> None:
        """A client that infers the release from the versions finds the advertised one."""
        if BROKER_API_VERSIONS is None:
            self.skipTest("kafka-python is not installed")
        for release in (None, *RELEASES):
            inferred = infer_broker_version_from_api_versions(advertised_table(release, ALL))
            self.assertEqual(".".join(map(str, inferred)), release or DEFAULT_RELEASE)

    def test_messages_cover_the_default_release(self) -> None:
        """Messages exist for every version of the default table, of the APIs that have messages at all."""
        for key, (lowest, highest) in release_table(DEFAULT_RELEASE).items():
            if key in api_keys():
                versions = api(key).versions
                self.assertLessEqual(versions.min, max(lowest, 3) if key == 0 else lowest, key)
                self.assertGreaterEqual(versions.max, highest, key)

    @given(
        st.sampled_from([None, *RELEASES]),
        st.dictionaries(
            st.integers(0, 100), st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda t: (min(t), max(t)))
        ),
    )
    def test_advertised_versions_are_served(self, release: str | None, served: dict[int, tuple[int, int]]) -> None:
        """Each advertised version is both the release's and served, except Produce below its first."""
        table = release_table(release or DEFAULT_RELEASE)
        told = advertised_table(release, served)
        self.assertEqual(0 in told and told[0].max >= 12, "transaction.version" in finalized_features(told))
        for key, (lowest, highest) in told.items():
            for version in range(lowest, highest + 1):
                if key == 0 and version < served[0][0]:
                    continue
                self.assertTrue(served[key][0] <= version <= served[key][1])
                self.assertTrue(table[key].includes(version))
        without_transactions_2 = {0: 12, 26: 5, 28: 5} if "transaction.version" not in finalized_features(told) else {}
        for key in served.keys() - told.keys():
            both = set(range(served[key][0], served[key][1] + 1))
            if key in table:
                both &= set(range(table[key].min, min(table[key].max + 1, without_transactions_2.get(key, 99))))
                self.assertEqual(both, set())
