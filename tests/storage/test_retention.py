"""The segments that retention deletes, and those that it keeps."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.istorage import IDeletePolicy
from logbus.storage.log import Log
from logbus.storage.retention import TimeAndSize
from logbus.storage.truncation import delete_expired
from tests.storage.builders import NOW_MS, batch, read_all, three_segments

SIZE = len(batch(b"x"))


class PolicyTests(SynchronousTestCase):
    """Kafka's retention."""

    def left(self, log: Log, now_ms: int = NOW_MS) -> list[int]:
        """Base offsets of what is left after retention ran."""
        delete_expired(log, TimeAndSize(), now_ms)
        return [segment.base_offset for segment in log.segments]

    def test_interface(self) -> None:
        """The built-in policy is what policies must be."""
        self.assertTrue(verifyObject(IDeletePolicy, TimeAndSize()))

    def test_by_time(self) -> None:
        """A segment goes when its youngest record is older than retention.ms."""
        log = three_segments(retention_ms=10_000)
        self.assertEqual(self.left(log, NOW_MS + 11_000), [0, 2, 4])
        self.assertEqual(self.left(log, NOW_MS + 11_001), [2, 4])
        self.assertEqual((log.log_start_offset, [offset for offset, _ in read_all(log)]), (2, [2, 3, 4]))
        self.assertRaises(ApiError, log.read, 1, 100)

    def test_the_active_segment_by_time(self) -> None:
        """The active segment is rolled and goes, too, when all in it is old; an empty one stays."""
        log = three_segments(retention_ms=10_000)
        self.assertEqual(self.left(log, NOW_MS + 99_000), [5])
        self.assertEqual(self.left(log, NOW_MS + 999_000), [5])
        self.assertEqual((log.log_start_offset, log.log_end_offset), (5, 5))
        append_as_leader(log, batch(), 0)
        self.assertEqual(log.log_end_offset, 6)

    def test_by_size(self) -> None:
        """The oldest go as long as what is left has at least retention.bytes."""
        self.assertEqual(self.left(three_segments(retention_bytes=3 * SIZE, retention_ms=-1)), [2, 4])
        self.assertEqual(self.left(three_segments(retention_bytes=3 * SIZE + 1, retention_ms=-1)), [0, 2, 4])
        self.assertEqual(self.left(three_segments(retention_bytes=-1, retention_ms=-1), 2**60), [0, 2, 4])

    def test_below_the_start(self) -> None:
        """Segments wholly below the log's start go, whatever the topic's policy."""
        for policy in ("delete", "compact"):
            log = three_segments()
            log.config = TopicConfig(cleanup_policy=frozenset({policy}))
            log.advance_start(3)
            self.assertEqual(self.left(log), [2, 4])
            log.advance_start(4)
            self.assertEqual(self.left(log), [4])
            self.assertEqual(log.log_start_offset, 4)

    def test_uncommitted_records_are_kept(self) -> None:
        """Uncommitted records are kept, however old."""
        log = three_segments(retention_ms=10_000)
        log.high_watermark = 3
        self.assertEqual(self.left(log, NOW_MS + 99_000), [2, 4])

    def test_compacted_topics(self) -> None:
        """A topic that is only compacted keeps everything."""
        log = three_segments(retention_ms=10)
        log.config = TopicConfig(cleanup_policy=frozenset({"compact"}), retention_ms=10)
        self.assertEqual(self.left(log, 2**60), [0, 2, 4])

    def test_start_only_grows(self) -> None:
        """The start never goes back, nor behind the end."""
        log = three_segments()
        self.assertTrue(log.advance_start(3))
        self.assertFalse(log.advance_start(2))
        self.assertEqual(log.log_start_offset, 3)
        self.assertEqual(self.assertRaises(ApiError, log.advance_start, 6).code, ErrorCode.OFFSET_OUT_OF_RANGE)
