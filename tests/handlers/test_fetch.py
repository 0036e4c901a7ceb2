"""Fetch; sessions and the protocol's pitfalls have tests of their own."""

from __future__ import annotations

from logbus.errors import ErrorCode, StorageError
from logbus.handlers.fetch import FetchHandlers
from tests.handlers.kit import HandlerCase, MemoryBroker, a_batch, content, fetch_request


class FetchTests(HandlerCase):
    """Records out."""

    def test_the_brokers_limit(self) -> None:
        """fetch.max.bytes holds, whatever the client would take; what is sent is counted."""
        server = MemoryBroker({"fetch.max.bytes": "2048"}).start()
        self.addCleanup(server.close)
        server.create("t")
        client = server.connect()
        for _ in range(10):
            client.produce(a_batch(bytes(500)))
        size = len(content(client.fetch(0)))
        self.assertTrue(500 < size <= 2048)
        self.assertEqual(server.broker.kafka_server.router.find(FetchHandlers).bytes_sent, size)

    def test_no_bytes_at_all(self) -> None:
        """A consumer that takes no bytes gets the first batch all the same, or it would never get on (KIP-74)."""
        self.client.produce(a_batch(b"a"))
        self.client.produce(a_batch(b"b"))
        for given in ({"partition_max_bytes": 0}, {"max_bytes": 0}, {"partition_max_bytes": -1}):
            self.assertEqual(len(content(self.client.fetch(0, **given))), len(a_batch(b"a")))

    def test_read_committed(self) -> None:
        """Without transactions, committed and uncommitted are the same."""
        self.client.produce()
        answer = self.client.fetch(0, isolation_level=1)
        self.assertEqual((answer.last_stable_offset, answer.aborted_transactions), (1, []))
        self.assertNotEqual(content(answer), b"")

    def test_a_broken_log(self) -> None:
        """A log that cannot be read is an error of its partition."""
        self.client.produce()

        def gone(*_: object, **__: object) -> None:
            raise StorageError("the disk is gone")

        self.patch(type(self.server.broker.replication.replicas.get("t", 0)), "read", gone)
        answers = self.client.ask(fetch_request([("t", 0, 0), ("t", 1, 0)]), 12).responses[0].partitions
        self.assertEqual({answer.error_code for answer in answers}, {ErrorCode.KAFKA_STORAGE_ERROR})
