"""Coalesced Produce requests: the results are the same as of single requests."""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logbus.config import TopicConfig
from logbus.errors import ErrorCode
from logbus.handlers.produce import ProduceHandlers
from logbus.metastore.security_znodes import EntityZnode
from logbus.model import TopicPartition
from logbus.net.produce_gatherer import MAX_BATCHES
from logbus.records.file_slice import joined
from logbus.storage.istorage import IOPool
from logbus.wire.connection import ClientConnection
from logbus.wire.messages.metadata import MetadataRequest
from logbus.wire.messages.partitions import TopicPartitionIndexes
from logbus.wire.messages.records import PartitionProduceData, ProduceRequest, TopicProduceData
from logbus.wire.messages.transactions import WritableTxnMarker, WriteTxnMarkersRequest
from logbus.wire.request_template import PRODUCE
from tests.handlers.kit import NOW_MS, HandlerCase, MemoryBroker, a_batch, content, fetch_request, produce_request

PLAIN: dict[str, str] = {}
CONFIGS = (
    PLAIN,
    PLAIN,
    {"index_interval_bytes": "100"},
    {"segment_bytes": "1024", "index_interval_bytes": "1"},
    {"segment_index_bytes": "36", "index_interval_bytes": "1"},
    {"segment_ms": "1000", "max_message_bytes": "200"},
    {"message_timestamp_type": "LogAppendTime"},
    {"message_timestamp_after_max_ms": "500"},
    {"compression_type": "lz4"},
    {"cleanup_policy": "compact"},
    {"flush_messages": "3"},
    {"flush_before_ack": "true"},
    {"min_insync_replicas": "2"},
)

good = st.builds(
    lambda size, count, time: a_batch(*[b"v" * size] * count, timestamp=NOW_MS + time),
    st.integers(0, 150),
    st.integers(1, 3),
    st.integers(-1500, 1500),
)
idempotent = st.builds(
    lambda id, sequence: a_batch(producer_id=id, producer_epoch=0, base_sequence=sequence),
    st.integers(1, 2),
    st.integers(0, 3),
)


def sequence(
    id: int, epoch: int, start: int, counts: list[int], mishaps: list[tuple[int, str]], transactional: bool = False
) -> list[bytes]:
    """The batches of a producer: one sequence, sometimes with a duplicate, missing or foreign batch."""
    batches = []
    for i, count in enumerate(counts):
        said = {"producer_id": id, "producer_epoch": epoch, "base_sequence": start, "transactional": transactional}
        start = (start + count) % 2**31
        for what in [what for at, what in mishaps if at == i]:
            said |= {
                "other": {"producer_id": 3 - id},
                "epoch": {"producer_epoch": epoch + 1},
                "older": {"producer_epoch": max(epoch - 1, 0)},
                "open": {"transactional": not transactional},
                "plain": {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1},
                "begin": {"base_sequence": 0},
            }.get(what, {})
            if what in ("again", "gap"):
                batches += batches[-1:] if what == "again" else []
                start = (start + (what == "gap")) % 2**31
        batches.append(a_batch(*[b"v"] * count, timestamp=NOW_MS + i, **said))
    return batches


acks = st.sampled_from([1, -1])
producers = st.builds(
    sequence,
    st.integers(1, 2),
    st.sampled_from([0, 0, 0, 1, 2]),
    st.sampled_from([0, 0, 0, 3, 2**31 - 3]),
    st.lists(st.integers(1, 3), min_size=2, max_size=12),
    st.lists(
        st.tuples(
            st.integers(0, 11), st.sampled_from(["again", "gap", "other", "epoch", "older", "open", "plain", "begin"])
        ),
        max_size=2,
    ),
)


def transactions(epochs: list[int], sent: list[bytes], version: int, asked: int) -> list[tuple[list[Any], int, int]]:
    """The batches of transactions, each followed by the coordinator's marker."""
    requests = [produce_request(data, acks=asked, transactional_id="id") for data in sent]
    marks = [
        WritableTxnMarker(
            producer_id=1,
            producer_epoch=epoch,
            transaction_result=True,
            coordinator_epoch=0,
            topics=[TopicPartitionIndexes(name="t", partition_indexes=[0])],
        )
        for epoch in epochs
    ]
    return [(requests, version, asked), ([WriteTxnMarkersRequest(markers=marks)] if marks else [], 1, asked)]


