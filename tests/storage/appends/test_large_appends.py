"""Large batches whose records are written before they are appended: logs are as if they had not been."""

from __future__ import annotations

import contextlib
import errno
from functools import partial
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, StorageError
from logbus.storage.appends import large_appends
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.appends.append_many import append_many
from logbus.storage.appends.large_appends import LargeAppends
from logbus.storage.log import Log
from logbus.storage.log_recovery import recover_log
from logbus.storage.truncation import truncate_to
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.storage.builders import NOW_MS, a_log, batch, read_all

ENOSPC = OSError(errno.ENOSPC, "full")
EIO = OSError(errno.EIO, "broken")


class Script:
    """Appends to one log, as connections make them, and what must be in it."""

    def __init__(self, **config: object) -> None:
        self.disk = MemoryDisk()
        self.disk.ahead = []
        self.faults: dict[str, OSError] = {}
        self.disk.faults = lambda op, path: self.faults.pop(op, None)
        self.log = a_log(self.disk, config=TopicConfig(**config))  # type: ignore[arg-type]
        append_as_leader(self.log, batch(b"first"), 3, NOW_MS)
        self.large = LargeAppends()
        self.expected = [b"first"]
        self.waiting: list[Deferred[None]] = []
        self.number = 0

    def value(self, size: int = 0) -> bytes:
        self.number += 1
        return b"%d " % self.number + bytes(size)

    def append(self, value: bytes, data: bytes, _: object = None) -> None:
        with contextlib.suppress(ApiError, StorageError):
            append_as_leader(self.log, data, 3, NOW_MS)
            self.expected.append(value)

    def wait(self, waiting: Deferred[None] | None, value: bytes, data: bytes) -> None:
        if waiting is None:
            self.append(value, data)
        else:
            waiting.addCallbacks(partial(self.append, value, data), lambda _: None)
            self.waiting.append(waiting)

    def do(self, op: str) -> None:
        log = self.log
        if op == "large":
            data = batch(value := self.value(300))
            self.wait(self.large.turn(log, data), value, data)
        elif op == "refused":
            data = bytearray(batch(value := self.value(300)))
            data[-1] ^= 1
            self.wait(self.large.turn(log, bytes(data)), value, bytes(data))
        elif op == "small":
            self.wait(self.large.after_turn(log), value := self.value(), batch(value))
        elif op == "heedless":
            self.append(value := self.value(), batch(value))
        elif op == "many":
            values = [self.value(), self.value()]
            if append_many(log, [batch(value) for value in values], 3, NOW_MS, True) is not None:
                self.expected += values
        elif op == "client gone" and self.waiting:
            self.waiting.pop(len(self.waiting) // 2).cancel()
        elif op == "written":
            self.disk.release_ahead()
        elif op == "roll":
            with contextlib.suppress(ApiError, StorageError):
                log.roll()
        elif op == "truncate" and log.log_end_offset > 1:
            with contextlib.suppress(ApiError, StorageError):
                truncate_to(log, log.log_end_offset - 1)
            del self.expected[log.log_end_offset :]
        elif op == "flush":
            log.flush().addErrback(lambda _: None)
        elif op == "closed":
            log.close()
            log.reopen()
        elif op in ("no space", "no space ahead", "broken ahead"):
            self.faults = {"write ahead" if "ahead" in op else "write": EIO if "broken" in op else ENOSPC}

    def end(self) -> None:
        self.faults.clear()
        while self.disk.release_ahead():
            pass

    def values(self, log: Log) -> list[bytes | None]:
        return [value for _, value in read_all(log)]


OPS = [
    *["large"] * 4, *["written"] * 4, *["small"] * 3, "heedless", "many", "refused", "client gone", "roll", "truncate",
    "flush", "closed", "no space", "no space ahead", "broken ahead",
]  # fmt: skip
ops = st.lists(st.sampled_from(OPS), max_size=40)
configs = st.sampled_from([{}, {}, {"segment_bytes": 900}, {"index_interval_bytes": 1}, {"max_message_bytes": 350}])


class LargeAppendsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.patch(large_appends, "LARGE", 200)

    @given(ops, configs)
    def test_any_order(self, script: list[str], config: dict[str, Any]) -> None:
        """
        Whatever comes while records are being written: the log has each appended batch once, in order; all that wait
        are called; files have nothing else; and a process that is killed finds the same.
        """
        self.patch(large_appends, "LARGE", 200)
        run = Script(**config)
        killed, known = run.disk.after_kill(), list(run.expected)
        for op in script:
            run.do(op)
            if run.disk.failure is None:
                killed, known = run.disk.after_kill(), list(run.expected)
        run.end()
        self.assertTrue(all(waiting.called for waiting in run.waiting))
        self.assertFalse(run.large)
        if run.disk.failure is not None:
            return
        self.assertEqual(run.values(run.log), run.expected)
        for segment in run.log.segments:
            self.assertEqual(run.disk.size(segment.log.path), segment.size)
        log = a_log(killed, create=False)
        progress: Any = SimpleNamespace(add=lambda *_: None)
        self.successResultOf(Deferred.fromCoroutine(recover_log(log, 0, 0, progress)))
        self.assertEqual(run.values(log), known)

    def test_its_turn(self) -> None:
        """Records are written while the batch waits, and not again; other large ones wait for turns of their own."""
        run = Script()
        for _ in range(3):
            run.do("large")
        self.assertEqual(run.log.log_end_offset, 1)
        for end in (2, 3, 4):
            self.assertEqual(len(run.disk.ahead or ()), 1)
            run.disk.release_ahead()
            self.assertEqual(run.log.log_end_offset, end)
        self.assertEqual([op for op, _ in run.disk.done if "write" in op][1:], ["write ahead", "write"] * 3)
        self.assertNotIn("truncate", [op for op, _ in run.disk.done])

    def test_small_ones_wait_for_one_turn(self) -> None:
        """A small batch is appended before the next large one begins; without a turn it need not wait."""
        run = Script()
        for op in ("small", "large", "large", "small", "small", "written"):
            run.do(op)
        self.assertEqual([value[:1] for value in run.expected[1:]], [b"1", b"2", b"4", b"5"])
        self.assertEqual(len(run.disk.ahead or ()), 1)

    def test_not_worth_it(self) -> None:
        """Batches that are small, too large, or changed by the broker, and logs not written to yet, do not wait."""
        run = Script()
        self.assertIsNone(run.large.turn(run.log, batch(b"small")))
        for config in (
            {"compression_type": "lz4"},
            {"message_timestamp_type": "LogAppendTime"},
            {"max_message_bytes": 210},
            {"segment_bytes": 300},
        ):
            other = Script(**config)
            self.assertIsNone(other.large.turn(other.log, batch(bytes(250))))
            self.assertFalse(other.large)
        self.assertIsNone(run.large.turn(a_log(MemoryDisk()), batch(bytes(250))))
        run.disk.ahead = None
        self.assertIsNone(run.large.turn(run.log, batch(bytes(250))))

    def test_the_disk_fails(self) -> None:
        """Those that wait are called, and find the disk offline."""
        run = Script()
        for op in ("large", "large", "small"):
            run.do(op)
        run.disk.fail(StorageError("a sync failed"))
        run.end()
        self.assertTrue(all(waiting.called for waiting in run.waiting))
        self.assertEqual(run.expected, [b"first"])
