"""Recognition of repeated Produce requests."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.records.file_slice import joined
from logbus.wire import request_template
from logbus.wire.connection import ClientConnection, ServerConnection
from logbus.wire.frame_buffer import FrameBuffer
from logbus.wire.messages.records import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from logbus.wire.request_template import FIRST, LAST, CoalescedProduce, RequestTemplate, TemplateCache
from logbus.wire.schema import encode

SERVED = {0: (3, 13)}
versions = st.integers(FIRST, LAST)
sizes = st.one_of(st.integers(1, 20), st.integers(110, 140), st.integers(16_370, 16_400), st.just(300_000))


def named(topic: str, version: int) -> dict[str, Any]:
    """What a topic is called at a version."""
    return {"name": topic} if version < 13 else {"topic_id": topic.encode().ljust(16, b"!")[:16]}


def asked(
    client: ClientConnection,
    records: bytes | None,
    version: int = 9,
    topic: str = "t",
    index: int = 0,
    acks: int = 1,
    timeout_ms: int = 1000,
    transactional_id: str | None = None,
) -> bytes:
    data = PartitionProduceData(index=index, records=records)
    topics = [TopicProduceData(**named(topic, version), partition_data=[data])]
    message = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=topics)
    return joined(client.request(message, version)[1])


class RequestTemplateTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.repeats = TemplateCache()
        self.server = ServerConnection(SERVED)
        self.frames = FrameBuffer(1 << 24)

    def teach(self, data: bytes) -> bool:
        frame = memoryview(data)[4:]
        return self.repeats.learn(self.server.receive(frame), frame)

    def take(
        self, data: bytes, most: int = 100, most_bytes: int = 1 << 30, last: RequestTemplate | None = None
    ) -> CoalescedProduce | None:
        """The requests taken out of the buffer; they stay there until they are consumed."""
        self.frames.append(data)
        held = self.frames.held
        run = self.repeats.take(self.frames, last, most, most_bytes)
        self.assertEqual(self.frames.held, held)
        if run is not None:
            self.repeats.passed(run, self.frames)
        return run

    @given(
        versions,
        st.text(max_size=20),
        st.text("ab", min_size=1, max_size=120),
        st.one_of(st.none(), st.text(max_size=30)),
        st.lists(sizes, min_size=1, max_size=6),
    )
    def test_as_decoded(
        self, version: int, client_id: str, topic: str, transactional_id: str | None, lengths: list[int]
    ) -> None:
        """
        Coalesced requests equal decoded ones, whatever the lengths.
        """
        self.setUp()
        client = ClientConnection(client_id)
        more: dict[str, Any] = {"version": version, "topic": topic, "index": 7, "transactional_id": transactional_id}
        self.assertTrue(self.teach(asked(client, b"first", **more)))
        data = [asked(client, b"\1" * length, **more) for length in lengths]
        run = self.take(b"".join(data))
        assert run is not None
        requests = [self.server.receive(frame[4:]) for frame in data]
        self.assertEqual(run.correlation_ids, [request.correlation_id for request in requests])
        records = [request.message.topic_data[0].partition_data[0].records for request in requests]
        self.assertEqual(run.batches, records)
        self.assertEqual(run.size, sum(request.size for request in requests))
        template = run.template
        self.assertEqual((template.client_id, template.index), (client_id, 7))
        self.assertEqual(template.transactional_id, transactional_id)
        known = {"name": template.topic} if version < 13 else {"topic_id": template.topic_id}
        self.assertEqual(known, named(topic, version))
        self.assertEqual((template.api_version, self.frames.held), (version, 0))

    @given(
        versions,
        st.one_of(st.integers(4, 60), st.integers(-8, -1)),
        st.integers(1, 255),
        st.sampled_from([None, "", "id"]),
    )
    def test_one_byte(self, version: int, at: int, change: int, transactional_id: str | None) -> None:
        """
        A request that differs in any byte is taken only if decoding it gives the same prefix.
        """
        self.setUp()
        client = ClientConnection("me")
        self.teach(asked(client, b"first", version, transactional_id=transactional_id))
        data = bytearray(asked(client, b"\1" * 300, version, transactional_id=transactional_id))
        # Not in its length: that is another test.
        data[at] ^= change
        run = self.take(bytes(data))
        if run is not None:
            request = self.server.receive(memoryview(data)[4:])
            message = request.message
            self.assertEqual(run.template.api_version, request.api_version)
            if version >= 9:
                self.assertEqual(data[-3:], bytes(3))
            self.assertEqual((message.acks, message.timeout_ms, request.client_id), (1, 1000, "me"))
            self.assertEqual(message.transactional_id, transactional_id)
            self.assertEqual(run.batches, [message.topic_data[0].partition_data[0].records])
            said = message.topic_data[0]
            self.assertEqual((said.name, said.topic_id), (run.template.topic, run.template.topic_id))
            self.assertEqual(said.partition_data[0].index, 0)

    def test_where_a_run_ends(self) -> None:
        """
        It ends before another template, before an incomplete request, and at its bounds.
        """
        client = ClientConnection("me")
        usual = [asked(client, b"records") for _ in range(5)]
        other = asked(client, b"records", index=1)
        newer = asked(client, b"records", version=10)
        self.teach(usual[0])
        self.assertIsNone(self.take(other))
        self.frames.next_frame()
        followed = (other, newer, usual[1][:-1], b"\0\0", usual[1][:-1] + b"\1")
        for stream, count in ((usual[0] + more, 1) for more in followed):
            self.frames = FrameBuffer(1 << 24)
            run = self.take(stream)
            assert run is not None
            self.assertEqual((len(run.batches), self.frames.held), (count, len(stream) - len(usual[0])))
        self.frames = FrameBuffer(1 << 24)
        for most, most_bytes, count in ((2, 1 << 20, 2), (9, 1, 1), (9, len(usual[0]) + 1, 2)):
            run = self.take(b"" if self.frames.held else b"".join(usual), most, most_bytes)
            assert run is not None
            self.assertEqual(len(run.batches), count)
        self.frames = FrameBuffer(len(usual[0]) - 5)
        self.assertIsNone(self.take(usual[0]), "longer than the limit: for those who say so")

    def test_the_most_likely(self) -> None:
        """
        The refrain of last time is tried first, and nothing is lost if it is another one.
        """
        client = ClientConnection("me")
        one, other, newer = (
            asked(client, b"records", version, index=index) for version, index in ((9, 0), (9, 1), (10, 0))
        )
        for data in (one, other, newer):
            self.teach(data)
        last = None
        for data in (one, other, other, one, newer, one):
            run = self.take(data, 10, 1000, last)
            assert run is not None
            self.assertEqual(run.template.index, 1 if data is other else 0)
            self.assertEqual(run.template.api_version, 10 if data is newer else 9)
            last = run.template

    def test_unusual_requests_are_not_learned(self) -> None:
        """
        Only usual requests are learned from, and only if our encoding of them is the same.
        """
        client = ClientConnection("me")
        usual = ProduceRequest(
            acks=1,
            timeout_ms=1,
            topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=b"r")])],
        )
        changes: list[dict[str, Any]] = [
            {"acks": 0},
            {"acks": 2},
            {"transactional_id": "x" * 200},
            {"topic_data": []},
            {"topic_data": usual.topic_data * 2},
            {"topic_data": [TopicProduceData(name="t", partition_data=usual.topic_data[0].partition_data * 2)]},
        ]
        for change in changes:
            message = ProduceRequest(acks=1, timeout_ms=1, topic_data=usual.topic_data)
            for name, value in change.items():
                setattr(message, name, value)
            self.assertFalse(self.teach(joined(client.request(message, 9)[1])), change)
        self.assertFalse(self.teach(asked(client, None)))
        self.assertFalse(self.teach(asked(client, b"")))
        self.assertFalse(self.teach(asked(ClientConnection(None), b"r")))
        self.assertFalse(self.teach(asked(client, b"r", version=FIRST - 1)))
        self.assertFalse(self.teach(asked(client, b"r") + b"\0"))
        self.assertFalse(self.teach(asked(ClientConnection("x" * 1000), b"r")))
        self.assertTrue(self.teach(asked(client, b"r")))

    def test_records_are_not_encoded(self) -> None:
        """
        The first request of a connection is encoded without its records, and only if its template is not known yet.
        """
        encoded = []

        def counted(message: Any, version: int) -> Any:
            parts = encode(message, version)
            if isinstance(message, ProduceRequest):
                encoded.append(len(joined(parts)))
            return parts

        self.patch(request_template, "encode", counted)
        for version in (FIRST, LAST):
            for size in (300_000, 20):
                data = asked(ClientConnection("me"), bytes(size), version)
                frame = memoryview(data)[4:]
                request = self.server.receive(frame)
                self.assertTrue(self.repeats.learn(request, frame))
                self.assertEqual(len(request.message.topic_data[0].partition_data[0].records), size)
        self.assertEqual(len(encoded), 2)
        self.assertLess(max(encoded), 100)

    def test_other_acks(self) -> None:
        """
        Other acks or another timeout make another template.
        """
        client = ClientConnection("me")
        for acks, timeout_ms in ((1, 1000), (-1, 1000), (-1, 2000)):
            data = asked(client, b"r", acks=acks, timeout_ms=timeout_ms)
            self.assertIsNone(self.take(data))
            self.frames.next_frame()
            self.assertTrue(self.teach(data))
            run = self.take(data)
            assert run is not None
            self.assertEqual((run.template.acks, run.template.timeout_ms), (acks, timeout_ms))

    def test_bounded(self) -> None:
        """
        However many prefix are said, not more than some are known.
        """
        self.patch(request_template, "MAX_TEMPLATES", 3)
        client = ClientConnection("me")
        for index in range(7):
            self.teach(asked(client, b"r", index=index))
        self.assertIsNone(self.take(asked(client, b"r", index=5)))
        self.frames.next_frame()
        self.assertIsNotNone(self.take(asked(client, b"r", index=6)))

    @given(versions, st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3), st.text("aä", min_size=1))
    def test_answers(self, version: int, numbers: list[int], topic: str) -> None:
        """
        Answers are byte for byte what the message would be.
        """
        self.setUp()
        client = ClientConnection("me")
        data = asked(client, b"r", version, topic, 2**31 - 1)
        self.teach(data)
        run = self.take(data)
        assert run is not None
        base, time, start = numbers
        answer = PartitionProduceResponse(
            index=2**31 - 1, base_offset=base, log_append_time_ms=time, log_start_offset=start
        )
        responses = [TopicProduceResponse(**named(topic, version), partition_responses=[answer])]
        message = ProduceResponse(responses=responses)
        expected = joined(self.server.respond(self.server.receive(data[4:]), message))
        (number,) = run.correlation_ids
        self.assertEqual(run.template.written(number, base, time, start), expected)
        self.assertEqual(run.template.refused(number, message), expected)
        self.assertTrue(expected.endswith(joined(encode(message, version))))
