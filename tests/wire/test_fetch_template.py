"""Fetch requests are recognized by their bytes, and answered with the bytes of the message."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.records.file_slice import MEMORY, FileSlice, joined, total_length
from logbus.wire.connection import ServerConnection
from logbus.wire.fetch_template import FETCH, FIRST, LAST, MAX_TEMPLATES, FetchTemplateCache, RepeatedFetch
from logbus.wire.headers import RequestHeader, encode_request_header
from logbus.wire.messages.records import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from logbus.wire.schema import encode

FLEXIBLE, BY_ID = 12, 13
WIRE = ServerConnection({FETCH: (FIRST, LAST)})
NUMBERS = st.integers(0, 2**63 - 1)


def frame(message: FetchRequest, version: int, correlation_id: int = 1, client_id: str | None = "c") -> memoryview:
    """The bytes of a request."""
    header = encode_request_header(RequestHeader(FETCH, version, correlation_id, client_id), version >= FLEXIBLE)
    return memoryview(bytearray(header + joined(encode(message, version))))


def fetch(version: int, offset: int = 0, topic: str = "t", **given: Any) -> FetchRequest:
    """A request of one partition."""
    asked = {name: given.pop(name) for name in ("current_leader_epoch", "last_fetched_epoch") if name in given}
    partition = FetchPartition(partition=3, fetch_offset=offset, partition_max_bytes=1 << 20, **asked)
    topics = [FetchTopic(topic="" if version >= BY_ID else topic, topic_id=bytes(range(16)), partitions=[partition])]
    return FetchRequest(**{"max_wait_ms": 500, "min_bytes": 1, "topics": topics} | given)


class FetchTemplateTests(SynchronousTestCase):
    def learned(self, *frames: memoryview) -> FetchTemplateCache:
        """A cache that has learned from these."""
        known = FetchTemplateCache()
        for each in frames:
            known.learn(WIRE.receive(each), each)
        return known

    def found(self, known: FetchTemplateCache, data: memoryview) -> RepeatedFetch:
        """The request, which is known; as its connection's next one, too."""
        request = known.recognize(data)
        assert request is not None
        again = known.recognize(data, request.template)
        assert again is not None
        for name in RepeatedFetch.__slots__:
            self.assertEqual(getattr(again, name), getattr(request, name))
        return request

    @given(st.integers(FIRST, LAST), st.text(max_size=20), st.text(min_size=1, max_size=30), st.integers(0, 1), NUMBERS)
    def test_recognized(self, version: int, client_id: str, topic: str, committed: int, offset: int) -> None:
        """With any offset, in any version, whatever the names."""
        given = {"isolation_level": committed, "rack_id": "r" if version >= 11 else ""}
        known = self.learned(frame(fetch(version, 7, topic, **given), version, 1, client_id))
        request = self.found(known, frame(fetch(version, offset, topic, **given), version, -5, client_id))
        self.assertEqual(
            (request.correlation_id, request.offset, request.session_id, request.session_epoch), (-5, offset, 0, -1)
        )
        self.assertEqual((request.template.client_id, request.template.api_version), (client_id, version))
        self.assertEqual(request.template.partition.partition, 3)

    def test_sessions(self) -> None:
        """All sessions of one kind of client have the same template; those that open or close one have none."""
        for version in range(7, LAST + 1):
            known = self.learned(frame(fetch(version, session_id=5, session_epoch=9), version))
            request = self.found(known, frame(fetch(version, 1, session_id=6, session_epoch=1), version))
            self.assertEqual((request.session_id, request.session_epoch, request.offset), (6, 1, 1))
            for id, epoch in ((0, 0), (6, 0), (6, -1), (0, 1)):
                data = frame(fetch(version, session_id=id, session_epoch=epoch), version)
                self.assertIs(known.recognize(data), None)
                self.assertFalse(FetchTemplateCache().learn(WIRE.receive(data), data))

    def test_any_other_byte(self) -> None:
        """A request that differs in anything but these numbers is not recognized."""
        for version in range(FIRST, LAST + 1):
            data = frame(fetch(version, 7), version)
            known = self.learned(data)
            last = self.found(known, data).template
            same = frame(fetch(version, ~7), version, ~1)
            if version >= 7:
                same = frame(fetch(version, ~7, session_id=~0, session_epoch=~-1), version, ~1)
            for at in range(len(data)):
                changed = memoryview(bytearray(data))
                changed[at] ^= 1
                numbers = data[at] != same[at]
                if not numbers:
                    self.assertIs(known.recognize(changed), None, (version, at))
                    self.assertIs(known.recognize(changed, last), None, (version, at))
            self.assertIsNot(known.recognize(data), None)
            for cut in range(len(data)):
                self.assertIs(known.recognize(data[:cut], last), None)
            self.assertIs(known.recognize(memoryview(bytes(data) + b"\0"), last), None)

    @given(st.binary(max_size=80), st.integers(0, 20), st.integers(0, 3))
    def test_garbage(self, data: bytes, version: int, key: int) -> None:
        """Whatever comes is not recognized, and does no harm."""
        head = key.to_bytes(2, "big") + version.to_bytes(2, "big")
        usual = frame(fetch(12), 12)
        known = self.learned(usual)
        self.assertIs(known.recognize(memoryview(head + data), self.found(known, usual).template), None)

    def test_followers(self) -> None:
        """A follower's is recognized if it is of the same broker and registration, and its log has the same epoch."""

        def of(version: int, offset: int, broker_id: int = 2, epoch: int = 7, last: int = 5) -> memoryview:
            state = ReplicaState(replica_id=broker_id, replica_epoch=epoch)
            given = {"session_id": 4, "session_epoch": 9, "replica_state": state, "last_fetched_epoch": last}
            return frame(fetch(version, offset, **given), version)

        for version in range(15, LAST + 1):
            known = self.learned(of(version, 0))
            request = self.found(known, of(version, 90))
            self.assertEqual((request.offset, request.session_id, request.session_epoch), (90, 4, 9))
            self.assertEqual(request.template.follower, ReplicaState(replica_id=2, replica_epoch=7))
            for other in (of(version, 90, broker_id=3), of(version, 90, epoch=8), of(version, 90, last=6)):
                self.assertIs(known.recognize(other), None)
                self.assertIs(known.recognize(other, request.template), None)

    def test_not_learned(self) -> None:
        """Unusual requests: of old followers, of no or two partitions, with a null client id or an unusual encoding."""
        two = fetch(12)
        two.topics = two.topics * 2
        none = fetch(12)
        none.topics = []
        for data in (
            frame(two, 12),
            frame(none, 12),
            frame(fetch(12, replica_id=2), 12),
            frame(fetch(12, last_fetched_epoch=2), 12),
            frame(fetch(17, replica_state=ReplicaState(replica_id=-1, replica_epoch=4)), 17),
            frame(fetch(12), 12, client_id=None),
            frame(fetch(12, topic="x" * 200), 12),
            frame(fetch(12), 12, client_id="c" * 600),
            memoryview(bytes(frame(fetch(12), 12)) + b"left over"),
        ):
            self.assertFalse(FetchTemplateCache().learn(WIRE.receive(data), data))

    def test_bounded(self) -> None:
        """When there are too many templates, all are forgotten, and learned again."""
        known = FetchTemplateCache()
        for n in range(MAX_TEMPLATES + 1):
            data = frame(fetch(4, topic=f"t{n}"), 4)
            known.learn(WIRE.receive(data), data)
        self.assertIs(known.recognize(frame(fetch(4, topic="t0"), 4)), None)
        self.assertIsNot(known.recognize(data), None)

    @given(
        st.integers(FIRST, LAST),
        st.integers(0, 1),
        st.tuples(NUMBERS, NUMBERS, NUMBERS),
        st.one_of(st.none(), st.sampled_from((1, 126, 127, 128, 16383, 16384, 1 << 20))),
        st.integers(0, 2**31 - 1),
    )
    def test_response(
        self, version: int, committed: int, numbers: tuple[int, int, int], size: int | None, session_id: int
    ) -> None:
        """The bytes are those of the message."""
        data = frame(fetch(version, isolation_level=committed), version)
        template = self.found(self.learned(data), data).template
        records = None if size is None else FileSlice(io.BytesIO(), 5, size)
        high_watermark, stable, start = numbers
        partition = PartitionData(
            partition_index=3,
            high_watermark=high_watermark,
            last_stable_offset=stable,
            log_start_offset=start,
            aborted_transactions=[] if committed else None,
            records=b"" if records is None else records,
        )
        topic = FetchableTopicResponse(topic=template.topic, topic_id=template.topic_id, partitions=[partition])
        session_id = session_id if version >= 7 else 0
        message = FetchResponse(session_id=session_id, responses=[topic])
        expected = WIRE.respond(WIRE.receive(frame(fetch(version), version, 77)), message)
        found = template.found(high_watermark, stable, start, records)
        parts = template.response(77, session_id, found, total_length(found))
        self.assertEqual(parts, expected)
        if records is not None and records.length < 1000:
            # Those that were read already go out as one piece.
            data = memoryview(b"x" * records.length)
            [whole] = template.found(high_watermark, stable, start, FileSlice(io.BytesIO(), 5, records.length, data))
            self.assertEqual(
                template.response(77, session_id, [whole], len(whole)),
                [b"".join(bytes(data) if isinstance(part, FileSlice) else part for part in expected)],
            )
        head = 9 if version >= FLEXIBLE else 8
        self.assertEqual(template.unusual(77, message), [expected[0][:head], expected[0][head:], *expected[1:]])

    @given(st.integers(FIRST, LAST), st.sampled_from((1 << 14, 1 << 20)))
    def test_many_records_in_memory(self, version: int, size: int) -> None:
        """Those of remote storage are sent from where they are: to copy them takes longer than to send them."""
        data = frame(fetch(version), version)
        template = self.found(self.learned(data), data).template
        memory = memoryview(b"x" * size)
        records = FileSlice(MEMORY, 0, size, memory)
        found = template.found(9, 8, 7, records)
        parts = template.response(77, 0, found, total_length(found))
        self.assertIs(parts[1], records)
        [in_file, *_] = template.found(9, 8, 7, FileSlice(io.BytesIO(), 0, size))
        self.assertEqual(found[0], in_file)
        self.assertEqual(int.from_bytes(joined(parts)[:4], "big") + 4, total_length(parts))
