"""Fetch; sessions and the protocol's pitfalls have tests of their own."""

from __future__ import annotations

from typing import Any

from logbus.cluster.security_nodes import SecurityNodes
from logbus.errors import ErrorCode, StorageError
from logbus.handlers.fetch import FetchHandlers
from logbus.metastore.security_znodes import EntityZnode
from tests.handlers.kit import Client, HandlerCase, MemoryBroker, a_batch, content, fetch_request


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
        self.assertEqual(server.broker.kafka_server.router.find(FetchHandlers).totals.bytes_sent, size)

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
        self.client.produce(partition=1)

        def gone(*_: object, **__: object) -> None:
            raise StorageError("the disk is gone")

        self.patch(type(self.server.broker.replication.replicas.get("t", 0)), "read", gone)
        answers = self.client.ask(fetch_request([("t", 0, 0), ("t", 1, 0)]), 12).responses[0].partitions
        self.assertEqual({answer.error_code for answer in answers}, {ErrorCode.KAFKA_STORAGE_ERROR})


class QuotaTests(HandlerCase):
    """Consumers over their quota: 40,000 bytes a second."""

    def setUp(self) -> None:
        super().setUp()
        for _ in range(20):
            self.client.produce(a_batch(bytes(9_000)))
        self.size = len(a_batch(bytes(9_000)))
        self.quota("40000")

    def quota(self, value: str) -> None:
        nodes: SecurityNodes = self.server.broker.member.metadata.security_nodes
        entity = {"client-id": "tester"}
        nodes.change({EntityZnode.path(entity): EntityZnode.encode({"consumer_byte_rate": value})})

    def fetch(self, client: Client, offset: int = 0, **given: Any) -> Any:
        return client.ask(fetch_request([("t", 0, offset)], **given), 12)

    def test_portions_and_waits(self) -> None:
        """A consumer gets a part of its quota at once, and a wait after each that is too much."""
        waits = []
        for offset in range(8):
            response = self.fetch(self.client, offset)
            data = content(response.responses[0].partitions[0])
            self.assertEqual(len(data), self.size)
            waits.append(response.throttle_time_ms)
            self.client.turn(response.throttle_time_ms / 1000)
        self.assertEqual(waits[:4], [0, 0, 0, 0])
        self.assertTrue(all(100 < wait < 300 for wait in waits[5:]), waits)

    def test_half_a_minute(self) -> None:
        """A consumer that takes all it gets has its quota, within 5 %, the beginning included."""
        begun, got = self.server.reactor.seconds(), 0
        while self.server.reactor.seconds() < begun + 30:
            response = self.fetch(self.client, got // self.size % 20)
            got += sum(len(content(data)) for topic in response.responses for data in topic.partitions)
            self.client.turn(max(response.throttle_time_ms, 1) / 1000)
        self.assertTrue(0.95 < got / 30 / 40_000 < 1.05, got)

    def test_shared_by_two(self) -> None:
        """While a client must wait, another one with the same quota gets nothing, and no session."""
        for offset in range(5):
            last = self.fetch(self.client, offset)
        self.assertGreater(last.throttle_time_ms, 100)
        other = self.server.connect()
        response = self.fetch(other)
        self.assertEqual((response.responses, response.session_id), ([], 0))
        self.assertTrue(0 < response.throttle_time_ms <= last.throttle_time_ms)
        other.turn(response.throttle_time_ms / 1000)
        self.assertEqual(len(content(self.fetch(other).responses[0].partitions[0])), self.size)

    def test_sessions(self) -> None:
        """A session goes on after a response without records, and gets them with the next."""
        first = self.fetch(self.client, session_epoch=0)
        self.assertNotEqual(first.session_id, 0)
        other = self.server.connect()
        for offset in range(4):
            wait = self.fetch(other, offset).throttle_time_ms / 1000
        session = {"session_id": first.session_id}
        empty = self.client.ask(fetch_request([("t", 0, 1)], session_epoch=1, **session), 12)
        self.assertEqual((empty.error_code, empty.responses, empty.session_id), (0, [], first.session_id))
        self.client.turn(wait)
        got = self.client.ask(fetch_request([], session_epoch=2, **session), 12)
        self.assertEqual(len(content(got.responses[0].partitions[0])), self.size)

    def many(self, client: Client, **given: Any) -> Any:
        """Fetch so many partitions that it takes time slices; all but one do not exist."""
        wanted = [("t", 0, 0), *(("t", partition, 0) for partition in range(2, 2500))]
        return client.ask(fetch_request(wanted, **given), 12)

    def test_many_partitions(self) -> None:
        """Requests that are served in time slices are charged, and held up, like others."""
        for _ in range(5):
            response = self.many(self.client)
            records = content(response.responses[0].partitions[0])
            self.assertEqual(len(records), self.size)
        self.assertGreater(response.throttle_time_ms, 100)
        refused = self.many(self.server.connect())
        self.assertEqual(refused.responses, [])
        self.assertTrue(0 < refused.throttle_time_ms <= response.throttle_time_ms)

    def test_many_partitions_that_were_waited_for(self) -> None:
        """A fetch in time slices gets nothing, too, when others got all while it waited."""
        waiting = self.server.connect()
        wanted = [("t", 1, offset) for offset in [0] * 2500]
        waiting.send(fetch_request(wanted, max_wait_ms=10_000), 12)
        for offset in range(5):
            self.fetch(self.client, offset)
        self.server.connect().produce(a_batch(b"v"), partition=1)
        for _ in range(20):
            waiting.turn()
        [response] = waiting.answers()
        self.assertEqual(response.responses, [])
        self.assertGreater(response.throttle_time_ms, 0)

    def test_who_waited_for_what_others_got(self) -> None:
        """A fetch that waited for records gets none while its quota is used up by others."""
        waiting = self.server.connect()
        waiting.send(fetch_request([("t", 1, 0)], max_wait_ms=10_000, session_epoch=0), 12)
        self.assertEqual(waiting.answers(), [])
        for offset in range(5):
            self.fetch(self.client, offset)
        producer = self.server.connect()
        producer.produce(a_batch(b"v"), partition=1)
        waiting.turn()
        [response] = waiting.answers()
        self.assertEqual((response.responses, response.session_id), ([], 0))
        self.assertGreater(response.throttle_time_ms, 0)

    def test_a_new_quota(self) -> None:
        """It is in force at once; a very large one is none."""
        for offset in range(5):
            self.fetch(self.client, offset)
        self.quota(str(2**63 - 1))
        self.client.turn(1)
        response = self.fetch(self.client)
        self.assertEqual(len(content(response.responses[0].partitions[0])), 20 * self.size)
        self.assertEqual(response.throttle_time_ms, 0)
