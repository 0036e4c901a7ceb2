"""DescribeClientQuotas and AlterClientQuotas."""

from __future__ import annotations

from logbus.errors import ErrorCode
from logbus.wire.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlteredEntity,
    AlteredEntry,
    ComponentData,
    DescribeClientQuotasRequest,
    OpData,
)
from logbus.wire.messages.user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
)
from tests.handlers.kit import HandlerCase
from tests.handlers.test_user_scram_credentials import put

EXACT, DEFAULT, ANY = 0, 1, 2
INVALID = ErrorCode.INVALID_REQUEST
Parts = dict[str, str | None]
Found = list[tuple[Parts, dict[str, float]]]


def entry(parts: Parts | list[tuple[str, str | None]], **values: float | None) -> AlteredEntry:
    pairs = list(parts.items()) if isinstance(parts, dict) else parts
    return AlteredEntry(
        entity=[AlteredEntity(entity_type=kind, entity_name=name) for kind, name in pairs],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )


class QuotaTests(HandlerCase):
    """Quotas of entities."""

    def alter(self, *entries: AlteredEntry, validate_only: bool = False) -> list[int]:
        request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
        return [one.error_code for one in self.client.ask(request, 1).entries]

    def describe(self, *components: tuple[str, int, str | None], strict: bool = False) -> Found:
        asked = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
        response = self.client.ask(DescribeClientQuotasRequest(components=asked, strict=strict), 1)
        self.assertEqual(response.error_code, 0, response.error_message)
        return [
            ({part.entity_type: part.entity_name for part in one.entity}, {each.key: each.value for each in one.values})
            for one in response.entries
        ]

    def refused(self, *components: tuple[str, int, str | None]) -> int:
        asked = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
        response = self.client.ask(DescribeClientQuotasRequest(components=asked, strict=False), 0)
        self.assertIsNone(response.entries)
        return int(response.error_code)

    def test_life_of_quotas(self) -> None:
        """Quotas are set, changed and removed, each by itself; an entity without any is not described."""
        ann: Parts = {"user": "ann"}
        self.assertEqual(self.alter(entry(ann, producer_byte_rate=1024.0, request_percentage=12.5)), [0])
        self.assertEqual(self.describe(), [(ann, {"producer_byte_rate": 1024.0, "request_percentage": 12.5})])
        self.alter(entry(ann, producer_byte_rate=2048.0, request_percentage=None, consumer_byte_rate=None))
        self.assertEqual(self.describe(), [(ann, {"producer_byte_rate": 2048.0})])
        self.assertEqual(self.alter(entry(ann, producer_byte_rate=None), validate_only=True), [0])
        self.assertEqual(len(self.describe()), 1)
        self.alter(entry(ann, producer_byte_rate=None))
        self.assertEqual(self.describe(), [])
        self.assertEqual(len(self.server.broker.member.metadata.security_nodes), 0)

    def test_filters(self) -> None:
        """Filters name an entity, the default or any; strict ones leave out entities with more parts."""
        rate = {"producer_byte_rate": 1.0}
        entities: list[Parts] = [
            {"user": "ann"},
            {"user": None},
            {"user": "ann", "client-id": "app"},
            {"user": "ann", "client-id": None},
            {"client-id": "app"},
        ]
        self.alter(*(entry(one, **rate) for one in entities), entry({"ip": "10.0.0.1"}, connection_creation_rate=5.0))
        ann, everybody, app_of_ann, any_of_ann, app = entities

        def found(*components: tuple[str, int, str | None], strict: bool = False) -> list[Parts]:
            return [parts for parts, _ in self.describe(*components, strict=strict)]

        self.assertEqual(len(found()), 6)
        self.assertEqual(found(strict=True), [])
        self.assertCountEqual(found(("user", EXACT, "ann")), [ann, app_of_ann, any_of_ann])
        self.assertEqual(found(("user", EXACT, "ann"), strict=True), [ann])
        self.assertEqual(found(("user", DEFAULT, None)), [everybody])
        self.assertCountEqual(found(("client-id", ANY, None)), [app_of_ann, any_of_ann, app])
        self.assertEqual(found(("client-id", DEFAULT, None), ("user", ANY, None)), [any_of_ann])
        self.assertEqual(found(("ip", ANY, None)), [{"ip": "10.0.0.1"}])

    def test_invalid_filters(self) -> None:
        """Filters that Kafka refuses are refused with its codes."""
        self.assertEqual(self.refused(("user", EXACT, None)), INVALID)
        self.assertEqual(self.refused(("user", ANY, "ann")), INVALID)
        self.assertEqual(self.refused(("user", 3, None)), INVALID)
        self.assertEqual(self.refused(("", ANY, None)), INVALID)
        self.assertEqual(self.refused(("user", ANY, None), ("user", ANY, None)), INVALID)
        self.assertEqual(self.refused(("user", ANY, None), ("ip", ANY, None)), INVALID)
        self.assertEqual(self.refused(("group", ANY, None)), ErrorCode.UNSUPPORTED_VERSION)

    def test_invalid_entities(self) -> None:
        """Entities that cannot be are refused; others of the request are altered."""
        good = entry({"user": "bob"}, consumer_byte_rate=1.0)
        for bad in (
            entry({}),
            entry({"user": ""}),
            entry({"user": "ann", "ip": "10.0.0.1"}),
            entry({"ip": "localhost"}, connection_creation_rate=1.0),
            entry([("user", "ann"), ("user", "bob")]),
        ):
            self.assertEqual(self.alter(bad, good), [INVALID, 0])
        self.assertEqual(self.alter(entry({"group": "g"}), good, good), [ErrorCode.UNSUPPORTED_VERSION, 0, INVALID])

    def test_invalid_values(self) -> None:
        """Values are positive, those in bytes whole; each type of entity has its own keys."""
        ann: Parts = {"user": "ann"}
        for values in (
            {"producer_byte_rate": 0.0},
            {"producer_byte_rate": -1.0},
            {"producer_byte_rate": 1.5},
            {"producer_byte_rate": 1e19},
            {"request_percentage": float("nan")},
            {"controller_mutation_rate": float("inf")},
            {"connection_creation_rate": 1.0},
            {"SCRAM-SHA-256": 1.0},
        ):
            self.assertEqual(self.alter(entry(ann, **values)), [INVALID], values)
        self.assertEqual(self.alter(entry({"ip": None}, producer_byte_rate=1.0)), [INVALID])
        self.assertEqual(self.alter(entry({"ip": None}, connection_creation_rate=2.0**31)), [INVALID])
        twice = entry(ann, producer_byte_rate=1.0)
        twice.ops.append(OpData(key="producer_byte_rate", value=2.0, remove=False))
        self.assertEqual(self.alter(twice), [INVALID])
        self.assertEqual(self.describe(), [])

    def test_credentials_are_kept(self) -> None:
        """A user's credentials and quotas are beside each other, and neither API shows or loses the other's."""
        self.client.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=[put()]), 0)
        self.assertEqual(self.describe(), [])
        self.alter(entry({"user": "ann"}, producer_byte_rate=1.0))
        self.alter(entry({"user": "ann"}, producer_byte_rate=None))
        response = self.client.ask(DescribeUserScramCredentialsRequest(users=None), 0)
        self.assertEqual([one.user for one in response.results], ["ann"])
