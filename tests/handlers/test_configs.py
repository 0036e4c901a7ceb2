"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from logbus.errors import ErrorCode
from logbus.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.handlers.kit import HandlerCase

TOPIC, BROKER = 2, 4


def replacement(kind: int = TOPIC, name: str = "t", **configs: str | None) -> AlterConfigsResource:
    given = [AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=given)


def question(kind: int = TOPIC, name: str = "t", keys: list[str] | None = None) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)


class Configs(HandlerCase):
    """Settings described and altered."""

    def incremental(self, *changes: tuple[str, int, str | None], kind: int = TOPIC, name: str = "t") -> int:
        configs = [IncrementalAlterableConfig(name=n, config_operation=op, value=value) for n, op, value in changes]
        resource = IncrementalAlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        return int(self.client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code)

    def alter(self, *resources: AlterConfigsResource, validate_only: bool = False) -> list[int]:
        request = AlterConfigsRequest(resources=list(resources), validate_only=validate_only)
        return [answer.error_code for answer in self.client.ask(request, 2).responses]

    def values(self, kind: int = TOPIC, name: str = "t", *, source: int | None = None) -> dict[str, str]:
        (result,) = self.client.ask(DescribeConfigsRequest(resources=[question(kind, name)]), 4).results
        self.assertEqual(result.error_code, 0)
        return {e.name: e.value for e in result.configs if source is None or e.config_source == source}

    def test_incremental(self) -> None:
        """Set, delete, append and subtract; the log has them at once."""
        log = self.server.broker.replicas.get("t", 0).log
        self.assertEqual(self.incremental(("retention.ms", 0, "77"), ("cleanup.policy", 2, "compact")), 0)
        self.assertEqual(self.values(source=1), {"retention.ms": "77", "cleanup.policy": "delete,compact"})
        self.assertEqual((log.config.retention_ms, log.config.compacted), (77, True))
        self.assertEqual(self.incremental(("cleanup.policy", 3, "delete"), ("retention.ms", 1, None)), 0)
        self.assertEqual(self.values(source=1), {"cleanup.policy": "compact"})
        self.assertEqual(log.config.retention_ms, 604_800_000)

    def test_incremental_refused(self) -> None:
        """What is wrong changes nothing."""
        changes: list[tuple[str, int, str | None]]
        for changes, code in (
            ([("no.such", 0, "1")], ErrorCode.INVALID_CONFIG),
            ([("retention.ms", 0, "x")], ErrorCode.INVALID_CONFIG),
            ([("retention.ms", 2, "1")], ErrorCode.INVALID_CONFIG),
            ([("cleanup.policy", 2, None)], ErrorCode.INVALID_CONFIG),
            ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
            ([("retention.ms", 0, "1"), ("retention.ms", 0, "2")], ErrorCode.INVALID_REQUEST),
        ):
            self.assertEqual(self.incremental(*changes), code, changes)
        self.assertEqual(self.values(source=1), {})

    def test_whole(self) -> None:
        """AlterConfigs replaces all there is; validate_only nothing."""
        self.assertEqual(self.alter(replacement(retention_ms="5", segment_ms="600000")), [0])
        self.assertEqual(self.alter(replacement(retention_ms="9"), validate_only=True), [0])
        self.assertEqual(self.alter(replacement(segment_ms="700000")), [0])
        self.assertEqual(self.values(source=1), {"segment.ms": "700000"})

    def test_resources(self) -> None:
        """Unknown topics, other brokers and other kinds of resources."""
        codes = self.alter(
            replacement(name="none", retention_ms="5"),
            replacement(BROKER, "7", log_retention_ms="5"),
            replacement(8, "0"),
        )
        invalid = ErrorCode.INVALID_REQUEST
        self.assertEqual(codes, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, invalid, invalid])
        for kind, name, code in (
            (TOPIC, "none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
            (BROKER, "x", invalid),
            (16, "", invalid),
        ):
            (result,) = self.client.ask(DescribeConfigsRequest(resources=[question(kind, name)]), 4).results
            self.assertEqual((result.error_code, result.configs), (code, []), (kind, name))

    def test_broker_defaults(self) -> None:
        """A dynamic default of all brokers reaches the topics that say nothing themselves."""
        self.assertEqual(self.incremental(("log.retention.ms", 0, "4242"), kind=BROKER, name=""), 0)
        self.assertEqual(self.server.broker.replicas.get("t", 0).log.config.retention_ms, 4242)
        self.assertEqual(self.values()["retention.ms"], "4242")
        self.assertEqual(self.values(BROKER, "0")["log.retention.ms"], "4242")

    def test_security_that_is_not_enforced(self) -> None:
        """A running broker takes no setting that promises what it does not do."""
        for name in ("ssl.client.auth", "listener.name.kafka.ssl.client.auth"):
            self.assertEqual(
                self.incremental((name, 0, "required"), kind=BROKER, name="0"), ErrorCode.INVALID_CONFIG, name
            )
        self.assertEqual(self.incremental(("log.retention.ms", 0, "7000"), kind=BROKER, name=""), 0)

    def test_named_twice(self) -> None:
        """A resource that is named twice is altered neither way, and described once."""
        one = replacement(retention_ms="5")
        self.assertEqual(self.alter(one, one), [ErrorCode.INVALID_REQUEST] * 2)
        self.assertEqual(len(self.client.ask(DescribeConfigsRequest(resources=[question()] * 50), 4).results), 1)

    def test_some_keys(self) -> None:
        """Only the settings that were asked for; unknown ones are left out."""
        request = DescribeConfigsRequest(
            resources=[question(keys=["retention.ms", "no.such"])], include_documentation=True, include_synonyms=True
        )
        (entry,) = self.client.ask(request, 4).results[0].configs
        self.assertEqual((entry.name, entry.value), ("retention.ms", "604800000"))
        self.assertTrue(entry.documentation)
        self.assertTrue(entry.synonyms)
