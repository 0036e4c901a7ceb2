"""InitProducerId."""

from __future__ import annotations

from logbus.errors import ApiError, ErrorCode
from logbus.wire.messages.transactions import InitProducerIdRequest
from tests.handlers.kit import HandlerCase, MemoryBroker

REQUEST = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)


class InitProducerIdTests(HandlerCase):
    """Ids for idempotent producers."""

    def test_ids_are_new(self) -> None:
        """Each request gets a new id, also after restarts, at each version."""
        ids = [self.client.ask(REQUEST, version).producer_id for version in range(6)]
        again = MemoryBroker(ensemble=self.server.ensemble)
        self.server.stop()
        again.start()
        self.addCleanup(again.close)
        client = again.connect()
        ids += [client.ask(REQUEST, 4).producer_id for _ in range(3)]
        self.assertEqual(len(set(ids)), 9)

    def test_no_store(self) -> None:
        """Without the metadata store the client gets a retriable error."""

        async def claim(ids: object) -> None:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

        self.patch(type(self.server.broker.member.producer_ids), "_claim", claim)
        self.assertEqual(self.client.ask(REQUEST, 4).error_code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