transacting = st.builds(
    transactions,
    st.lists(st.sampled_from([0, 0, 1]), max_size=1),
    st.builds(
        sequence,
        st.just(1),
        st.sampled_from([0, 0, 0, 1]),
        st.sampled_from([0, 0, 0, 3]),
        st.lists(st.integers(1, 3), min_size=2, max_size=8),
        st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["again", "gap", "other", "epoch", "open"])), max_size=1),
        st.just(True),
    ),
    st.sampled_from([5, 9, 11, 12, 13]),
    acks,
)
odd = st.one_of(
    st.none(),
    st.sampled_from([b"", b"nonsense", a_batch()[:-1], a_batch() + a_batch(), a_batch(key=None)]),
    st.just(a_batch(timestamp=-1)),
    st.builds(lambda data, at: data[:at] + b"\xff" + data[at + 1 :], good, st.integers(0, 67)),
)
batches = st.one_of(good, good, good, idempotent, odd)


def frame(message: Any, version: int, client_id: str | None, correlation_id: int) -> bytes:
    wire = ClientConnection(client_id)
    wire._next_id = correlation_id
    return joined(wire.request(message, version)[1])


def several(data: list[bytes | None]) -> ProduceRequest:
    partitions = [PartitionProduceData(index=index, records=records) for index, records in enumerate(data)]
    return ProduceRequest(acks=1, timeout_ms=10, topic_data=[TopicProduceData(name="t", partition_data=partitions)])


messages = st.one_of(
    st.builds(
        produce_request, batches, st.sampled_from(["t", "t", "t", "unknown", "__consumer_offsets"]), st.integers(0, 1)
    ),
    st.builds(produce_request, batches, acks=st.sampled_from([1, 1, -1, 0, 2])),
    st.builds(produce_request, good, transactional_id=st.just("id")),
    st.builds(several, st.lists(batches, max_size=2)),
    st.just(MetadataRequest(topics=[])),
)
# Much of the same, then something else.
versions = st.sampled_from([3, 5, 7, 8, 9, 9, 11, 12, 13])
stretches = st.lists(
    st.one_of(
        st.tuples(st.lists(good, min_size=3, max_size=8), versions, acks),
        st.tuples(producers, versions, acks),
        st.tuples(producers, versions, acks),
        st.tuples(st.lists(batches, min_size=2, max_size=8), versions, acks),
        st.tuples(st.lists(messages, min_size=1, max_size=2), st.sampled_from([7, 9]), acks),
    ),
    min_size=1,
    max_size=6,
)


CONNECTIONS = 4
# What a connection sends in one poll: mostly small requests that may be gathered.
told = st.one_of(
    st.lists(good, min_size=1, max_size=3),
    st.lists(good, min_size=1, max_size=3),
    st.lists(good, min_size=1, max_size=3),
    st.lists(batches, min_size=1, max_size=3),
    producers,
    st.lists(messages, min_size=1, max_size=2),
)


@cache
def topic_id() -> bytes:
    """The id that the first topic has in a broker of the tests."""
    server = MemoryBroker().start()
    try:
        server.create("t", 2)
        return server.topic_id()
    finally:
        server.close()


def stream(drawn: list[tuple[list[Any], int, int]], clients: list[str | None]) -> bytes:
    frames = []
    for i, (items, version, asked) in enumerate(drawn):
        for item in items:
            message = produce_request(item, acks=asked) if item is None or isinstance(item, bytes) else item
            if version >= 13 and isinstance(message, ProduceRequest):
                message.topic_data[0].topic_id = topic_id()
            frames.append(frame(message, version, clients[i % len(clients)], len(frames) * 1000))
    return b"".join(frames)


class ApprovingCoordinator:
    """A coordinator that approves every partition, the first time with a delay."""

    def __init__(self, clock: Any) -> None:
        self.clock = clock
        self.asked = 0

    def add_or_verify(self, *given: Any) -> Deferred[Any]:
        answer: Deferred[Any] = Deferred()
        self.asked += 1
        self.clock.callLater(0.01 if self.asked == 1 else 0, answer.callback, dict.fromkeys(given[3], ErrorCode.NONE))
        return answer


