"""The remote segments of a partition, by offset and leader epoch."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import DecodeError
from logbus.model import TopicPartition
from logbus.storage.remote import object_names
from logbus.storage.remote.chunk_table import ChunkTable
from logbus.storage.remote.metadata_codec import decode_key, decode_value, encode_key, encode_value
from logbus.storage.remote.remote_log_index import RemoteLogIndex
from logbus.storage.remote.remote_log_plan import RemoteRetention, next_to_copy, to_delete
from logbus.storage.remote.remote_log_segment import (
    COPY_FINISHED,
    COPY_STARTED,
    DELETE_FINISHED,
    DELETE_STARTED,
    EpochStarts,
    RemoteLogSegment,
    RemoteLogSegmentState,
    epoch_at,
    epochs_between,
    may_follow,
)
from tests.storage.builders import batch


def remote(
    number: int,
    start: int,
    end: int,
    epochs: EpochStarts = ((0, 0),),
    state: RemoteLogSegmentState = COPY_FINISHED,
    size: int = 10,
    max_timestamp: int = 0,
) -> RemoteLogSegment:
    """A remote segment."""
    of = TopicPartition("orders", 3)
    return RemoteLogSegment(
        UUID(int=1), of, UUID(int=number), start, end, max_timestamp, size, epochs, 0, 5, state=state
    )


def index_of(*segments: RemoteLogSegment) -> RemoteLogIndex:
    """An index that has these."""
    index = RemoteLogIndex()
    for segment in segments:
        index.apply(segment)
    return index


class StateTests(SynchronousTestCase):
    """The states of a segment."""

    def test_order(self) -> None:
        """A state follows only those from which its step can be taken."""
        allowed = {(None, state) for state in RemoteLogSegmentState} | {
            (COPY_STARTED, COPY_FINISHED), (COPY_STARTED, DELETE_STARTED),
            (COPY_FINISHED, DELETE_STARTED), (DELETE_STARTED, DELETE_FINISHED),
        } | {(state, state) for state in RemoteLogSegmentState}  # fmt: skip
        for before in (None, *RemoteLogSegmentState):
            for after in RemoteLogSegmentState:
                self.assertEqual(may_follow(before, after), (before, after) in allowed)

    def test_a_late_state_is_ignored(self) -> None:
        """A copy that is complete after its deletion has begun stays deleted."""
        index = index_of(remote(1, 0, 5, state=COPY_STARTED))
        self.assertTrue(index.apply(remote(1, 0, 5, state=DELETE_STARTED)))
        self.assertFalse(index.apply(remote(1, 0, 5)))
        self.assertEqual(index.finished, [])
        self.assertTrue(index.apply(remote(1, 0, 5, state=DELETE_FINISHED)))
        self.assertEqual(len(index), 0)

    def test_codec(self) -> None:
        """A record tells all of a segment; others are refused."""
        segment = remote(9, 7, 20, ((3, 7), (5, 12)), DELETE_STARTED)
        self.assertEqual(decode_value(encode_value(segment)), segment)
        key = decode_key(encode_key(segment))
        self.assertEqual((key.topic_id, key.partition, key.segment_id), (UUID(int=1), 3, UUID(int=9)))
        self.assertRaises(DecodeError, decode_value, b"\x01\x00")
        self.assertRaises(DecodeError, decode_key, None)

    def test_frame(self) -> None:
        """The version of the frame is in front, as in Kafka; records from before that are read, too."""
        segment = remote(9, 7, 20)
        value = encode_value(segment)
        self.assertEqual(value[:3], b"\x01\x00\x00")
        self.assertEqual(decode_value(value[1:]), segment)

    def test_names(self) -> None:
        """Names of objects tell their segment; other names do not."""
        name = object_names.name_of(remote(9, 7, 20), object_names.LOG)
        self.assertEqual(
            name,
            "orders-3-00000000-0000-0000-0000-000000000001/00000000000000000007-00000000-0000-0000-0000-000000000009.log",
        )
        self.assertEqual(object_names.segment_id_of(name.rpartition("/")[2]), UUID(int=9))
        self.assertIsNone(object_names.segment_id_of("README.txt"))


class IndexTests(SynchronousTestCase):
    """Which segment has an offset."""

    def test_by_epoch(self) -> None:
        """A segment of a lineage that was given up has no offset of the log."""
        old, new = remote(1, 0, 10, ((0, 0), (1, 6))), remote(2, 6, 12, ((2, 6),))
        index, epochs = index_of(old, new), ((0, 0), (2, 6))
        self.assertEqual(index.segment_at(7, 2), new)
        self.assertEqual(index.segment_at(5, 0), old)
        self.assertIsNone(index.segment_at(7, 3))
        self.assertEqual(list(index.chain(0, epochs)), [(old, 6), (new, 12)])
        self.assertEqual(index.copied_end(0, epochs), 12)
        self.assertEqual(to_delete(index, 0, epochs, 2, ()), [])
        self.assertEqual(to_delete(index, 6, epochs, 2, ()), [])
        self.assertEqual(to_delete(index, 10, epochs, 2, ()), [old])

    def test_unreachable(self) -> None:
        """A copy with no offset of the log's lineage is deleted; one of unknown epochs is not."""
        index = index_of(remote(1, 6, 10, ((1, 6),)))
        self.assertEqual(len(to_delete(index, 0, ((0, 0), (2, 5)), 2, ())), 1)
        self.assertEqual(to_delete(index, 0, ((2, 8),), 2, ()), [])
        self.assertEqual(to_delete(index, 0, (), 2, ()), [])

    def test_copies_of_a_later_leader(self) -> None:
        """One that has been replaced, and does not know it yet, deletes none of what its successor copied."""
        index = index_of(remote(1, 5, 9, ((3, 5),)), remote(2, 9, 12, ((3, 9),), COPY_STARTED))
        self.assertEqual(to_delete(index, 0, ((0, 0), (1, 4)), 1, ()), [])
        self.assertEqual(len(to_delete(index, 0, ((0, 0), (1, 4)), 4, ())), 2)

    def test_gap(self) -> None:
        """Nothing behind a gap counts as copied."""
        index = index_of(remote(1, 0, 4), remote(2, 6, 9))
        self.assertEqual(index.copied_end(0, ()), 4)
        self.assertEqual(index.copied_end(4, ()), 4)
        self.assertEqual(index.first_start(4, ()), 6)
        self.assertEqual(index.first_start(7, ()), 7)
        self.assertIsNone(index.first_start(9, ()))

    @given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=12), st.integers(0, 40))
    def test_look_up(self, found: list[tuple[int, int]], offset: int) -> None:
        """A look-up finds the segment that reaches furthest, of all that have the offset."""
        segments = [remote(i, start, start + length) for i, (start, length) in enumerate(found)]
        segment = index_of(*segments).segment_at(offset, 0)
        having = [each.end_offset for each in segments if each.start_offset <= offset < each.end_offset]
        self.assertEqual(None if segment is None else segment.end_offset, max(having, default=None))

    @given(st.lists(st.integers(0, 30), unique=True, max_size=6), st.integers(0, 30), st.integers(0, 30))
    def test_epochs_between(self, starts: list[int], start: int, end: int) -> None:
        """A part of a log has the epochs that the log has there."""
        epochs = tuple(enumerate(sorted(starts)))
        part = epochs_between(epochs, start, end)
        for offset in range(start, end):
            self.assertEqual(epoch_at(part, offset), epoch_at(epochs, offset))


