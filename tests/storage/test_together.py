"""Several batches by one write."""

from __future__ import annotations

import errno

from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic import TopicConfig
from logbus.records.batch import iter_batches
from logbus.storage.log import Log
from logbus.storage.together import MOST, append_together
from logbus.testing.simulation.disk import MemoryDisk, broken
from tests.storage.builders import NOW_MS, a_log, batch


class TogetherTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.disk = MemoryDisk()
        self.writes = 0
        self.fault: OSError | None = None
        self.disk.faults = self.step

    def step(self, op: str, path: str) -> OSError | None:
        self.writes += op == "write"
        return self.fault if op == "write" else None

    def a_log(self, **config: object) -> Log:
        """A log with one batch: the first of a segment is appended by itself."""
        log = a_log(self.disk, config=TopicConfig(**config))  # type: ignore[arg-type]
        log.append_as_leader(batch(b"first"), 3)
        self.writes = 0
        return log

    def append(self, log: Log, *batches: bytes) -> list[int] | None:
        appended = append_together(log, batches, 3, NOW_MS, True)
        return None if appended is None else appended.base_offsets

    def test_one_write(self) -> None:
        """
        All are written at once, each with its own offsets and the leader's epoch.
        """
        log = self.a_log()
        appended = append_together(log, [batch(b"a"), batch(b"b", b"c"), batch(b"d")], 3, NOW_MS, True)
        assert appended is not None
        self.assertEqual((appended.base_offsets, appended.end_offset, self.writes), ([1, 2, 4], 5, 1))
        self.assertEqual(appended.size, sum(map(len, (batch(b"a"), batch(b"b", b"c"), batch(b"d")))))
        data = log.read(0, 10_000).data
        assert data is not None
        headers = [header for _, header in iter_batches(data.read())]
        self.assertEqual([header.base_offset for header in headers], [0, 1, 2, 4])
        self.assertEqual({header.leader_epoch for header in headers}, {3})

    def test_none_or_all(self) -> None:
        """
        If one is not to be written, none is.
        """
        log = self.a_log()
        good = batch(b"a")
        for other in (b"nonsense", batch(producer_id=1, producer_epoch=0, base_sequence=0), batch(timestamp=-1)):
            self.assertIsNone(self.append(log, good, other))
        self.assertIsNone(self.append(log, *[good] * (MOST + 1)))
        self.assertEqual((log.log_end_offset, self.writes), (1, 0))
        self.assertEqual(self.append(log, *[good] * MOST), list(range(1, MOST + 1)))

    def test_a_disk_that_is_full(self) -> None:
        """
        What could not be written is not in the log, and the log goes on.
        """
        log = self.a_log()
        self.fault = OSError(errno.ENOSPC, "full")
        self.assertIsNone(self.append(log, batch(b"a"), batch(b"b")))
        self.assertEqual(log.log_end_offset, 1)
        self.fault = None
        self.assertEqual(self.append(log, batch(b"a"), batch(b"b")), [1, 2])

    def test_a_disk_that_fails(self) -> None:
        """
        A disk that cannot write goes offline, and whoever asks one by one hears of it.
        """
        log = self.a_log()
        self.fault = broken()
        self.assertIsNone(self.append(log, batch(b"a"), batch(b"b")))
        self.assertIsNotNone(self.disk.failure)
        self.assertEqual(log.log_end_offset, 1)

    def test_rolling(self) -> None:
        """
        Where a segment may end among them, they are not written together.
        """
        size = len(batch(b"a"))
        log = self.a_log(segment_bytes=len(batch(b"first")) + 3 * size)
        self.assertIsNone(self.append(log, *[batch(b"a")] * 4))
        self.assertEqual(self.append(log, *[batch(b"a")] * 3), [1, 2, 3])
        log = self.a_log_of_hours()
        self.assertIsNone(self.append(log, batch(b"a"), batch(b"b", timestamp=NOW_MS + 3_600_001), batch(b"c")))

    def a_log_of_hours(self) -> Log:
        self.disk = MemoryDisk()
        return self.a_log(segment_ms=3_600_000, message_timestamp_after_max_ms=2**63 - 1)
