"""Loggers as resources of DescribeConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from logbus.cluster.forwarding_manager import ForwardingManager
from logbus.errors import ErrorCode
from logbus.log_levels import process_levels
from logbus.records.file_slice import joined
from logbus.wire.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from logbus.wire.schema import encode
from tests.handlers.kit import HandlerCase

LOGGER = 8


def resource(kind: int, name: str, *changes: tuple[str, int, str | None]) -> IncrementalAlterConfigsResource:
    configs = [IncrementalAlterableConfig(name=n, config_operation=op, value=value) for n, op, value in changes]
    return IncrementalAlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


class BrokerLoggerTests(HandlerCase):
    """Levels described and altered."""

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(process_levels.configure, {})

    def ask(self, *resources: IncrementalAlterConfigsResource, validate_only: bool = False) -> list[int]:
        request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
        return [answer.error_code for answer in self.client.ask(request, 1).responses]

    def alter(self, *changes: tuple[str, int, str | None], validate_only: bool = False) -> int:
        (code,) = self.ask(resource(LOGGER, "0", *changes), validate_only=validate_only)
        return code

    def described(self, *names: str, broker: str = "0") -> dict[str, tuple[str | None, int]]:
        asked = DescribeConfigsResource(
            resource_type=LOGGER, resource_name=broker, configuration_keys=list(names) or None
        )
        (result,) = self.client.ask(DescribeConfigsRequest(resources=[asked]), 4).results
        self.assertEqual(result.error_code, 0)
        return {each.name: (each.value, each.config_source) for each in result.configs}

    def test_described(self) -> None:
        """All packages are shown with the levels in effect."""
        found = self.described()
        self.assertEqual(found["root"], ("INFO", 6))
        self.assertEqual(found["logbus.storage"], ("INFO", 5))
        self.assertEqual(self.described("logbus.net.protocol", "none"), {"logbus.net.protocol": ("INFO", 5)})

    def test_set_and_deleted(self) -> None:
        """A level applies at once to what is below, and can be removed."""
        self.assertEqual(self.alter(("logbus.net", 0, "DEBUG"), ("logbus.storage", 0, "ERROR")), 0)
        self.assertEqual(
            self.described("logbus.net", "logbus.net.protocol"),
            {
                "logbus.net": ("DEBUG", 6),
                "logbus.net.protocol": ("DEBUG", 5),
            },
        )
        self.assertEqual(process_levels.level("logbus.storage.log"), "ERROR")
        self.assertEqual(self.alter(("logbus.net", 1, None)), 0)
        self.assertEqual(self.described("logbus.net"), {"logbus.net": ("INFO", 5)})

    def test_refused(self) -> None:
        """Wrong changes are refused as a whole, with Kafka's codes."""
        changes: tuple[str, int, str | None]
        for changes, code in (
            (("logbus.net", 0, "LOUD"), ErrorCode.INVALID_CONFIG),
            (("logbus.none", 0, "INFO"), ErrorCode.INVALID_CONFIG),
            (("logbus.net", 0, None), ErrorCode.INVALID_REQUEST),
            (("logbus.net", 2, "INFO"), ErrorCode.INVALID_REQUEST),
            (("root", 1, None), ErrorCode.INVALID_REQUEST),
            (("logbus.storage", 0, "INFO"), ErrorCode.INVALID_REQUEST),
        ):
            self.assertEqual(self.alter(("logbus.storage", 0, "ERROR"), changes), code, changes)
        self.assertEqual(self.alter(("logbus.storage", 0, "ERROR"), validate_only=True), 0)
        self.assertEqual(process_levels.level("logbus.storage"), "INFO")

    def test_other_brokers(self) -> None:
        """Levels belong to the process that is asked."""
        codes = self.ask(resource(LOGGER, "7", ("root", 0, "DEBUG")))
        self.assertEqual(codes, [ErrorCode.INVALID_REQUEST])
        asked = DescribeConfigsResource(resource_type=LOGGER, resource_name="", configuration_keys=None)
        (result,) = self.client.ask(DescribeConfigsRequest(resources=[asked]), 4).results
        self.assertEqual(result.error_code, ErrorCode.INVALID_REQUEST)

    def test_beside_others(self) -> None:
        """One request may change loggers and a topic."""
        codes = self.ask(resource(2, "t", ("retention.ms", 0, "77")), resource(LOGGER, "0", ("logbus.net", 0, "WARN")))
        self.assertEqual(codes, [0, 0])
        self.assertEqual(process_levels.level("logbus.net"), "WARN")
        self.assertEqual(self.server.broker.replication.replicas.get("t", 0).log.config.retention_ms, 77)

    def test_beside_others_of_the_controller(self) -> None:
        """What another broker, the controller, answers about a topic is in the response as well."""
        forwarded = []

        async def send(forwarder: object, message: IncrementalAlterConfigsRequest, version: int, **_: object) -> bytes:
            forwarded.extend(message.resources)
            answers = [
                AlterConfigsResourceResponse(
                    error_code=ErrorCode.INVALID_CONFIG,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                )
                for each in message.resources
            ]
            return joined(encode(IncrementalAlterConfigsResponse(responses=answers), version))

        self.patch(ForwardingManager, "is_needed", True)
        self.patch(ForwardingManager, "send", send)
        topic = resource(2, "t", ("retention.ms", 0, "77"))
        codes = self.ask(topic, resource(LOGGER, "0", ("logbus.net", 0, "WARN")))
        self.assertEqual((codes, forwarded), ([0, ErrorCode.INVALID_CONFIG], [topic]))
        self.assertEqual(process_levels.level("logbus.net"), "WARN")

    def test_replacing_is_refused(self) -> None:
        """AlterConfigs, which replaces all, is not for loggers, as in Kafka."""
        request = AlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=LOGGER, resource_name="0", configs=[])], validate_only=False
        )
        (answer,) = self.client.ask(request, 2).responses
        self.assertEqual(answer.error_code, ErrorCode.INVALID_REQUEST)
        self.assertIn("IncrementalAlterConfigs", answer.error_message)