class PlanTests(SynchronousTestCase):
    """What is copied, and what goes."""

    def test_what_is_copied(self) -> None:
        """Closed segments are, below the bound and behind what was copied."""
        segments = [remote(0, 0, 0), remote(1, 5, 0), remote(2, 9, 0)]

        class Local:
            """Segments by their base offsets."""

            def __init__(self, base_offset: int) -> None:
                self.base_offset, self.size, self.max_timestamp = base_offset, 1, 0

            def modified_ms(self) -> int:
                return 0

        local = [Local(each.start_offset) for each in segments]
        for copied_end, bound, expected in (
            (0, 9, (0, 5)),
            (5, 9, (1, 9)),
            (0, 4, None),
            (5, 8, None),
            (9, 99, None),
            (3, 9, (0, 5)),
        ):
            found = next_to_copy(local, copied_end, bound)
            self.assertEqual(found and (found.position, found.end_offset), expected)

    def test_retention(self) -> None:
        """Segments go by age, and by the bytes of store and disk together; never what has a gap before it."""
        index = index_of(remote(1, 0, 4, max_timestamp=100), remote(2, 4, 8, max_timestamp=200))
        for retention, local, now, expected in (
            (RemoteRetention(50, -1), 0, 150, 0),
            (RemoteRetention(50, -1), 0, 151, 4),
            (RemoteRetention(50, -1), 0, 999, 8),
            (RemoteRetention(-1, 20), 0, 999, 0),
            (RemoteRetention(-1, 20), 9, 999, 0),
            (RemoteRetention(-1, 20), 10, 999, 4),
            (RemoteRetention(-1, 0), 0, 999, 8),
        ):
            self.assertEqual(retention.log_start_offset(index, (), 0, local, now), expected)

    def test_retention_of_another_lineage(self) -> None:
        """After an unclean election, retention passes the segments that the log has in part."""
        old, new = remote(1, 0, 10, ((0, 0), (1, 6))), remote(2, 6, 12, ((2, 6),), max_timestamp=50)
        index, epochs = index_of(old, new), ((0, 0), (2, 6))
        for now, expected in ((50, 0), (90, 6), (101, 12)):
            self.assertEqual(RemoteRetention(50, -1).log_start_offset(index, epochs, 0, 0, now), expected)
        self.assertEqual(RemoteRetention(-1, 10).log_start_offset(index, epochs, 0, 0, 0), 6)

    def test_unfinished(self) -> None:
        """Copies that nobody makes any more are deleted; those under way are not."""
        index = index_of(remote(1, 0, 4, state=COPY_STARTED), remote(2, 0, 4, state=COPY_STARTED))
        self.assertEqual([each.segment_id.int for each in to_delete(index, 0, (), 0, {UUID(int=2)})], [1])

    def test_chunk_table(self) -> None:
        """The table finds an offset's chunk, and damage in it."""
        table = ChunkTable()
        chunks = [batch(b"a", b"b", base_offset=0), batch(b"c", base_offset=2) + batch(b"d", base_offset=3)]
        for chunk in chunks:
            table.add(chunk)
        again = ChunkTable.decode(table.encode())
        self.assertEqual([again.chunk_of(offset) for offset in range(5)], [0, 0, 1, 1, 1])
        self.assertEqual([again.positions, again.end(1)], [[0, len(chunks[0])], again.size])
        self.assertTrue(again.is_intact(0, chunks[0]))
        self.assertFalse(again.is_intact(0, chunks[1]))
        damaged = bytearray(table.encode())
        damaged[20] ^= 1
        self.assertRaises(DecodeError, ChunkTable.decode, bytes(damaged))
        self.assertRaises(DecodeError, ChunkTable.decode, b"LBCT")
