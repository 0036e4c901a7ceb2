"""A log compared with a list: the same results for any sequence of operations."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError
from logbus.records.batch import iter_batches, iter_records
from logbus.records.compression import Codec
from logbus.storage.appends.append_as_follower import append_as_follower
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.log import Log
from logbus.storage.offset_lookup import offset_for_timestamp
from logbus.storage.retention import TimeAndSize
from logbus.storage.settings import StorageSettings
from logbus.storage.truncation import delete_expired
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.storage.builders import NOW_MS, PARTITION, a_manager, batch, data_of, finish

CONFIG = TopicConfig(segment_bytes=600, index_interval_bytes=130, retention_ms=-1, retention_bytes=900)
SETTINGS = StorageSettings(write_back_bytes=700, write_back_interval_ms=0, max_open_files=2)


def now(deferred: Deferred[Any]) -> Any:
    """The result of what must have fired."""
    results: list[Any] = []
    deferred.addBoth(results.append)
    assert results
    if hasattr(results[0], "raiseException"):
        results[0].raiseException()
    return results[0]


class LogMachine(RuleBasedStateMachine):
    """
    The model: for each batch in the log its base offset, its values, its time and its epoch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[tuple[int, list[bytes], int, int]] = []
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.written = 0

    @initialize()
    def begin(self) -> None:
        self.disk = MemoryDisk()
        self.open()
        now(self.manager.create(PARTITION))

    def open(self) -> None:
        self.manager = a_manager(self.disk, clock=Clock(), settings=SETTINGS, default_config=CONFIG)
        now(self.manager.open())
        self.manager.start_housekeeping()

    @property
    def log(self) -> Log:
        log = self.manager.get(PARTITION)
        assert log is not None
        return log

    @rule(count=st.integers(1, 4), size=st.integers(0, 90), codec=st.sampled_from([Codec.NONE, Codec.GZIP]))
    def append(self, count: int, size: int, codec: Codec) -> None:
        values = [b"%d " % (self.written + i) + b"x" * size for i in range(count)]
        self.written += count
        time = NOW_MS + self.written
        appended = append_as_leader(self.log, batch(*values, timestamp=time, codec=codec), self.epoch)
        assert appended.base_offset == self.end
        self.batches.append((self.end, values, time, self.epoch))
        self.end += count

    @rule(gap=st.integers(0, 5))
    def append_from_leader(self, gap: int) -> None:
        value = b"%d" % self.written
        self.written += 1
        base, time = self.end + gap, NOW_MS + self.written
        append_as_follower(self.log, batch(value, timestamp=time, base_offset=base, leader_epoch=self.epoch))
        self.batches.append((base, [value], time, self.epoch))
        self.end = base + 1

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def flush(self) -> None:
        now(self.log.flush())
        assert self.log.flushed_end_offset == self.end

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        offset = self.end - back
        if offset < self.log.segments[0].base_offset:
            return
        now(self.manager.truncator.truncate({PARTITION: offset}))
        if back:
            self.batches = [b for b in self.batches if b[0] + len(b[1]) <= offset]
            self.end = self.log.log_end_offset
            assert max([b[0] + len(b[1]) for b in self.batches], default=0) <= self.end <= offset
            self.start = min(self.start, self.end)

    @rule(forward=st.integers(0, 10))
    def give_up(self, forward: int) -> None:
        self.start = max(self.start, min(self.start + forward, self.end))
        now(self.manager.delete_records(PARTITION, self.start))

    @rule()
    def retain(self) -> None:
        self.log.high_watermark = self.end
        delete_expired(self.log, TimeAndSize(), NOW_MS)
        self.start = self.log.log_start_offset
        assert self.start <= self.end
        self.batches = [b for b in self.batches if b[0] >= self.log.segments[0].base_offset]

    @precondition(lambda self: self.written)
    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if clean:
            now(self.manager.close())
        start = self.log.log_start_offset if clean else None
        self.disk = self.disk.after_kill()
        self.open()
        if start is not None:
            assert self.log.log_start_offset == start
        # Retention between two checkpoints of the start is undone by a kill only as far as files are there.
        self.start = self.log.log_start_offset

    @rule(offset=st.integers(0, 60), max_bytes=st.integers(1, 900), bound=st.none() | st.integers(0, 60))
    def read(self, offset: int, max_bytes: int, bound: int | None) -> None:
        if not self.start <= offset <= self.end:
            try:
                self.log.read(offset, max_bytes, bound)
            except ApiError:
                return
            raise AssertionError("out of range, and not refused")
        result = self.log.read(offset, max_bytes, bound)
        data = data_of(result.data)
        limit = self.end if bound is None else min(bound, self.end)
        expected = [b for b in self.batches if b[0] + len(b[1]) > offset]
        got = list(iter_batches(data))
        whole = [b for b in expected if b[0] + len(b[1]) <= limit]
        if whole and whole[0] is expected[0] and offset < limit:
            assert got, "there is a batch to give"
        assert [header.base_offset for _, header in got] == [b[0] for b in expected[: len(got)]]
        assert len(got) <= len(whole)
        assert len(data) <= max_bytes or len(got) == 1
        assert sum(header.size for _, header in got) == len(data)
        values = [record.value for record in iter_records(data)]
        assert values == [value for b in expected[: len(got)] for value in b[1]]
        if got:
            end = got[-1][1].next_offset
            last_of_next = max([end, *(b[0] + len(b[1]) - 1 for b in expected[len(got) : len(got) + 1])])
            assert end <= result.end_offset <= last_of_next, "it reaches into the next batch at most"

    @rule(back=st.integers(-1, 60))
    def look_up(self, back: int) -> None:
        time = NOW_MS + self.written - back
        found = finish(offset_for_timestamp(self.log, time))
        expected = next(
            (
                (max(b[0], self.start), b[2], b[3])
                for b in self.batches
                if b[2] >= time and b[0] + len(b[1]) > self.start
            ),
            None,
        )
        assert (found and (found.offset, found.timestamp, found.epoch)) == expected

    @invariant()
    def bounds(self) -> None:
        if hasattr(self, "manager"):
            log = self.log
            assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
            assert log.flushed_end_offset <= log.log_end_offset
            assert self.disk.failure is None
            for base, values, _, epoch in self.batches[-3:]:
                if base >= self.start:
                    assert log.epoch_at(base + len(values) - 1) == epoch

    def teardown(self) -> None:
        if hasattr(self, "manager"):
            now(self.manager.close())
            assert self.disk.open_files == 0


LogModelTests = LogMachine.TestCase
LogModelTests.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
