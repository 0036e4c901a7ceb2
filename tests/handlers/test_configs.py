"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from logbus.errors import ErrorCode
from logbus.ilogbus import Listener
from logbus.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)
from tests.handlers.kit import HandlerCase, MemoryBroker

TOPIC, BROKER, GROUP = 2, 4, 32


def replacement(kind: int = TOPIC, name: str = "t", **configs: str | None) -> AlterConfigsResource:
    given = [AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=given)


def question(kind: int = TOPIC, name: str = "t", keys: list[str] | None = None) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)


class ConfigTests(HandlerCase):
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
        log = self.server.broker.replication.replicas.get("t", 0).log
        self.assertEqual(self.incremental(("retention.ms", 0, "77"), ("cleanup.policy", 2, "compact")), 0)
        self.assertEqual(self.values(source=1), {"retention.ms": "77", "cleanup.policy": "delete,compact"})
        self.assertEqual((log.config.retention_ms, log.config.compacted), (77, True))
        self.assertEqual(self.incremental(("cleanup.policy", 3, "delete"), ("retention.ms", 1, None)), 0)
        self.assertEqual(self.values(source=1), {"cleanup.policy": "compact"})
        self.assertEqual(log.config.retention_ms, 604_800_000)

    def test_incremental_refused(self) -> None:
        """An invalid change has no effect."""
        changes: list[tuple[str, int, str | None]]
        for changes, code in (
            ([("no.such", 0, "1")], ErrorCode.INVALID_CONFIG),
            ([("retention.ms", 0, "x")], ErrorCode.INVALID_CONFIG),
            ([("retention.ms", 2, "1")], ErrorCode.INVALID_CONFIG),
            ([("cleanup.policy", 2, None)], ErrorCode.INVALID_REQUEST),
            ([("retention.ms", 0, None)], ErrorCode.INVALID_REQUEST),
            ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
            ([("retention.ms", 0, "1"), ("retention.ms", 0, "2")], ErrorCode.INVALID_REQUEST),
        ):
            self.assertEqual(self.incremental(*changes), code, changes)
        self.assertEqual(self.values(source=1), {})

    def test_alter_configs_replaces_all(self) -> None:
        """AlterConfigs replaces all overrides, and nothing with validate_only."""
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
        self.assertEqual(self.server.broker.replication.replicas.get("t", 0).log.config.retention_ms, 4242)
        self.assertEqual(self.values()["retention.ms"], "4242")
        self.assertEqual(self.values(BROKER, "0")["log.retention.ms"], "4242")

    def test_no_cleanup_policy(self) -> None:
        """The last policy can be taken away: then nothing is deleted or compacted (KIP-1161)."""
        log = self.server.broker.replication.replicas.get("t", 0).log
        self.assertEqual(self.incremental(("cleanup.policy", 3, "delete")), 0)
        self.assertEqual((self.values(source=1), log.config.cleanup_policy), ({"cleanup.policy": ""}, frozenset()))
        self.assertEqual(self.incremental(("cleanup.policy", 2, "compact")), 0)
        self.assertEqual(log.config.cleanup_policy, {"compact"})

    def test_missing_topic(self) -> None:
        """Values are validated before the topic is looked up."""
        for change, code in (
            (("retention.ms", 0, "x"), ErrorCode.INVALID_CONFIG),
            (("no.such", 0, "1"), ErrorCode.INVALID_CONFIG),
            (("retention.ms", 0, None), ErrorCode.INVALID_REQUEST),
            (("retention.ms", 0, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ):
            self.assertEqual(self.incremental(change, name="none"), code, change)
        self.assertEqual(self.alter(replacement(name="none", retention_ms="x")), [ErrorCode.INVALID_CONFIG])
        self.assertEqual(self.alter(replacement(retention_ms=None)), [ErrorCode.INVALID_REQUEST])
        self.assertEqual(self.incremental(("retention.ms", 0, "1"), name="a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION)
        self.assertEqual(self.incremental(("retention.ms", 0, "1"), name=""), ErrorCode.INVALID_REQUEST)

    def test_broker_refusals(self) -> None:
        """Any invalid broker setting is INVALID_REQUEST."""
        for change in (("broker.id", 0, "5"), ("log.retention.ms", 0, "x"), ("log.retention.ms", 0, None)):
            self.assertEqual(self.incremental(change, kind=BROKER, name="0"), ErrorCode.INVALID_REQUEST, change)

    def test_timestamp_difference(self) -> None:
        """A limit that would not be kept is refused; Kafka's former default asks for nothing."""
        name = "message.timestamp.difference.max.ms"
        self.assertEqual(self.incremental((name, 0, "1000")), ErrorCode.INVALID_CONFIG)
        self.assertEqual(self.incremental((name, 0, str(2**63 - 1))), 0)

    def test_groups(self) -> None:
        """A group's own settings: stored, described, listed, and gone with the last one."""
        session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
        defaults = {
            session: "45000",
            heartbeat: "5000",
            "consumer.assignment.interval.ms": "1000",
            "share.session.timeout.ms": "45000",
            "share.heartbeat.interval.ms": "5000",
            "share.assignment.interval.ms": "1000",
            "share.delivery.count.limit": "5",
            "share.record.lock.duration.ms": "30000",
            "share.partition.max.record.locks": "2000",
            "share.auto.offset.reset": "latest",
            "share.isolation.level": "read_uncommitted",
            "share.renew.acknowledge.enable": "true",
            "streams.session.timeout.ms": "45000",
            "streams.heartbeat.interval.ms": "5000",
            "streams.assignment.interval.ms": "1000",
            "streams.num.standby.replicas": "0",
            "streams.initial.rebalance.delay.ms": "3000",
        }
        self.assertEqual(self.values(GROUP, "g/1"), defaults)
        self.assertEqual(self.incremental((session, 0, "50000"), (heartbeat, 0, "6000"), kind=GROUP, name="g/1"), 0)
        self.assertEqual(self.values(GROUP, "g/1", source=8), {session: "50000", heartbeat: "6000"})
        listed = self.client.ask(ListConfigResourcesRequest(resource_types=[GROUP]), 1).config_resources
        self.assertEqual([(each.resource_name, each.resource_type) for each in listed], [("g/1", GROUP)])
        self.assertEqual(self.incremental((heartbeat, 1, None), kind=GROUP, name="g/1"), 0)
        self.assertEqual(self.values(GROUP, "g/1"), {**defaults, session: "50000"})
        self.assertEqual(self.alter(replacement(GROUP, "g/1")), [0])
        self.assertEqual(self.values(GROUP, "g/1"), defaults)
        self.assertEqual(self.client.ask(ListConfigResourcesRequest(resource_types=[GROUP]), 1).config_resources, [])

    def test_groups_refused(self) -> None:
        """Values beyond the broker's bounds, unknown keys, no values, no name."""
        session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
        for change, code in (
            ((session, 0, "500"), ErrorCode.INVALID_CONFIG),
            ((session, 0, "60001"), ErrorCode.INVALID_CONFIG),
            ((heartbeat, 0, "x"), ErrorCode.INVALID_CONFIG),
            (("share.session.timeout.ms", 0, "70000"), ErrorCode.INVALID_CONFIG),
            (("share.record.lock.duration.ms", 0, "1000"), ErrorCode.INVALID_CONFIG),
            (("share.delivery.count.limit", 0, "1"), ErrorCode.INVALID_CONFIG),
            (("share.auto.offset.reset", 0, "none"), ErrorCode.INVALID_CONFIG),
            (("share.auto.offset.reset", 0, "by_duration:-PT1H"), ErrorCode.INVALID_CONFIG),
            (("streams.session.timeout.ms", 0, "70000"), ErrorCode.INVALID_CONFIG),
            (("streams.assignment.interval.ms", 0, "15001"), ErrorCode.INVALID_CONFIG),
            (("share.assignment.interval.ms", 0, "-1"), ErrorCode.INVALID_CONFIG),
            (("group.consumer.session.timeout.ms", 0, "45000"), ErrorCode.INVALID_CONFIG),
            ((session, 2, "1"), ErrorCode.INVALID_CONFIG),
            ((session, 0, None), ErrorCode.INVALID_REQUEST),
        ):
            self.assertEqual(self.incremental(change, kind=GROUP, name="g"), code, change)
        self.assertEqual(self.incremental((session, 0, "50000"), kind=GROUP, name=""), ErrorCode.INVALID_REQUEST)
        self.assertEqual(self.values(GROUP, "g", source=8), {})

    def test_groups_after_a_restart(self) -> None:
        """They are read back, whatever the group is called."""
        names = ["g", ".", "..", "a/b c", "é%"]
        for name in names:
            change = ("consumer.session.timeout.ms", 0, "50000")
            self.assertEqual(self.incremental(change, kind=GROUP, name=name), 0, name)
        self.server.stop()
        self.server = MemoryBroker(self.config, disks=self.server.disks, ensemble=self.server.ensemble).start()
        self.addCleanup(self.server.close)
        self.assertEqual(sorted(self.server.broker.member.metadata.group_configs), sorted(names))

    def test_listeners_as_bound(self) -> None:
        """Listeners are described as bound, not by the default; other settings are unchanged."""
        server = MemoryBroker(listeners=[Listener("edge", "kafka", "tcp:9123:interface=0.0.0.0", ("edge.test", 0))])
        server.start()
        self.addCleanup(server.close)
        names = ["listeners", "advertised.listeners", "admin.listeners"]
        request = DescribeConfigsRequest(resources=[question(BROKER, "0", names)], include_synonyms=True)
        configs = server.connect(listener="edge").ask(request, 4).results[0].configs
        shown = {each.name: (each.value, each.config_source) for each in configs}
        bound, advertised = ("edge://0.0.0.0:9123", 4), ("edge://edge.test:9123", 4)
        self.assertEqual(shown, {"listeners": bound, "advertised.listeners": advertised, "admin.listeners": ("", 4)})
        synonyms = next(each.synonyms for each in configs if each.name == "listeners")
        self.assertEqual([(s.value, s.source) for s in synonyms], [(bound[0], 4), ("PLAINTEXT://127.0.0.1:9092", 5)])

    def test_success_has_an_empty_message(self) -> None:
        """As Kafka's brokers say it, not null."""
        (result,) = self.client.ask(DescribeConfigsRequest(resources=[question()]), 4).results
        self.assertEqual((result.error_code, result.error_message), (0, ""))

    def test_named_twice(self) -> None:
        """A resource that is named twice is altered neither way, and described once."""
        one = replacement(retention_ms="5")
        self.assertEqual(self.alter(one, one), [ErrorCode.INVALID_REQUEST] * 2)
        self.assertEqual(len(self.client.ask(DescribeConfigsRequest(resources=[question()] * 50), 4).results), 1)

    def test_key_named_twice(self) -> None:
        """Kafka does not take the last value either, nor look at the others first."""
        one = replacement(retention_ms="5", segment_ms="600000")
        for more in ("5", "6", None, "x"):
            one.configs[1:] = [AlterableConfig(name="retention.ms", value=more)]
            self.assertEqual(self.alter(one), [ErrorCode.INVALID_REQUEST], more)
        self.assertEqual(self.values(source=1), {})

    def test_some_keys(self) -> None:
        """Only the settings that were asked for; unknown ones are left out."""
        request = DescribeConfigsRequest(
            resources=[question(keys=["retention.ms", "no.such"])], include_documentation=True, include_synonyms=True
        )
        (entry,) = self.client.ask(request, 4).results[0].configs
        self.assertEqual((entry.name, entry.value), ("retention.ms", "604800000"))
        self.assertTrue(entry.documentation)
        self.assertTrue(entry.synonyms)
