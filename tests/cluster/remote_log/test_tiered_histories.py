"""
Histories of a log through compaction, upload, moves, kills and fetches: readers find what the local log had, and so do
followers that begin behind what only the store has.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.remote_log.remote_state import remote_state
from logbus.config.topic_config import TopicConfig
from logbus.model import OffsetAndEpoch
from logbus.records.batch import iter_batches, iter_records
from logbus.storage.appends.append_as_follower import append_as_follower
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.retention import TimeAndSize
from logbus.storage.truncation import delete_expired
from logbus.testing.simulation.environment.memory_disk import Crashed, MemoryDisk
from tests.cluster.remote_log.fakes import Killed, MemoryStorage, MemoryTopic, TieredBroker
from tests.storage.builders import NOW_MS, PARTITION, batch
from tests.storage.test_log_crashes import result

COMPACTED = TopicConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=400, min_cleanable_dirty_ratio=0.0, retention_ms=-1
)
TIERED = evolve(
    COMPACTED, cleanup_policy=frozenset({"delete"}), remote_storage_enable=True, local_retention_bytes=0
)  # fmt: skip

Content = list[tuple[int, bytes | None, bytes | None]]

STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 6)),
    st.tuples(st.sampled_from(["epoch", "clean", "tier", "expire", "restart", "follow"]), st.just(0)),
    st.tuples(st.just("work"), st.integers(0, 40)),
    st.tuples(st.just("delete"), st.integers(0, 60)),
    st.tuples(st.just("move"), st.integers(0, 60)),
    st.tuples(st.just("read"), st.integers(0, 60)),
)


class History:
    """
    A leader with two log directories, of which one is killed now and then.

    :ivar wanted: the records that the log has, by a read of the local log before anything left it.
    """

    def __init__(self) -> None:
        self.storage, self.topic, self.config = MemoryStorage(), MemoryTopic(), COMPACTED
        self.sequence = self.epoch = 0
        self.wanted: Content = []
        self.open(MemoryDisk("/a"), MemoryDisk("/b"))

    def open(self, first: MemoryDisk, second: MemoryDisk) -> None:
        self.broker = TieredBroker(first, self.storage, self.topic, self.config, more_disks=(second,))
        self.broker.open(result)
        self.broker.logs.start_housekeeping()
        self.settle()
        self.broker.log.become_leader(self.epoch)

    def settle(self) -> None:
        """Let moves end; the replica has its log then."""
        broker = self.broker
        for _ in range(1000):
            if not broker.logs.mover.moves:
                break
            broker.clock.advance(0.1)
        log = broker.logs.get(PARTITION)
        assert log is not None
        broker.lead(log)

    def step(self, what: str, n: int) -> None:
        """One step; those that cannot be now do nothing."""
        getattr(self, what)(n)

    def append(self, n: int) -> None:
        for _ in range(n):
            key, value = b"%d" % (self.sequence % 3), b"value %d" % self.sequence
            appended = append_as_leader(
                self.broker.log,
                batch(
                    value, keys=[key], timestamp=NOW_MS, producer_id=7, producer_epoch=0, base_sequence=self.sequence
                ),
                self.epoch,
            )
            self.wanted.append((appended.base_offset, key, value))
            self.sequence += 1
        self.broker.log.high_watermark = self.broker.log.log_end_offset

    def epoch_(self) -> None:
        self.epoch += 1
        self.broker.log.become_leader(self.epoch)

    def clean(self, n: int) -> None:
        """Compact, as long as the topic has no remote storage: of each key at least the last value stays."""
        log = self.broker.log
        if self.config is TIERED or not self.wanted:
            return
        last = {key: (offset, value) for offset, key, value in self.wanted}
        log.roll()
        result(log.flush())
        result(log.flusher.write_back_and_wait())
        cleaning = Deferred.fromCoroutine(self.broker.logs.cleaner.clean_all())
        self.broker.clock.pump([0.1] * 50)
        result(cleaning)
        self.wanted = content(self.broker)
        assert {key: (offset, value) for offset, key, value in self.wanted} == last

    def tier(self, n: int) -> None:
        """The topic gets remote storage, and is compacted no more."""
        self.config = self.broker.config = TIERED
        self.broker.log.configure(TIERED)

    def work(self, n: int) -> None:
        """Copy, and delete; the process ends at some step of that."""
        if self.config is COMPACTED:
            return
        left = n

        def count(_: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed

        self.storage.before = self.topic.before = count
        try:
            failure_or_result(self.broker.work())
        except Killed:
            self.restart(0)
        self.storage.before = self.topic.before = lambda what: None

    def expire(self, n: int) -> None:
        """Local retention."""
        log = self.broker.log
        if self.config is TIERED:
            log.high_watermark = log.log_end_offset
            for directory in self.broker.logs.directories:
                result(directory.checkpoint_start_offsets())
            delete_expired(log, TimeAndSize(), NOW_MS)

    def restart(self, n: int) -> None:
        """A kill: everything written is there."""
        self.storage.before = lambda what: None
        self.topic = self.topic.restarted()
        first, second = (disk.after_kill() for disk in (self.broker.disk, *self.broker.more_disks))
        self.open(first, second)

    def delete(self, n: int) -> None:
        log = self.broker.log
        if log.log_start_offset < n <= log.log_end_offset:
            result(self.broker.logs.delete_records(PARTITION, n))
            self.wanted = [each for each in self.wanted if each[0] >= n]

    def move(self, n: int) -> None:
        """To the other directory; the process ends at some step of that, or not."""
        mover, disks = self.broker.logs.mover, (self.broker.disk, *self.broker.more_disks)
        result(self.broker.log.flush())
        there = next(one for one in self.broker.logs.directories if PARTITION not in one.logs)
        for disk, other in (disks, disks[::-1]):
            disk.crash_at = disk.steps + n
            disk.on_crash = lambda other=other: setattr(other, "crashed", True)  # type: ignore[misc]
        try:
            mover.move(PARTITION, there)
            self.settle()
            if any(disk.crashed for disk in disks):
                raise Crashed("while moving")
        except Crashed:
            self.restart(0)
            return
        for disk in disks:
            disk.crash_at = None

    def read(self, n: int) -> None:
        """A fetch from any offset begins with the first record there."""
        log = self.broker.log
        if log.log_start_offset <= n < log.log_end_offset:
            found = [record.offset for record in iter_records(self.broker.read(n, 1).data.read())]
            first = next((offset for offset, _, _ in self.wanted if offset >= n), None)
            assert first is None or first in found or max(found, default=-1) < first

    def follow(self, n: int) -> None:
        """A follower that begins from nothing, as its leader's local log does."""
        leader = self.broker
        start = leader.log.local_start_offset
        follower = TieredBroker(MemoryDisk(), self.storage, self.topic.restarted(), self.config)
        follower.open(result)
        if start > leader.log.log_start_offset:
            last = OffsetAndEpoch(start - 1, leader.log.epoch_at(start - 1))
            asked = remote_state(leader.tools, leader.replica, last, leader.log.log_start_offset)  # type: ignore[arg-type]
            result(follower.logs.truncator.restart_behind(PARTITION, result(Deferred.fromCoroutine(asked))))
        elif start:
            result(follower.logs.truncator.restart(PARTITION, start))
        while (end := follower.log.log_end_offset) < leader.log.log_end_offset:
            data = leader.log.read(end, 1 << 20).data
            if data is None:
                break  # Only a gap that compaction left follows.
            copied = data.read()
            if follower.log.log_end_offset == follower.log.log_start_offset:
                first = next(header.base_offset for _, header in iter_batches(copied))
                if first < end:
                    # The log begins within a batch.
                    result(follower.logs.truncator.restart(PARTITION, first))
            append_as_follower(follower.log, copied)
            follower.log.advance_start(min(leader.log.log_start_offset, follower.log.log_end_offset))
        assert content(follower) == self.wanted
        for offset, _, _ in self.wanted:
            assert follower.log.epoch_at(offset) == leader.log.epoch_at(offset)
        ours, theirs = follower.log.producers.get(7), leader.log.producers.get(7)
        if self.config is TIERED and theirs is not None and start > leader.log.log_start_offset:
            assert ours is not None and ours.batches[-1].last_sequence == theirs.batches[-1].last_sequence