def served(data: bytes, cuts: list[int], config: dict[str, str], together: bool) -> tuple[Any, ...]:
    """The responses of a broker, and its state afterwards."""
    server = MemoryBroker().start()
    try:
        server.create("t", 2, **config)
        verification: Any = server.broker.kafka_server.router.find(ProduceHandlers).verification
        verification._verifier = ApprovingCoordinator(server.reactor)
        if not together:
            server.plugin.factories["kafka"].coalesced_router = None
        client = server.connect()
        client.protocol.context.broker = 1  # Who writes markers must be one.
        last = 0
        for cut in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
            client.feed(data[last:cut])
            client.turn()
            last = cut
        for _ in range(5):
            client.turn(0.1)
        return client.transport.value(), client.closed, client.protocol.dispatcher.requests, state(server)
    finally:
        server.close()


def served_in_polls(polls: list[dict[int, bytes]], config: dict[str, str], gathering: bool) -> tuple[Any, ...]:
    """
    The responses that a broker gives several connections, and its state afterwards.

    :param polls: what each poll finds readable: bytes by the number of the connection.
    """
    server = MemoryBroker().start()
    try:
        server.create("t", 2, **config)
        factory = server.plugin.factories["kafka"]
        if not gathering:
            factory.gathered_router = None
        clients = [server.connect() for _ in range(CONNECTIONS)]
        for poll in polls:
            for number, data in poll.items():
                if not clients[number].closed:
                    read_together(clients[number], data)
            factory.shared.turn.end()
            clients[0].turn()
        for _ in range(5):
            clients[0].turn(0.1)
        left = [(client.transport.value(), client.closed, client.protocol.dispatcher.requests) for client in clients]
        return left, state(server)
    finally:
        server.close()


def read_together(client: Any, data: bytes) -> None:
    """Have a connection receive bytes, as one of several that a poll found readable."""
    turn = client.protocol.dispatcher._turn
    turn.reading = client.protocol._frame_transport
    client.feed(data)
    turn.reading = None


def state(server: MemoryBroker) -> list[Any]:
    """The logs of a broker, and its counters."""
    broker = server.broker
    left: list[Any] = []
    for index in (0, 1):
        replica = broker.replication.replicas.get("t", index)
        log = replica.log
        left.append((replica.high_watermark, log.log_end_offset, log.producers.end_offset, list(log.producers)))
        for segment in log.segments:
            left.append((segment.base_offset, segment.log.get().pread(segment.log.get().size(), 0)))
            left.append((segment.size, segment.max_timestamp, segment.max_timestamp_offset, segment.indexed_size))
            left.append([segment.offsets.entry(i) for i in range(segment.offsets.count)])
            left.append((segment.times.count, segment.times.last, segment.first_timestamp))
    counts = broker.kafka_server.produce_appender
    left.append(
        (counts.records, counts.batches, counts.bytes_written, counts.refused, broker.kafka_server.router.counts)
    )
    metrics = broker.kafka_server.net_metrics
    left.append((metrics.requests, metrics.bytes_in, metrics.broken_frames, metrics.failures))
    return left


def _with_acks(item: Any, acks: int) -> Any:
    if not isinstance(item, ProduceRequest) or item.acks not in (1, -1):
        return item
    changed = copy(item)
    changed.acks = acks
    return changed


#: Examples of what idempotent and transactional producers send; the ``long`` profile has its full count.
EXAMPLES = 25 if settings.default.max_examples <= 100 else settings.default.max_examples


