"""Append and read."""

from __future__ import annotations

import gc
import weakref
from unittest.mock import patch

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.records.batch import check_crc, iter_records, read_header
from logbus.records.compression import Codec
from logbus.records.file_slice import FileSlice
from logbus.storage.appends.append_as_follower import append_as_follower
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.appends.log_append_info import LogAppendInfo
from logbus.storage.istorage import NotCached
from logbus.storage.segments.indexes import OFFSET_ENTRY
from logbus.storage.segments.segment import Segment
from logbus.storage.truncation import truncate_fully, truncate_to
from logbus.testing.simulation.environment.memory_disk import MemoryDisk, broken, no_space
from tests.storage.builders import NOW_MS, a_log, batch, data_of, offsets_of, read_all


class AppendTests(SynchronousTestCase):
    """What becomes of a produced batch."""

    def refused(self, code: ErrorCode, data: bytes, **config: object) -> str:
        """``data`` is refused with ``code``, and nothing is written; the message."""
        log = a_log(config=TopicConfig(**config))  # type: ignore[arg-type]
        error = self.assertRaises(ApiError, append_as_leader, log, data, 0)
        self.assertEqual(error.code, code)
        self.assertEqual((log.log_end_offset, log.size), (0, 0))
        return error.message

    def test_offsets_are_dense(self) -> None:
        """Batches get consecutive offsets, and come back with them, byte for byte apart from offset and epoch."""
        log = a_log()
        first, second = batch(b"a", b"b"), batch(b"c")
        self.assertEqual(append_as_leader(log, first, 4), LogAppendInfo(0, 1, -1, 0, len(first)))
        self.assertEqual(append_as_leader(log, memoryview(second), 4), LogAppendInfo(2, 2, -1, 0, len(second)))
        data = data_of(log.read(0, 1 << 20).data)
        self.assertEqual([read_header(data).leader_epoch, *offsets_of(data)], [4, 0, 2])
        self.assertEqual(data[16 : len(first)], first[16:])
        self.assertEqual(read_all(log), [(0, b"a"), (1, b"b"), (2, b"c")])

    def test_callers_buffer_is_not_changed(self) -> None:
        """A writable buffer is not patched: a retry must find the same bytes."""
        log = a_log(config=TopicConfig(message_timestamp_type="LogAppendTime"))
        data = bytearray(batch())
        before = bytes(data)
        append_as_leader(log, data, 9)
        self.assertEqual(bytes(data), before)

    def test_log_append_time(self) -> None:
        """The broker's time replaces the producer's, in every record, and the CRC is right."""
        log = a_log(config=TopicConfig(message_timestamp_type="LogAppendTime"))
        appended = append_as_leader(log, batch(b"a", b"b", timestamp=5), 0, NOW_MS + 3)
        self.assertEqual(appended.log_append_time, NOW_MS + 3)
        data = data_of(log.read(0, 1000).data)
        self.assertTrue(check_crc(data, 0, read_header(data)))
        self.assertEqual([record.timestamp for record in iter_records(data)], [NOW_MS + 3] * 2)

    def test_too_large(self) -> None:
        """max.message.bytes bounds a batch."""
        message = self.refused(ErrorCode.MESSAGE_TOO_LARGE, batch(b"x" * 1000), max_message_bytes=900)
        self.assertIn("max.message.bytes = 900", message)

    def test_larger_than_a_segment(self) -> None:
        """segment.bytes bounds a batch, too."""
        self.refused(ErrorCode.RECORD_LIST_TOO_LARGE, batch(b"x" * 1000), segment_bytes=900)

    def test_bad_crc(self) -> None:
        """A flipped bit is found."""
        data = bytearray(batch())
        data[-1] ^= 1
        self.refused(ErrorCode.CORRUPT_MESSAGE, bytes(data))

    def test_time_bounds(self) -> None:
        """CreateTime must lie within the topic's bounds, unless there is none."""
        late = batch(timestamp=NOW_MS + 3_600_001)
        self.assertIn("after.max.ms", self.refused(ErrorCode.INVALID_TIMESTAMP, late))
        early = batch(timestamp=NOW_MS - 1001)
        self.assertIn("before", self.refused(ErrorCode.INVALID_TIMESTAMP, early, message_timestamp_before_max_ms=1000))
        log = a_log(config=TopicConfig(message_timestamp_before_max_ms=1000))
        append_as_leader(log, batch(timestamp=-1), 0)
        log.config = evolve(log.config, message_timestamp_type="LogAppendTime")
        append_as_leader(log, early, 0)
        self.assertEqual(log.log_end_offset, 2)

    def test_compacted_topics_need_keys(self) -> None:
        """A record without a key is refused there, compressed or not."""
        for codec in (Codec.NONE, Codec.ZSTD):
            data = batch(b"a", b"b", keys=[b"k", None], codec=codec)
            message = self.refused(ErrorCode.INVALID_RECORD, data, cleanup_policy=frozenset({"compact"}))
            self.assertIn("record 1 has no key", message)
        log = a_log(config=TopicConfig(cleanup_policy=frozenset({"compact"})))
        append_as_leader(log, batch(b"a", keys=[b"k"]), 0)
        self.assertEqual(log.log_end_offset, 1)

    def test_full_disk(self) -> None:
        """Without space the append is refused, nothing torn is left, and it works again when there is space."""
        disk = MemoryDisk()
        log = a_log(disk)
        append_as_leader(log, batch(b"a"), 0)
        disk.faults = lambda op, path: no_space() if op == "write" else None
        error = self.assertRaises(ApiError, append_as_leader, log, batch(b"b" * 100), 0)
        self.assertEqual(error.code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertIsNone(disk.failure)
        self.assertEqual(disk.size("orders-0/00000000000000000000.log"), log.size)
        disk.faults = lambda op, path: None
        append_as_leader(log, batch(b"c"), 0)
        self.assertEqual(read_all(log), [(0, b"a"), (1, b"c")])

    def test_full_disk_at_a_roll(self) -> None:
        """Without space for a new segment the log goes on with the old one when there is space."""
        disk = MemoryDisk()
        log = a_log(disk, config=TopicConfig(segment_bytes=100))
        append_as_leader(log, batch(b"a"), 0)
        disk.faults = lambda op, path: no_space() if op == "create" else None
        self.assertRaises(ApiError, append_as_leader, log, batch(b"b"), 0)
        self.assertEqual(len(log.segments), 1)
        disk.faults = lambda op, path: None
        append_as_leader(log, batch(b"c"), 0)
        self.assertEqual(read_all(log), [(0, b"a"), (1, b"c")])

    def test_write_error(self) -> None:
        """Any other error takes the directory offline, and nothing more is accepted."""
        disk = MemoryDisk()
        log = a_log(disk)
        disk.faults = lambda op, path: broken() if op == "write" else None
        self.assertRaises(StorageError, append_as_leader, log, batch(), 0)
        disk.faults = lambda op, path: None
        self.assertRaises(StorageError, append_as_leader, log, batch(), 0)
        self.assertEqual(log.log_end_offset, 0)
        self.failureResultOf(log.flush(), StorageError)

    def test_from_the_leader(self) -> None:
        """A follower keeps offsets and epochs, gaps included, and leaves out a partial batch at the end."""
        log = a_log()
        whole = batch(b"a", base_offset=5, leader_epoch=2) + batch(b"b", base_offset=9, leader_epoch=3)
        self.assertEqual(append_as_follower(log, whole + batch(b"c", base_offset=10)[:-1]), 10)
        self.assertEqual(offsets_of(data_of(log.read(0, 1 << 20).data)), [5, 9])
        self.assertEqual(list(log.epochs), [(2, 5), (3, 9)])

    def test_invalid_batches_from_a_leader(self) -> None:
        """A follower does not append batches that are damaged or not at the log's end."""
        log = a_log()
        append_as_follower(log, batch(b"a", base_offset=3))
        error = self.assertRaises(ApiError, append_as_follower, log, batch(b"b", base_offset=3))
        self.assertIn("lies before the log's end 4", error.message)
        damaged = bytearray(batch(b"b", base_offset=4))
        damaged[-1] ^= 1
        self.assertRaises(ApiError, append_as_follower, log, bytes(damaged))
        self.assertEqual(log.log_end_offset, 4)


class RangesTests(SynchronousTestCase):
    """What is told who finds the ends of its reads itself."""

    def test_up_to_a_bound(self) -> None:
        """All batches from the one with the offset, segment by segment, and no record at the bound."""
        log = a_log(config=TopicConfig(segment_bytes=12_000, index_interval_bytes=500))
        for i in range(200):
            append_as_leader(log, batch(*[b"v" * (i * 7 % 90)] * (1 + i % 5)), 0)
        self.assertGreater(len(log.segments), 3)
        end = log.log_end_offset
        for bound in (end, end - 3, log.segments[1].base_offset, log.segments[1].base_offset + 1):
            for offset in (0, 1, 17, bound - 1, bound):
                found = log.ranges(offset, bound, 100, 1 << 30)
                records = b"".join(FileSlice(one.file, one.position, one.end - one.position).read() for one in found)
                expected, at = b"", offset
                while (one := log.read(at, 300, bound)).data is not None:
                    expected, at = expected + data_of(one.data), one.end_offset
                self.assertEqual(records, expected)
                self.assertEqual(
                    [each.file for each in log.ranges(offset, bound, 2, 1 << 30)], [each.file for each in found[:2]]
                )
        for one, segment in zip(log.ranges(0, end, 100, 1 << 30), log.segments, strict=True):
            assert one.index is not None
            self.assertEqual(one.entries, segment.offsets.count)
            entries = one.index.pread(8 * one.entries, 0)  # type: ignore[attr-defined]
            self.assertEqual(
                list(OFFSET_ENTRY.iter_unpack(entries)), [segment.offsets.entry(i) for i in range(one.entries)]
            )

    def test_enough(self) -> None:
        """No further segment is opened when there are so many bytes."""
        log = a_log(config=TopicConfig(segment_bytes=100))
        for _ in range(6):
            append_as_leader(log, batch(b"a"), 0)
        size = log.segments[0].size
        for enough, count in ((1, 1), (size, 1), (size + 1, 2), (3 * size, 3)):
            self.assertEqual(len(log.ranges(0, 6, 9, enough)), count)

    def test_no_index_yet(self) -> None:
        log = a_log()
        append_as_leader(log, batch(b"a"), 0)
        [found] = log.ranges(0, 1, 8, 1 << 30)
        self.assertEqual((found.index, found.entries, found.position, found.end), (None, 0, 0, log.segments[0].size))

    def test_up_to_an_error(self) -> None:
        """What comes before something that cannot be read yet is given."""
        log = a_log(config=TopicConfig(segment_bytes=100))
        for _ in range(4):
            append_as_leader(log, batch(b"a"), 0)
        given = log.ranges(0, 4, 9, 1 << 30)
        self.assertEqual(len(given), 4)
        cold = NotCached(log.segments[0].log.get(), 0, 100)
        with patch.object(Segment, "range", side_effect=[*given[:2], cold]):
            self.assertEqual(log.ranges(0, 4, 9, 1 << 30), given[:2])

    def test_no_space_for_the_index(self) -> None:
        """The reactor goes on to find the ends; the entries stay in memory."""
        disk = MemoryDisk()
        log = a_log(disk, config=TopicConfig(index_interval_bytes=100))
        for _ in range(9):
            append_as_leader(log, batch(b"a"), 0)
        disk.faults = lambda op, path: no_space() if op in ("create", "write") else None
        self.assertEqual(log.ranges(0, 9, 8, 1 << 30), [])
        disk.faults = lambda op, path: None
        [found] = log.ranges(0, 9, 8, 1 << 30)
        self.assertGreater(found.entries, 0)

    def test_out_of_range(self) -> None:
        log = a_log()
        append_as_leader(log, batch(b"a", b"b"), 0)
        log.advance_start(1)
        for offset in (0, 2, 3):
            self.assertEqual(log.ranges(offset, 2, 5, 1 << 30), [])


class RollTests(SynchronousTestCase):
    """When a new segment begins."""

    def bases(self, log_config: TopicConfig, *batches: bytes) -> list[int]:
        log = a_log(config=log_config)
        for data in batches:
            append_as_leader(log, data, 0)
        self.assertEqual([offset for offset, _ in read_all(log)], list(range(log.log_end_offset)))
        return [segment.base_offset for segment in log.segments]

    def test_by_size(self) -> None:
        """A batch that does not fit begins a new segment."""
        size = len(batch(b"a"))
        self.assertEqual(self.bases(TopicConfig(segment_bytes=2 * size), *[batch(b"a")] * 5), [0, 2, 4])

    def test_by_age(self) -> None:
        """A record more than segment.ms younger than the segment's first begins a new one."""
        config = TopicConfig(segment_ms=1000)
        times = (NOW_MS, NOW_MS + 1000, NOW_MS + 1001, NOW_MS + 1500)
        self.assertEqual(self.bases(config, *(batch(timestamp=time) for time in times)), [0, 2])

    def test_by_age_without_times(self) -> None:
        """Records without a time roll by the broker's clock."""
        now = [1000.0]
        log = a_log(config=TopicConfig(segment_ms=1000), wall_clock=lambda: now[0])
        append_as_leader(log, batch(timestamp=-1), 0)
        now[0] += 1.001
        append_as_leader(log, batch(timestamp=-1), 0)
        self.assertEqual([segment.base_offset for segment in log.segments], [0, 1])

    def test_by_a_changed_age(self) -> None:
        """A topic's new segment.ms holds for the segment that there is."""
        log = a_log(config=TopicConfig(segment_ms=10_000))
        append_as_leader(log, batch(timestamp=NOW_MS), 0)
        append_as_leader(log, batch(timestamp=NOW_MS + 5000), 0)
        log.configure(TopicConfig(segment_ms=1000))
        append_as_leader(log, batch(timestamp=NOW_MS + 5001), 0)
        self.assertEqual([segment.base_offset for segment in log.segments], [0, 2])

    def test_jitter(self) -> None:
        """With jitter a segment rolls earlier, by at most that much."""
        log = a_log(config=TopicConfig(segment_ms=1000, segment_jitter_ms=400))
        ages = []
        for _ in range(20):
            first, count = NOW_MS, len(log.segments)
            append_as_leader(log, batch(timestamp=first), 0)
            for age in range(500, 1100, 10):
                append_as_leader(log, batch(timestamp=first + age), 0)
                if len(log.segments) > count:
                    ages.append(age)
                    log.roll()
                    break
        self.assertEqual(len(ages), 20)
        self.assertTrue(all(600 <= age <= 1010 for age in ages), ages)
        self.assertGreater(len(set(ages)), 5)

    def test_by_index(self) -> None:
        """A full index begins a new segment."""
        config = TopicConfig(segment_index_bytes=24, index_interval_bytes=0)
        self.assertEqual(self.bases(config, *[batch(timestamp=NOW_MS + i) for i in range(8)]), [0, 3, 6])

    def test_by_offset(self) -> None:
        """Offsets that do not fit the index's 31 bits begin a new segment."""
        log = a_log()
        append_as_follower(log, batch(b"a", base_offset=0))
        append_as_follower(log, batch(b"b", base_offset=2**31 + 5))
        append_as_follower(log, batch(b"c", base_offset=2**33))
        self.assertEqual(len(log.segments), 3)
        self.assertEqual([data_of(log.read(offset, 1000).data)[7] for offset in (0, 1, 2**31 + 6)], [0, 5, 0])


class CloseTests(SynchronousTestCase):
    def test_freed(self) -> None:
        """A log that was written to, synced and closed is freed with its last reference, without the collector."""
        log = a_log()
        append_as_leader(log, batch(), 0)
        self.successResultOf(log.flush())
        log.roll()
        self.successResultOf(log.close())
        gc.disable()
        self.addCleanup(gc.enable)
        freed = weakref.ref(log)
        del log
        self.assertIsNone(freed())


class ReadTests(SynchronousTestCase):
    """What a read returns."""

    def setUp(self) -> None:
        self.log = a_log()
        self.sizes = [append_as_leader(self.log, batch(*[b"x" * n] * 2), 0).size for n in (10, 20, 30, 40)]

    def offsets(self, offset: int, max_bytes: int = 1 << 20, bound: int | None = None, **more: bool) -> list[int]:
        return offsets_of(data_of(self.log.read(offset, max_bytes, bound, **more).data))

    def test_in_the_middle_of_a_batch(self) -> None:
        """A batch is returned whole, whichever of its offsets was asked for."""
        self.assertEqual(self.offsets(3), [2, 4, 6])

    def test_at_the_end(self) -> None:
        """The log's end is a valid place to wait."""
        self.assertIsNone(self.log.read(8, 1000).data)

    def test_out_of_range(self) -> None:
        """Before the start and behind the end is an error that names all offsets."""
        self.log.advance_start(2)
        for offset in (-1, 1, 9, 2**63 - 1):
            error = self.assertRaises(ApiError, self.log.read, offset, 1000)
            self.assertEqual(error.code, ErrorCode.OFFSET_OUT_OF_RANGE)
            self.assertEqual(error.message, f"orders-0: offset {offset} is not within 2 to 8")

    def test_bound(self) -> None:
        """Nothing at or above the bound is returned, nor a batch that reaches it."""
        self.assertEqual(self.offsets(0, bound=6), [0, 2, 4])
        self.assertEqual(self.offsets(0, bound=5), [0, 2])
        self.assertEqual(self.offsets(4, bound=5), [])
        self.assertEqual(self.offsets(6, bound=2), [])

    def test_max_bytes(self) -> None:
        """Whole batches up to max_bytes; the first one in any case, if asked so."""
        two = sum(self.sizes[:2])
        self.assertEqual(self.offsets(0, two), [0, 2])
        self.assertEqual(self.offsets(0, two - 1), [0])
        self.assertEqual(self.offsets(0, 1), [0])
        self.assertEqual(self.offsets(0, 1, min_one_batch=False), [])
        self.assertEqual(self.offsets(0, 0), [0])
        self.assertEqual(self.offsets(0, -5), [0])
        self.assertEqual(self.offsets(0, 0, min_one_batch=False), [])
        self.assertEqual(self.offsets(0, -5, min_one_batch=False), [])
        self.assertEqual(self.offsets(6, 1, bound=8), [6])

    def test_over_segments(self) -> None:
        """A read ends with its segment; the next goes on behind it."""
        self.log.roll()
        append_as_leader(self.log, batch(b"y"), 0)
        self.assertEqual(self.offsets(6), [6])
        self.assertEqual(self.offsets(8), [8])
        self.assertEqual(len(read_all(self.log, 100)), 9)

    def test_gaps(self) -> None:
        """An offset that compaction removed gives the next one, in the next segment if need be."""
        log = self.log
        append_as_follower(log, batch(b"z", base_offset=20, leader_epoch=0))
        log.roll()
        append_as_follower(log, batch(b"z", base_offset=30, leader_epoch=0))
        self.assertEqual([self.offsets(offset)[0] for offset in (8, 19, 20, 21, 30)], [20, 20, 20, 30, 30])
        self.assertEqual(self.offsets(21, bound=25), [])

    def test_deleted_while_read(self) -> None:
        """A slice still reads after its segment was unlinked."""
        result = self.log.read(0, 1 << 20)
        self.log.high_watermark = 8
        truncate_fully(self.log, 100)
        self.assertEqual(offsets_of(data_of(result.data)), [0, 2, 4, 6])
        self.assertEqual(self.log.disk.names("orders-0"), ["00000000000000000100.log"])

    def test_far_behind_the_end(self) -> None:
        """Offsets the memory of recent batches has lost are found by index, at any distance."""
        log = a_log(config=TopicConfig(index_interval_bytes=500))
        for i in range(2000):
            append_as_leader(log, batch(b"%d" % i), 0)
        for offset in (0, 1, 7, 500, 1333, 1743, 1744, 1871, 1872, 1999):
            data = data_of(log.read(offset, 1).data)
            self.assertEqual(offsets_of(data), [offset])
        self.assertEqual(offsets_of(data_of(log.read(3, 1 << 20, bound=1000).data)), list(range(3, 1000)))
        result = log.read(3, 10_000, bound=1000)
        whole = offsets_of(data_of(result.data))
        self.assertEqual(whole, list(range(3, 3 + len(whole))))
        self.assertGreater(len(whole), 80)
        self.assertEqual(result.end_offset, whole[-1] + 1)

    def test_small_reads_go_on_where_the_last_one_ended(self) -> None:
        """One read of the file gives the batches, and tells where those behind them are, to each of several readers."""
        log = a_log()
        for i in range(1000):
            append_as_leader(log, batch(b"%d" % i * (1 + i % 7)), 0)
        file = log.segments[0].log.get()
        reads: list[tuple[int, int]] = []
        pread = file.pread

        def counted(length: int, position: int) -> bytes:
            reads.append((length, position))
            return pread(length, position)

        self.patch(file, "pread", counted)
        places = [3, 100, 400]
        for _ in range(20):
            for i, offset in enumerate(places):
                result = log.read(offset, 300)
                data = result.data
                assert data is not None
                found = offsets_of(data.read())
                self.assertEqual(found, list(range(offset, offset + len(found))))
                self.assertEqual((result.end_offset, data.read()), (found[-1] + 1, pread(len(data), data.position)))
                places[i] = found[-1] + 1
        self.assertEqual([length for length, _ in reads[6:]], [327] * (len(reads) - 6))
        self.assertLessEqual(len(reads), 6 + 60)

    def test_small_reads_of_what_replaced_others(self) -> None:
        """What is remembered of batches that were truncated does not hold for those that replaced them."""
        log = a_log()
        for i in range(600):
            append_as_leader(log, batch(b"%d" % i), 0)
        self.assertEqual(offsets_of(data_of(log.read(50, 1).data)), [50])
        truncate_to(log, 40)
        for i in range(600):
            append_as_leader(log, batch(b"longer %d" % i), 1)
        self.assertEqual(offsets_of(data_of(log.read(51, 1).data)), [51])
        self.assertEqual(offsets_of(data_of(log.read(50, 300).data)), [50, 51, 52])
