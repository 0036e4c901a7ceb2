"""Fetch requests that are recognized get the responses that they would get if they were decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from attrs import define, evolve, field
from hypothesis import event, given, settings
from hypothesis import strategies as st

from logbus.cluster.replication import partition_reader
from logbus.errors import ErrorCode
from logbus.handlers import repeated_fetch
from logbus.handlers.fetch import FetchHandlers
from logbus.metastore.security_znodes import EntityZnode
from logbus.metrics import LATENCY_BUCKETS
from logbus.net.prepared_fetches import AnsweredFetches, FetchSequence, PreparedFetches
from logbus.net.stream_transport import StreamTransport
from logbus.records.batch import ControlType, Marker, read_header
from logbus.records.file_slice import FileSlice
from logbus.security.acl.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermission,
    ResourcePattern,
    ResourceType,
)
from logbus.wire.connection import Request
from logbus.wire.encoder_runtime import uvarint
from logbus.wire.fetch_template import FetchTemplateCache, RepeatedFetch
from logbus.wire.messages.records import FetchResponse
from logbus.wire.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
)
from tests.handlers.kit import NOW_MS, Client, HandlerCase, MemoryBroker, a_batch, content, fetch_request

PARTITION = st.integers(0, 1)
CLIENT = st.integers(0, 2)
OFFSET = st.sampled_from((0, 0, 1, 2, 3, 5, 40))
FETCHES = st.tuples(
    st.just("fetch"),
    CLIENT,
    st.lists(st.tuples(PARTITION, OFFSET), max_size=2, unique_by=lambda wanted: wanted[0]),
    st.sampled_from(("continue", "continue", "continue", "again", "unknown", "close", "forget")),
)
READS = st.tuples(st.just("read"), CLIENT, PARTITION)
STEPS = st.lists(
    st.one_of(
        FETCHES,
        FETCHES,
        FETCHES,
        READS,
        st.tuples(st.just("write"), PARTITION, st.integers(1, 200)),
        st.tuples(st.just("begin"), PARTITION),
        st.tuples(st.just("end"), PARTITION, st.booleans()),
        st.tuples(st.just("delete records"), PARTITION, st.integers(0, 4)),
        st.tuples(st.just("compress")),
        st.tuples(st.just("recreate")),
        st.tuples(st.just("pass"), st.sampled_from((0, 0.3, 0.6))),
    ),
    min_size=1,
    max_size=25,
)
READ_STEPS = st.lists(
    st.tuples(
        st.one_of(
            FETCHES,
            st.tuples(st.just("write"), PARTITION, st.integers(1, 200)),
            st.tuples(st.just("end"), PARTITION, st.booleans()),
            st.tuples(st.just("delete records"), PARTITION, st.integers(0, 4)),
            st.tuples(st.just("recreate")),
        ),
        st.tuples(st.just("read"), CLIENT, st.sampled_from((0, 0, 0, 1))),
        st.integers(1, 8),
    ).map(lambda parts: [parts[0], *[parts[1]] * parts[2]]),
    min_size=1,
    max_size=8,
).map(lambda runs: [step for run in runs for step in run])
"""After a backlog was written: a consumer reads on for a while, something happens, and so on."""


def kinds_of_consumers(*partition_max_bytes: int) -> st.SearchStrategy[list[Any]]:
    """Three."""
    kind = st.tuples(
        st.integers(4, 18),
        st.booleans(),
        st.booleans(),
        st.sampled_from((0, 500)),
        st.sampled_from((1, 300)),
        st.sampled_from(partition_max_bytes),
    )
    return st.lists(kind, min_size=3, max_size=3)


KINDS = kinds_of_consumers(1 << 20, 1 << 20, 150)
READERS = kinds_of_consumers(0, 150, 150, 400)


@define
class Consumer:
    """A client with its kind of requests, and its session."""

    client: Client
    server: MemoryBroker
    version: int
    committed: bool
    with_session: bool
    max_wait_ms: int
    min_bytes: int
    partition_max_bytes: int
    session_id: int = 0
    epoch: int = 0
    got: list[bytes] = field(factory=list)
    next: dict[int, int] = field(factory=lambda: {0: 0, 1: 0})

    def fetch(self, wanted: list[tuple[int, int]], how: str) -> None:
        """Send a fetch, unless the last one has no response yet."""
        self.take()
        session: dict[str, int] = {}
        if self.with_session and self.version >= 7:
            epoch = {"again": max(self.epoch - 1, 1), "close": -1}.get(how, self.epoch)
            session = {"session_id": self.session_id, "session_epoch": epoch if self.session_id else 0}
            if how == "unknown":
                session["session_id"] = 77
            if how == "forget":
                self.session_id = self.epoch = 0
        request = fetch_request(
            [("t", partition, offset) for partition, offset in wanted],
            self.server if self.version >= 13 else None,
            max_wait_ms=self.max_wait_ms,
            min_bytes=self.min_bytes,
            partition_max_bytes=self.partition_max_bytes,
            isolation_level=int(self.committed),
            **session,
        )
        self.client.send(request, self.version)
        self.take()

    def take(self) -> None:
        """Take the responses."""
        for frame in self.client.frames():
            self.got.append(frame)
            response: FetchResponse = self.client.wire.receive(frame)[1]
            if response.error_code:
                self.session_id = self.epoch = 0
            elif response.session_id:
                self.epoch = self.epoch + 1 if response.session_id == self.session_id else 1
                self.session_id = response.session_id
            for topic in response.responses:
                for partition in topic.partitions:
                    assert isinstance(partition.records, bytes | memoryview)
                    data, at = bytes(partition.records), 0
                    while at < len(data):
                        header = read_header(data, at)
                        self.next[partition.partition_index] = header.next_offset
                        at += header.size


@define
class StandIn:
    """Does what the threads do with prepared fetches (``_fetch_threads.pyx``), for connections in memory."""

    answered: int = 0
    away: dict[Any, tuple[PreparedFetches, list[Any]]] = field(factory=dict)

    def answer(self, transport: StreamTransport, prepared: PreparedFetches) -> bool:
        """See :meth:`.IFrameTransport.answer_fetches`."""
        ranges = [[FileSlice(one.file, 0, one.end).read(), one.position] for one in prepared.ranges]
        self.away[transport] = prepared, [ranges, 0, 0, 0]
        return True

    def serve(self, client: Client) -> None:
        """Answer what a client has sent, and give its connection back with the first other request."""
        transport = client.protocol._frame_transport
        while transport in self.away:
            prepared, state = self.away[transport]
            data, _, start, end = client.protocol.frames.contents
            got = bytes(data[start:end])
            if not got:
                return
            response = self.response(prepared, state, got)
            if response is None:
                self.give_back(client)
                return
            client.protocol.frames.next_frame()
            transport.send([response])

    @staticmethod
    def response(prepared: PreparedFetches, state: list[Any], got: bytes) -> bytes | None:
        """The response to a request; None: it is another one, or nothing is left."""
        ranges, count, _, _ = state
        offset = int.from_bytes(got[prepared.offset_at : prepared.offset_at + 8], "big")
        expected, at = bytearray(prepared.request), prepared.offset_at
        expected[8:12] = got[8:12]
        if prepared.epoch_at:
            epoch = int.from_bytes(expected[prepared.epoch_at : prepared.epoch_at + 4], "big") + count + 1
            expected[prepared.epoch_at : prepared.epoch_at + 4] = epoch.to_bytes(4, "big")
        expected[at : at + 8] = got[at : at + 8]
        if got != bytes(expected):
            return None
        place = next((i for i, (data, begin) in enumerate(ranges) if begin < len(data)), len(ranges))
        if place == len(ranges) or offset != int.from_bytes(ranges[place][0][ranges[place][1] :][:8], "big"):
            # It has gone to another place.
            starts = [(i, at) for i, (data, _) in enumerate(ranges) for at in StandIn.starts(data)]
            for place, begin in starts:
                if offset >= prepared.first_offset and ranges[place][0][begin : begin + 8] == offset.to_bytes(8, "big"):
                    break
            else:
                return None
            for i, one in enumerate(ranges):
                one[1] = len(one[0]) if i < place else 0
            ranges[place][1] = begin
        data, begin = ranges[place]
        end = begin
        while end < len(data):
            size = int.from_bytes(data[end + 8 : end + 12], "big") + 12
            if end > begin and end + size - begin > prepared.most:
                break
            end += size
        if end == len(data) and place + 1 == len(ranges) and end - begin < prepared.least:
            return None
        records = data[begin:end]
        ranges[place][1] = end
        state[1:] = count + 1, int.from_bytes(got[at : at + 8], "big"), state[3] + len(records)
        length = uvarint(len(records) + 1) if prepared.compact else len(records).to_bytes(4, "big")
        whole = bytearray(b"".join((prepared.head, length, records, prepared.tail)))
        whole[0:8] = (len(whole) - 4).to_bytes(4, "big") + got[8:12]
        return bytes(whole)

    @staticmethod
    def starts(data: bytes) -> Iterator[int]:
        """Where batches begin."""
        at = 0
        while at < len(data):
            yield at
            at += int.from_bytes(data[at + 8 : at + 12], "big") + 12

    def give_back(self, client: Client) -> None:
        """Give a connection back."""
        prepared, state = self.away.pop(client.protocol._frame_transport, (None, None))
        if prepared is None or state is None:
            return
        counts = [0] * (len(LATENCY_BUCKETS) + 1)
        counts[0] = state[1]
        done = AnsweredFetches(state[1], state[2], 0, 0, state[3], b"", None, counts, 0.0)
        self.answered += state[1]
        if state[1]:
            prepared.answered(done)
        client.protocol.fetches_answered(done)


def outcome(kinds: list[Any], steps: list[Any], recognize: bool, stand_in: StandIn | None = None) -> Any:
    """All responses, and what was counted."""
    server = MemoryBroker({"fetch.max.bytes": "1500"}).start()
    try:
        factory = server.plugin.factories["kafka"]
        if not recognize:
            factory.repeated_router = None
        if stand_in is None:
            factory.fetch_preparer = None
        server.create("t", 2)
        admin = server.connect()
        consumers = [Consumer(server.connect(), server, *kind) for kind in kinds]
        sequence = {0: 0, 1: 0}
        for step in steps:
            if stand_in is not None and step[0] not in ("fetch", "read"):
                # What a thread answers may be older than what happens meanwhile.
                for consumer in consumers:
                    stand_in.give_back(consumer.client)
            run(server, admin, consumers, sequence, step)
            if stand_in is not None:
                for consumer in consumers:
                    stand_in.serve(consumer.client)
                    consumer.take()
        if stand_in is not None:
            factory.fetch_preparer = None
            for consumer in consumers:
                stand_in.give_back(consumer.client)
        server.reactor.advance(1)
        for consumer in consumers:
            consumer.take()
        router = server.broker.kafka_server.router
        sent = router.find(FetchHandlers).totals.bytes_sent
        pending = len(server.broker.replication.reader._purgatory)
        return [one.got for one in consumers], sent, router.counts[1], factory.metrics.requests, pending
    finally:
        server.close()


def _answer_by(stand_in: StandIn) -> Callable[[StreamTransport, PreparedFetches], bool]:
    """The method of a transport."""

    def answer_fetches(transport: StreamTransport, prepared: PreparedFetches) -> bool:
        return stand_in.answer(transport, prepared)

    return answer_fetches


def _served(sequence: FetchSequence, request: RepeatedFetch) -> None:
    """Prepare after each fetch."""
    sequence.last = request if request.read_to >= 0 else None


def run(server: MemoryBroker, admin: Client, consumers: list[Consumer], sequence: dict[int, int], step: Any) -> None:
    """Do one step."""
    kind: Any
    kind, *how = step
    replicas = server.broker.replication.replicas
    if kind == "fetch":
        consumers[how[0]].fetch(how[1], how[2])
    elif kind == "read":
        consumers[how[0]].fetch([(how[1], consumers[how[0]].next[how[1]])], "continue")
    elif kind == "write":
        admin.produce(a_batch(bytes(how[1])), partition=how[0])
    elif kind == "begin":
        batch = a_batch(
            b"t", producer_id=7, producer_epoch=0, base_sequence=sequence[how[0]], transactional=True, timestamp=NOW_MS
        )
        replicas.get("t", how[0]).append(batch, NOW_MS)
        sequence[how[0]] += 1
    elif kind == "end" and sequence[how[0]]:
        marker = Marker(ControlType.COMMIT if how[1] else ControlType.ABORT, 1)
        replicas.get("t", how[0]).append_marker(7, 0, marker, NOW_MS, 1)
    elif kind == "delete records":
        end = replicas.get("t", how[0]).high_watermark
        partition = DeleteRecordsPartition(partition_index=how[0], offset=min(how[1], end))
        topic = DeleteRecordsTopic(name="t", partitions=[partition])
        admin.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
    elif kind == "recreate":
        admin.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
        server.create("t", 2)
        sequence.update({0: 0, 1: 0})
    elif kind == "compress":
        for partition in (0, 1):
            log = replicas.get("t", partition).log
            log.config = evolve(log.config, compression_type="zstd")
    elif kind == "pass":
        server.reactor.advance(how[0])


class RecognizingCase(HandlerCase):
    def recognized(self) -> list[RepeatedFetch]:
        """The requests that are recognized from now on."""
        found: list[RepeatedFetch] = []
        factory = self.server.plugin.factories["kafka"]
        original = factory.repeated_router
        assert original is not None

        def router(context: Any, request: RepeatedFetch) -> Any:
            answer = original(context, request)
            if answer is not None:
                found.append(request)
            return answer

        factory.repeated_router = router
        return found

    def learned(self) -> list[Request]:
        """The requests of which templates are made from now on."""
        made: list[Request] = []
        original = FetchTemplateCache.learn

        def learn(known: FetchTemplateCache, request: Request, frame: memoryview) -> bool:
            made.append(request)
            return original(known, request, frame)

        self.patch(FetchTemplateCache, "learn", learn)
        return made


class RepeatedFetchTests(RecognizingCase):
    @settings(deadline=None, max_examples=settings.default.max_examples // 2)
    @given(KINDS, STEPS)
    def test_same_responses(self, kinds: list[Any], steps: list[Any]) -> None:
        """In any version, with and without sessions, whatever happens meanwhile."""
        self.assertEqual(outcome(kinds, steps, recognize=True), outcome(kinds, steps, recognize=False))

    @settings(deadline=None, max_examples=settings.default.max_examples // 3)
    @given(READERS, st.booleans(), READ_STEPS, st.booleans())
    def test_same_responses_of_threads(
        self, kinds: list[Any], open_transaction: bool, steps: list[Any], are_large: bool
    ) -> None:
        """A consumer that reads on gets the same from who is told what lies ahead of it."""
        backlog: list[Any] = [("write", partition, 20 + 7 * i) for i in range(10) for partition in (0, 1)]
        if open_transaction:
            backlog[12:12] = [("begin", 0), ("begin", 1)]
        stand_in = StandIn()
        with (
            mock.patch.object(StreamTransport, "answer_fetches", _answer_by(stand_in)),
            mock.patch.object(StreamTransport, "may_answer_fetches", True),
            mock.patch.object(repeated_fetch, "LEAST_PREPARED", 1),
            mock.patch.object(repeated_fetch, "SMALL", 0 if are_large else repeated_fetch.SMALL),
            mock.patch.object(repeated_fetch, "MOST_RANGES", 2),
            mock.patch.object(partition_reader, "_FIRST_LOOK", 2),
            mock.patch.object(FetchSequence, "answered", lambda sequence, count: sequence.ended()),
            mock.patch.object(FetchSequence, "served", _served),
        ):
            found = outcome(kinds, [*backlog, *steps], recognize=True, stand_in=stand_in)
        self.assertEqual(found, outcome(kinds, [*backlog, *steps], recognize=False))
        event(f"answered by the stand-in: {min(stand_in.answered, 3)}, large: {are_large}")

    def test_all_versions_are_recognized(self) -> None:
        """With another offset, and another epoch of the session, in each version that has sessions."""
        self.client.produce(a_batch(b"a"))
        self.client.produce(a_batch(b"b"))
        for version in range(4, 19):
            found = self.recognized()
            for offset in (0, 1):
                self.assertIn(b"ab"[offset : offset + 1], content(self.client.fetch(offset, version=version)))
            self.assertEqual([one.offset for one in found], [0, 1])
            if version < 7:
                continue
            by_id = self.server if version >= 13 else None
            opened = self.client.ask(fetch_request([("t", 0, 0)], by_id, session_id=0, session_epoch=0), version)
            self.assertEqual(len(found), 2)
            for epoch in (1, 2):
                again = fetch_request([("t", 0, 1)], by_id, session_id=opened.session_id, session_epoch=epoch)
                self.assertEqual(self.client.ask(again, version).session_id, opened.session_id)
            self.assertEqual([one.session_epoch for one in found], [-1, -1, 1, 2])

    def test_limits_that_change_in_a_session(self) -> None:
        """A request counts as it is, however often another one came before it."""
        for value in (b"a", b"b"):
            self.client.produce(a_batch(value))
        found = self.recognized()
        opened = self.client.ask(fetch_request([("t", 0, 0)], session_id=0, session_epoch=0), 12)
        got = []
        for epoch, limit in enumerate((1 << 20, 1 << 20, 1, 1, 1 << 20), start=1):
            request = fetch_request(
                [("t", 0, 0)], session_id=opened.session_id, session_epoch=epoch, partition_max_bytes=limit
            )
            [topic] = self.client.ask(request, 12).responses
            got.append(sum(value in content(topic.partitions[0]) for value in (b"a", b"b")))
        self.assertEqual(got, [2, 2, 1, 1, 2])
        self.assertEqual(len(found), 5)

    def test_others_are_decoded(self) -> None:
        """Requests of several partitions, of old followers, with an epoch to be checked, with a long topic's name."""
        found = self.recognized()
        self.client.ask(fetch_request([("t", 0, 0), ("t", 1, 0)]), 12)
        self.client.ask(fetch_request([]), 12)
        self.client.ask(fetch_request([("t", 0, 0)], last_fetched_epoch=0), 12)
        self.client.ask(fetch_request([("t", 0, 0)], replica_id=1), 12)
        self.client.ask(fetch_request([("x" * 249, 0, 0)]), 12)
        self.client.ask(fetch_request([("t", 0, -5)]), 12)
        self.assertEqual(found, [])