class TogetherTests(SynchronousTestCase):
    # An example takes a third of a second: two brokers each.
    @settings(deadline=None, max_examples=settings.default.max_examples // 4)
    @given(
        stretches,
        st.lists(st.sampled_from(["one", "one", "other", None, "ä"]), min_size=1, max_size=3),
        st.lists(st.integers(0, 5000), max_size=4),
        st.sampled_from(CONFIGS),
    )
    def test_same_results_as_single_requests(
        self,
        drawn: list[tuple[list[Any], int, int]],
        clients: list[str | None],
        cuts: list[int],
        config: dict[str, str],
    ) -> None:
        """For any mix and fragmentation of requests, responses, logs, indexes and counters are the same."""
        data = stream(drawn, clients)
        together, alone = (served(data, cuts, config, way) for way in (True, False))
        self.assertEqual(together, alone)

    @settings(deadline=None, max_examples=EXAMPLES)
    @given(st.lists(st.tuples(producers, st.sampled_from([9, 13]), acks), min_size=1, max_size=4))
    def test_same_results_for_idempotent_producers(self, drawn: list[tuple[list[Any], int, int]]) -> None:
        """With all batches of idempotent producers in one read."""
        data = stream([([a_batch()], 9, 1), *drawn], ["one"])
        together, alone = (served(data, [], PLAIN, way) for way in (True, False))
        self.assertEqual(together, alone)

    @settings(deadline=None, max_examples=EXAMPLES)
    @given(st.lists(transacting, min_size=1, max_size=4), st.lists(st.integers(0, 5000), max_size=3))
    def test_same_results_for_transactions(self, drawn: list[list[Any]], cuts: list[int]) -> None:
        """With transactional producers whose transactions end now and then, and one without transactions."""
        data = stream([([a_batch()], 9, 1), *[stretch for each in drawn for stretch in each]], ["one"])
        together, alone = (served(data, cuts, PLAIN, way) for way in (True, False))
        self.assertEqual(together, alone)

    @settings(deadline=None, max_examples=settings.default.max_examples // 4)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from([9, 9, 13, 7]),
                acks,
                st.lists(st.tuples(st.integers(0, CONNECTIONS - 1), told), min_size=2, max_size=6),
            ),
            min_size=1,
            max_size=6,
        ),
        st.lists(st.sampled_from(["one", "other", None]), min_size=1, max_size=3),
        st.sampled_from(CONFIGS),
    )
    def test_same_results_for_any_interleaving(
        self,
        drawn: list[tuple[int, int, list[tuple[int, list[Any]]]]],
        clients: list[str | None],
        config: dict[str, str],
    ) -> None:
        """What several connections get, and what they leave, is the same with their requests gathered or not."""
        polls: list[dict[int, bytes]] = []
        # All templates are known.
        known = [
            (version, asked, [(number, [a_batch()]) for number in range(CONNECTIONS)]) for version, asked, _ in drawn
        ]
        for version, asked, read in known + drawn:
            poll: dict[int, bytes] = {}
            for number, items in read:
                # Which of two connections is first is open, and with other acks it may be another one.
                alike = [_with_acks(item, asked) for item in items]
                more = stream([(alike, version, asked)], clients[number % len(clients) :])
                poll[number] = poll.get(number, b"") + more
            polls.append(poll)
        gathered, alone = (served_in_polls(polls, config, way) for way in (True, False))
        self.assertEqual(gathered, alone)