def content(broker: TieredBroker) -> Content:
    """All records, from the log's start."""
    found: Content = []
    offset, end = broker.log.log_start_offset, broker.log.log_end_offset
    while offset < end:
        data = broker.read(offset).data
        if data is None:
            break
        read = data.read()
        found += [(record.offset, record.key, record.value) for record in iter_records(read) if record.offset >= offset]
        offset = max(header.next_offset for _, header in iter_batches(read))
    return found


def failure_or_result(done: Deferred[Any]) -> None:
    """The result, or the error raised."""
    results: list[Any] = []
    done.addBoth(results.append)
    if results and results[0] is not None:
        results[0].raiseException()


class HistoryTests(SynchronousTestCase):
    """Whatever happens."""

    @settings(deadline=None, max_examples=40)
    @given(st.lists(STEPS, max_size=25))
    def test_histories(self, steps: list[tuple[str, int]]) -> None:
        """A log has the records that it had when they were local, and so has each follower."""
        history = History()
        for what, n in steps:
            if what == "epoch":
                history.epoch_()
            else:
                history.step(what, n)
            self.flushLoggedErrors(Crashed)
            self.assertEqual(content(history.broker), history.wanted, what)
        for what in ("tier", "expire", "work", "expire", "follow", "restart", "follow"):
            history.step(what, 10_000)
            self.assertEqual(content(history.broker), history.wanted, what)
        self.flushLoggedErrors(Crashed)
