"""Produce requests that wait while records are written: every client gets what it would get without."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from logbus.errors import ErrorCode
from logbus.handlers import coalesced_produce, large_produce, produce_appender
from logbus.records.batch import iter_records
from logbus.records.file_slice import joined
from logbus.storage.appends import large_appends
from logbus.storage.istorage import IOPool
from logbus.wire.messages.records import PartitionProduceData
from tests.handlers.kit import Client, HandlerCase, MemoryBroker, a_batch, content, produce_request

LARGE = 1000


class LargeProduceCase(HandlerCase):
    """Of a broker whose disk is slow; the threads do something when they are told to."""

    def setUp(self) -> None:
        for module in (large_produce, produce_appender, large_appends):
            self.patch(module, "LARGE", LARGE)
        for module in (coalesced_produce, large_produce, produce_appender, large_appends):
            self.patch(module, "LEAST_FOR_THREAD", LARGE)
        super().setUp()
        self.slow_down(self.server)
        self.receive_in_place(self.client)

    def slow_down(self, server: MemoryBroker) -> None:
        """Have a disk that writes large batches ahead; logs have been written to."""
        writer = server.connect()
        for partition in (0, 1):
            writer.produce(a_batch(b"first"), partition=partition)
        server.disks[0].ahead = []

    def receive_in_place(self, client: Client) -> Client:
        client.protocol._frame_transport.receives_in_place = True  # type: ignore[misc]
        return client

    def written(self) -> None:
        self.assertTrue(self.disk.release_ahead())

    def values(self, partition: int = 0) -> list[bytes | None]:
        return [record.value for record in iter_records(content(self.client.fetch(partition=partition)))]


def errors(client: Client) -> list[int]:
    """The error codes of the responses that came."""
    return [
        partition.error_code
        for response in client.answers()
        for topic in response.responses
        for partition in topic.partition_responses
    ]


class LargeProduceTests(LargeProduceCase):
    def large(self, tag: bytes = b"large") -> bytes:
        return a_batch(tag + bytes(LARGE))

    def test_it_waits(self) -> None:
        """It is answered when its records are written; meanwhile others are served, and nothing is received."""
        self.client.send(produce_request(self.large()), 9)
        self.assertEqual((errors(self.client), self.client.transport.producerState), ([], "paused"))
        other = self.server.connect()
        self.assertEqual(other.produce(partition=1).base_offset, 1)
        self.assertEqual(len(iter_values(content(other.fetch()))), 1)
        self.written()
        self.assertEqual((errors(self.client), self.client.transport.producerState), ([0], "producing"))
        self.assertEqual(len(self.values()[1] or b""), LARGE + 5)

    def test_another_codec(self) -> None:
        """A batch that gets the topic's codec waits for a thread as well; others are served meanwhile."""
        log = self.server.broker.replication.replicas.get("t", 0).log
        log.configure(evolve(log.config, compression_type="gzip"))
        self.disk.held.add(IOPool.BACKGROUND)
        self.client.send(produce_request(self.large()), 9)
        self.assertEqual((errors(self.client), log.log_end_offset), ([], 1))
        other = self.server.connect()
        self.assertEqual(other.produce(partition=1).base_offset, 1)
        self.disk.held.clear()
        while self.disk.release(IOPool.BACKGROUND):
            pass
        self.assertEqual((errors(self.client), log.log_end_offset), ([0], 2))
        self.assertEqual(len(self.values()[1] or b""), LARGE + 5)

    def test_small_ones_behind_it(self) -> None:
        """Requests for the same partition wait as well, those that were recognized, too."""
        others = [self.receive_in_place(self.server.connect()) for _ in range(3)]
        for other in others[:2]:
            other.produce(a_batch(b"before"))
        self.client.send(produce_request(self.large()), 9)
        for other in others:
            other.send(produce_request(a_batch(b"small")), 9)
        self.assertEqual([errors(other) for other in others], [[], [], []])
        self.written()
        self.assertEqual([errors(one) for one in (self.client, *others)], [[0], [0], [0], [0]])
        self.assertEqual([len(value or b"") for value in self.values()[3:]], [LARGE + 5, 5, 5, 5])

    def test_refused(self) -> None:
        """What will be refused is not written, as far as that is known before; in the end the answer is the same."""
        wrong = bytearray(self.large())
        wrong[-1] ^= 1
        for request, expected, ahead in (
            (produce_request(self.large(), "unknown"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
            (produce_request(self.large(), "__consumer_offsets"), ErrorCode.INVALID_TOPIC_EXCEPTION, False),
            (produce_request(self.large(), acks=7), ErrorCode.INVALID_REQUIRED_ACKS, False),
            (produce_request(bytes(wrong)), ErrorCode.CORRUPT_MESSAGE, True),
            (produce_request(a_batch(bytes(LARGE), producer_id=1, producer_epoch=0, base_sequence=7)), 0, True),
        ):
            self.client.send(request, 9)
            self.assertEqual(self.disk.release_ahead(), ahead)
            self.assertEqual(errors(self.client), [expected])
        self.assertEqual(len(self.values()), 2)

    def test_the_client_leaves(self) -> None:
        """A request whose client leaves before it is served is as if it had not come; the next one has its turn."""
        other = self.receive_in_place(self.server.connect())
        self.client.send(produce_request(self.large()), 9)
        other.send(produce_request(self.large(b"other")), 9)
        self.client.transport.loseConnection()
        self.written()
        self.written()
        self.assertEqual(errors(other), [0])
        self.client = self.server.connect()
        self.assertEqual([(value or b"")[:5] for value in self.values()], [b"first", b"other"])

    def test_other_transports(self) -> None:
        """A transport that goes on receiving, as of TLS, has its requests served at once."""
        other = self.server.connect()
        self.assertEqual(other.produce(self.large()).base_offset, 1)
        self.client.send(produce_request(self.large()), 9)
        self.assertEqual(other.produce().base_offset, 2)
        self.written()
        self.assertEqual(errors(self.client), [0])
        self.assertEqual([len(value or b"") for value in self.values()], [5, LARGE + 5, 1, LARGE + 5])

    def test_several_partitions(self) -> None:
        """Of a request with several batches the first large one is written ahead, and all are appended in its turn."""
        request = produce_request(self.large())
        request.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=self.large(b"more!")))
        self.client.send(request, 9)
        self.written()
        self.assertEqual(errors(self.client), [0, 0])
        self.assertEqual([len(self.values(partition)) for partition in (0, 1)], [2, 2])

    def test_the_broker_stops(self) -> None:
        """A broker that stops ends the connection, and the log has nothing of it."""
        self.client.send(produce_request(self.large()), 9)
        self.server.stop()
        self.assertTrue(self.client.closed)
        log = self.disk.read("t-0/" + "0" * 20 + ".log")
        self.assertEqual(len(log), len(a_batch(b"first")))

    @given(
        st.lists(
            st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 1]), st.sampled_from(["small", "large", "run", "all"])),
            max_size=25,
        ),
        st.lists(st.booleans(), max_size=25),
    )
    def test_any_mix(self, script: list[tuple[int, int, str]], when: list[bool]) -> None:
        """Whoever sends what, and whenever threads are done: each response is right, and in the order of requests."""
        for module in (large_produce, produce_appender, large_appends):
            self.patch(module, "LARGE", LARGE)
        for module in (coalesced_produce, large_produce, produce_appender, large_appends):
            self.patch(module, "LEAST_FOR_THREAD", LARGE)
        server = MemoryBroker().start()
        try:
            server.create("t", 2)
            self.slow_down(server)
            clients = [self.receive_in_place(server.connect()) for _ in range(3)] + [server.connect()]
            sent: list[list[tuple[int, bytes]]] = [[] for _ in clients]
            unsent: list[list[bytes]] = [[] for _ in clients]
            number = 0
            for (who, partition, what), done in zip(script, [*when, *[True] * len(script)], strict=False):
                for _ in range(3 if what == "run" else 1):
                    number += 1
                    value = b"%d " % number + bytes(LARGE if what == "large" else 5)
                    request = produce_request(a_batch(value), partition=partition, acks=-1 if what == "all" else 1)
                    unsent[who].append(joined(clients[who].wire.request(request, 9)[1]))
                    sent[who].append((partition, value))
                pump(clients, unsent)
                if done:
                    server.disks[0].release_ahead()
            for _ in range(4 * number):
                pump(clients, unsent)
                server.disks[0].release_ahead()
                server.reactor.advance(0)
            logs = [content(server.connect().fetch(partition=partition)) for partition in (0, 1)]
            found = [{record.offset: record.value for record in iter_records(log)} for log in logs]
            self.assertEqual(sum(map(len, found)), number + 2)
            for client, requests in zip(clients, sent, strict=True):
                answers: list[Any] = [one.responses[0].partition_responses[0] for one in client.answers()]
                self.assertEqual([(one.index, found[one.index][one.base_offset]) for one in answers], requests)
        finally:
            server.close()


def pump(clients: list[Client], unsent: list[list[bytes]]) -> None:
    """Send what waits, unless a connection does not receive."""
    for client, waiting in zip(clients, unsent, strict=True):
        data = b"".join(waiting)
        if data and client.transport.producerState == "producing":
            waiting.clear()
            client.feed(data)


def iter_values(data: bytes) -> list[bytes | None]:
    """The values of the records in some batches."""
    return [record.value for record in iter_records(data)]