class GatheredRequestTests(HandlerCase):
    """Requests of several connections that one poll found readable."""

    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }

    def setUp(self) -> None:
        super().setUp()
        self.clients = [self.server.connect() for _ in range(4)]
        for client in self.clients:
            client.produce(a_batch(b"first"))
        self.turn = self.server.plugin.factories["kafka"].shared.turn
        self.writes = 0
        self.disk.faults = self.step

    def step(self, op: str, path: str) -> None:
        self.writes += op == "write" and path.endswith(".log")

    def leave(self, *data: bytes, acks: int = 1) -> None:
        """Have each connection leave a request."""
        for client, records in zip(self.clients, data, strict=False):
            read_together(client, joined(client.wire.request(produce_request(records, acks=acks), 9)[1]))

    def answers(self) -> list[list[tuple[int, int]]]:
        """The responses of each connection since the last call."""
        found = []
        for client in self.clients:
            partitions = [answer.responses[0].partition_responses[0] for answer in client.answers()]
            found.append([(answer.error_code, answer.base_offset) for answer in partitions])
        return found

    def test_one_write_for_several_connections(self) -> None:
        """Nothing is done until the turn ends; then all are one write, and are counted."""
        metrics = self.server.broker.kafka_server.net_metrics
        before = metrics.requests
        self.leave(*4 * [a_batch()])
        self.assertEqual((self.writes, self.answers()), (0, [[], [], [], []]))
        self.turn.end()
        self.assertEqual(self.writes, 1)
        self.assertEqual(self.answers(), [[(0, 4)], [(0, 5)], [(0, 6)], [(0, 7)]])
        self.assertEqual(metrics.requests, before + 4)

    def test_time_of_one_that_was_left_alone(self) -> None:
        """It queues until the turn ends, and is being served only from then on."""
        clock = Clock()
        self.patch(self.server.plugin.factories["kafka"].shared.times, "seconds", clock.seconds)
        times = self.server.plugin.factories["kafka"].shared.times.apis[PRODUCE]
        before = [phase.sum for phase in (times.queue, times.local)]
        self.leave(a_batch())
        clock.advance(1000)
        self.turn.end()
        self.assertEqual(self.answers()[0], [(0, 4)])
        after = [phase.sum for phase in (times.queue, times.local)]
        self.assertEqual([round(end - begin) for begin, end in zip(before, after, strict=True)], [1000, 0])

    def test_refused_batch(self) -> None:
        """A refused batch does not affect its neighbours."""
        self.leave(a_batch(), a_batch(b"x")[:-1] + b"!", a_batch())
        self.turn.end()
        self.assertEqual(self.answers(), [[(0, 4)], [(ErrorCode.CORRUPT_MESSAGE, -1)], [(0, 5)], []])

    def test_idempotent_producers(self) -> None:
        """Each connection has a producer of its own; one that repeats a batch does not affect its neighbours."""
        for sequence in (0, 1):
            self.leave(*[a_batch(producer_id=id, producer_epoch=0, base_sequence=sequence) for id in range(4)])
            self.turn.end()
            self.assertEqual(self.writes, sequence + 1)
            self.assertEqual(self.answers(), [[(0, 4 + 4 * sequence + id)] for id in range(4)])
        self.leave(*[a_batch(producer_id=id, producer_epoch=0, base_sequence=2 - (id == 1)) for id in range(4)])
        self.turn.end()
        self.assertEqual(self.answers(), [[(0, 12)], [(0, 9)], [(0, 13)], [(0, 14)]])

    def test_quota(self) -> None:
        """While anybody has a quota, each connection is charged for its own requests: nothing is left."""
        nodes = self.server.broker.member.metadata.security_nodes
        nodes.change({EntityZnode.path({"user": "ANONYMOUS"}): EntityZnode.encode({"producer_byte_rate": "1000000"})})
        self.leave(a_batch(), a_batch())
        self.assertEqual((self.writes, self.answers()), (2, [[(0, 4)], [(0, 5)], [], []]))

    def test_forbidden(self) -> None:
        """Who may not write is refused; the neighbours are served."""
        self.clients[1].protocol.context.principal = "User:other"
        self.leave(*4 * [a_batch()])
        self.turn.end()
        self.assertEqual(self.answers(), [[(0, 4)], [(ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)], [(0, 5)], [(0, 6)]])

    def test_other_request(self) -> None:
        """Any other request finds what was left before it done."""
        self.leave(a_batch(), a_batch())
        reader = self.server.connect()
        reader.send(fetch_request([("t", 0, 4)]), 12)
        (answer,) = reader.answers()
        self.assertEqual(len(content(answer.responses[0].partitions[0])), 2 * len(a_batch()))
        self.assertEqual(self.answers(), [[(0, 4)], [(0, 5)], [], []])

    def test_more_than_one_run(self) -> None:
        """A connection with anything else in its buffer is served at once, after those before it."""
        self.leave(a_batch())
        client = self.clients[1]
        requests = [joined(client.wire.request(produce_request(a_batch()), 9)[1]) for _ in range(2)]
        read_together(client, requests[0] + requests[1][:9])
        self.assertEqual(self.answers(), [[(0, 4)], [(0, 5)], [], []])

    def test_all_in_sync(self) -> None:
        """With acks=all each waits until its records are durable."""
        self.server.broker.replication.replicas.get("t", 0).log.configure(TopicConfig(flush_before_ack=True))
        for client in self.clients:
            client.produce(a_batch(), acks=-1)
        self.answers()
        self.disk.held.add(IOPool.SYNC)
        self.writes = 0
        self.leave(*4 * [a_batch()], acks=-1)
        self.turn.end()
        self.assertEqual((self.writes, self.answers()), (1, [[], [], [], []]))
        self.disk.held.clear()
        self.disk.release(IOPool.SYNC)
        for _ in range(3):
            self.clients[0].turn()
        self.assertEqual(self.answers(), [[(0, 8)], [(0, 9)], [(0, 10)], [(0, 11)]])

    def test_lost_connection(self) -> None:
        """What a lost connection left is written like the rest, or not, but the others are answered."""
        self.leave(*3 * [a_batch()])
        self.clients[0].protocol.connectionLost(Failure(ConnectionDone()))
        self.turn.end()
        self.assertEqual(self.answers()[1:], [[(0, 5)], [(0, 6)], []])
        self.assertEqual(self.server.broker.kafka_server.net_metrics.requests_pending, 0)

    def test_many(self) -> None:
        """So many batches and no more are left."""
        full, other = self.clients[:2]
        one = joined(full.wire.request(produce_request(a_batch()), 9)[1])
        read_together(full, one * (MAX_BATCHES - 1))
        for _ in range(2):
            self.assertEqual(self.writes, 0)
            read_together(other, joined(other.wire.request(produce_request(a_batch()), 9)[1]))
            other = self.clients[2]
        self.assertEqual(
            (self.writes, [len(client.frames()) for client in self.clients]), (1, [MAX_BATCHES - 1, 1, 0, 0])
        )
        self.turn.end()
        self.assertEqual((self.writes, [len(client.frames()) for client in self.clients]), (2, [0, 0, 1, 0]))


