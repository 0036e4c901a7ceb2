"""ListConfigResources."""

from __future__ import annotations

from logbus.errors import ErrorCode
from logbus.wire.messages.configs import ListConfigResourcesRequest
from tests.handlers.kit import HandlerCase


class ListTests(HandlerCase):
    """Resources with settings."""

    def listed(self, *types: int) -> list[tuple[int, str]]:
        """Types and names."""
        answer = self.client.ask(ListConfigResourcesRequest(resource_types=list(types)), 1)
        self.assertEqual(answer.error_code, 0)
        return [(each.resource_type, each.resource_name) for each in answer.config_resources]

    def test_all(self) -> None:
        """Topics, brokers and their loggers, if nothing else is asked for."""
        self.server.create("a")
        self.assertEqual(self.listed(), [(2, "a"), (2, "t"), (4, "0"), (8, "0")])

    def test_some(self) -> None:
        """Only what is asked for, once; of other types that Kafka knows there are none."""
        self.assertEqual(self.listed(2, 2), [(2, "t")])
        self.assertEqual(self.listed(4), [(4, "0")])
        self.assertEqual(self.listed(8), [(8, "0")])
        self.assertEqual(self.listed(16, 32), [])

    def test_unknown(self) -> None:
        """A type that Kafka does not know is refused."""
        answer = self.client.ask(ListConfigResourcesRequest(resource_types=[2, 3]), 1)
        self.assertEqual((answer.error_code, answer.config_resources), (ErrorCode.UNSUPPORTED_VERSION, []))

    def test_version_0(self) -> None:
        """Version 0 lists client metrics, of which there are none."""
        self.assertEqual(self.client.ask(ListConfigResourcesRequest(), 0).config_resources, [])