class RightsAndQuotasTests(RecognizingCase):
    """A request that is recognized has no more rights than one that is decoded."""

    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }

    def test_rights_are_asked_for_each_time(self) -> None:
        """A client that may not read any more gets the error, with and without a session."""
        self.client.produce(a_batch(b"secret"))
        found = self.recognized()
        opened = self.client.ask(fetch_request([("t", 0, 0)], session_id=0, session_epoch=0), 12)
        for epoch in (1, 2):
            request = fetch_request([("t", 0, 0)], session_id=opened.session_id, session_epoch=epoch)
            for again, count in ((request, 2 * epoch - 1), (fetch_request([("t", 0, 0)]), 2 * epoch)):
                [topic] = self.client.ask(again, 12).responses
                self.assertIn(b"secret", content(topic.partitions[0]))
                self.assertEqual(len(found), count)
        self.client.protocol.context.principal = "User:other"
        request = fetch_request([("t", 0, 0)], session_id=opened.session_id, session_epoch=3)
        for refused in (request, fetch_request([("t", 0, 0)])):
            [topic] = self.client.ask(refused, 12).responses
            self.assertEqual(topic.partitions[0].error_code, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            self.assertEqual(content(topic.partitions[0]), b"")
        self.assertEqual(len(found), 4)

    def test_another_partition_of_a_session(self) -> None:
        """Rights that were lost count for the other partitions of the session, too."""
        self.client.create("other")
        opened = self.client.ask(fetch_request([("other", 0, 0), ("t", 0, 0)], session_id=0, session_epoch=0), 12)
        authorizer: Any = self.server.broker.kafka_server.authorization
        entry = AccessControlEntry("User:other", "*", AclOperation.READ, AclPermission.ALLOW)
        authorizer.authorizer.set_acls([(ResourcePattern(ResourceType.TOPIC, "t"), (entry,))])
        self.client.protocol.context.principal = "User:other"
        found = self.recognized()
        request = fetch_request([("t", 0, 0)], session_id=opened.session_id, session_epoch=1)
        errors = {topic.topic: topic.partitions[0].error_code for topic in self.client.ask(request, 12).responses}
        self.assertEqual(len(found), 1)
        self.assertEqual(errors["other"], ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def test_another_host(self) -> None:
        """A session that was begun where its partitions may be read is of no use elsewhere."""
        authorizer: Any = self.server.broker.kafka_server.authorization
        entry = AccessControlEntry("User:other", "10.0.0.1", AclOperation.READ, AclPermission.ALLOW)
        authorizer.authorizer.set_acls([(ResourcePattern(ResourceType.TOPIC, "t"), (entry,))])
        self.client.produce(a_batch(b"secret"))
        context = self.client.protocol.context
        context.principal, context.host = "User:other", "10.0.0.1"
        opened = self.client.ask(fetch_request([("t", 0, 0)], session_id=0, session_epoch=0), 12)
        self.assertIn(b"secret", content(opened.responses[0].partitions[0]))
        context.host = "10.0.0.2"
        request = fetch_request([], session_id=opened.session_id, session_epoch=1)
        [topic] = self.client.ask(request, 12).responses
        self.assertEqual(topic.partitions[0].error_code, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        self.assertEqual(content(topic.partitions[0]), b"")

    def test_a_topic_that_was_unknown(self) -> None:
        """Rights are asked for when the broker hears of a topic that a session has named by its id before."""
        metadata = self.server.broker.member.metadata
        self.client.produce(a_batch(b"secret"))
        self.client.protocol.context.principal = "User:other"
        with mock.patch.object(type(metadata), "topic_by_id", lambda *_: None):
            opened = self.client.ask(fetch_request([("t", 0, 0)], self.server, session_id=0, session_epoch=0), 13)
        self.assertEqual(opened.responses[0].partitions[0].error_code, ErrorCode.UNKNOWN_TOPIC_ID)
        request = fetch_request([], self.server, session_id=opened.session_id, session_epoch=1)
        [topic] = self.client.ask(request, 13).responses
        self.assertEqual(topic.partitions[0].error_code, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        self.assertEqual(content(topic.partitions[0]), b"")

    def test_quotas(self) -> None:
        """While anybody has a quota, requests are decoded, and charged."""
        nodes = self.server.broker.member.metadata.security_nodes
        nodes.change({EntityZnode.path({"user": "ANONYMOUS"}): EntityZnode.encode({"consumer_byte_rate": "1000000"})})
        found, learned = self.recognized(), self.learned()
        self.client.fetch(0)
        self.client.fetch(0)
        self.assertEqual((found, learned), ([], []))

    def test_nothing_is_learned_twice(self) -> None:
        """A request that is recognized, and has to be decoded all the same, gets no other template."""
        learned = self.learned()
        self.client.fetch(0)
        self.client.protocol.context.principal = "User:other"
        for _ in range(3):
            self.client.fetch(0)
        self.assertEqual(len(learned), 1)