class CoalescedRequestTests(HandlerCase):
    """Requests that are served together."""

    def setUp(self) -> None:
        super().setUp()
        self.client.produce(a_batch(b"first"))
        self.writes = 0
        self.disk.faults = self.step

    def step(self, op: str, path: str) -> None:
        self.writes += op == "write" and path.endswith(".log")

    def feed(self, *data: bytes, acks: int = 1) -> list[tuple[int, int]]:
        """Send so many requests at once; what they are answered."""
        requests = (joined(self.client.wire.request(produce_request(records, acks=acks), 9)[1]) for records in data)
        self.client.feed(b"".join(requests))
        return self.answers()

    def answers(self) -> list[tuple[int, int]]:
        """The responses since the last call."""
        answers = [answer.responses[0].partition_responses[0] for answer in self.client.answers()]
        return [(answer.error_code, answer.base_offset) for answer in answers]

    def test_one_write_for_several_requests(self) -> None:
        """Five requests in one read are one write, and wake waiting fetches."""
        reader = self.server.connect()
        reader.send(fetch_request([("t", 0, 1)], max_wait_ms=1000, min_bytes=5 * len(a_batch(b"1"))), 12)
        data = [a_batch(b"%d" % number) for number in range(5)]
        self.assertEqual(self.feed(*data), [(0, offset) for offset in range(1, 6)])
        self.assertEqual(self.writes, 1)
        reader.turn()
        (answer,) = reader.answers()
        records = content(answer.responses[0].partitions[0])
        self.assertEqual(len(records), sum(map(len, data)))

    def test_of_a_transaction(self) -> None:
        """Batches that continue a transaction are also one write."""
        verification: Any = self.server.broker.kafka_server.router.find(ProduceHandlers).verification
        verification._verifier = ApprovingCoordinator(self.server.reactor)
        for start, writes in ((0, 5), (5, 1)):
            data = (
                a_batch(producer_id=7, producer_epoch=0, base_sequence=start + n, transactional=True) for n in range(5)
            )
            requests = (produce_request(each, transactional_id="id") for each in data)
            self.writes = 0
            self.client.feed(b"".join(joined(self.client.wire.request(request, 12)[1]) for request in requests))
            self.client.turn(0.02)
            self.assertEqual(self.answers(), [(0, 1 + start + n) for n in range(5)])
            self.assertEqual(self.writes, writes)

    def test_refused_batch(self) -> None:
        """A refused batch does not affect the others."""
        corrupt = a_batch(b"x")[:-1] + b"!"
        self.assertEqual(self.feed(a_batch(), corrupt, a_batch()), [(0, 1), (ErrorCode.CORRUPT_MESSAGE, -1), (0, 2)])
        self.assertEqual((self.writes, self.server.broker.kafka_server.produce_appender.refused), (2, 1))

    def test_moved_partition(self) -> None:
        """Each request for a partition that has moved gets an error, although its template is known."""
        self.server.now(self.server.broker.replication.replicas.remove([TopicPartition("t", 0)]))
        self.assertEqual(self.feed(a_batch(), a_batch()), 2 * [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)])

    def synced(self) -> list[tuple[int, int]]:
        """Let the disk go on; what is answered then."""
        self.disk.held.clear()
        self.disk.release(IOPool.SYNC)
        for _ in range(3):
            self.client.turn()
        return self.answers()

    def test_responses_in_order(self) -> None:
        """Requests behind one that waits are written, and answered in order."""
        self.server.broker.replication.replicas.get("t", 1).log.configure(TopicConfig(flush_before_ack=True))
        self.disk.held.add(IOPool.SYNC)
        self.client.send(produce_request(a_batch(b"waits"), partition=1, acks=-1), 9)
        self.writes = 0
        self.assertEqual(self.feed(a_batch(), a_batch()), [])
        self.assertEqual(self.writes, 1)
        self.assertEqual(self.synced(), [(0, 0), (0, 1), (0, 2)])

    def all_in_sync(self, **config: Any) -> None:
        """Ask for all replicas from now on, in words that are known."""
        self.server.broker.replication.replicas.get("t", 0).log.configure(TopicConfig(**config))
        self.feed(a_batch(), acks=-1)
        for _ in range(3):
            self.client.turn()
        self.client.answers()
        self.writes = 0

    def test_all_in_sync_at_once(self) -> None:
        """With no other replica, and no sync to wait for, acks=all is answered at once, after one write."""
        self.all_in_sync()
        self.assertEqual(self.feed(*4 * [a_batch()], acks=-1), [(0, offset) for offset in range(2, 6)])
        self.assertEqual(self.writes, 1)

    def test_all_in_sync(self) -> None:
        """They wait for one sync, together, and what comes meanwhile waits for the next."""
        self.all_in_sync(flush_before_ack=True)
        self.disk.held.add(IOPool.SYNC)
        self.assertEqual(self.feed(*4 * [a_batch()], acks=-1), [])
        self.assertEqual(self.feed(*2 * [a_batch()], acks=-1), [])
        self.assertEqual(self.server.broker.kafka_server.net_metrics.requests_pending, 6)
        self.assertEqual(self.writes, 2)
        self.assertEqual(self.synced(), [(0, offset) for offset in range(2, 8)])
        self.assertEqual(self.server.broker.kafka_server.net_metrics.requests_pending, 0)

    def test_refused_batch_with_acks_all(self) -> None:
        """The other batches are written, and wait."""
        self.all_in_sync(flush_before_ack=True)
        self.disk.held.add(IOPool.SYNC)
        corrupt = a_batch(b"x")[:-1] + b"!"
        self.assertEqual(self.feed(a_batch(), corrupt, a_batch(), acks=-1), [])
        self.assertEqual(self.synced(), [(0, 2), (ErrorCode.CORRUPT_MESSAGE, -1), (0, 3)])

    def test_timeout(self) -> None:
        """Each request gets REQUEST_TIMED_OUT."""
        self.all_in_sync(flush_before_ack=True)
        self.disk.held.add(IOPool.SYNC)
        self.assertEqual(self.feed(a_batch(), a_batch(), acks=-1), [])
        self.client.turn(1.1)
        self.assertEqual(self.answers(), 2 * [(ErrorCode.REQUEST_TIMED_OUT, -1)])
        self.synced()

    def test_disconnected_client(self) -> None:
        """The batches of a disconnected client stay, without a response."""
        self.all_in_sync(flush_before_ack=True)
        self.disk.held.add(IOPool.SYNC)
        self.feed(a_batch(), a_batch(), acks=-1)
        self.client.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(self.server.broker.kafka_server.net_metrics.requests_pending, 0)
        self.assertEqual(self.synced(), [])
        self.assertEqual(self.server.broker.replication.replicas.get("t", 0).log.log_end_offset, 4)
