"""
Compaction of logs with transactions: whatever is written, in whatever order, and wherever the machine stops, a reader
of committed records has the last committed value of each key, and no transaction loses its end before its records.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.records.batch import ControlType, Marker, Record, decode_batch, iter_batches
from logbus.records.control_records import decode_control_key
from logbus.storage.appends.append_as_follower import append_as_follower
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.appends.append_marker import append_marker
from logbus.storage.cleaner.cleaner_task import CleanerTask
from logbus.storage.cleaner.log_to_clean import LogToClean
from logbus.storage.cleaner.offset_map import ENTRY_SIZE
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.storage.settings import CleanerSettings
from logbus.storage.throttler import Throttler
from logbus.testing.simulation.environment.memory_disk import MemoryDisk, PowerCutOutcome
from logbus.timers import Timers
from tests.storage.builders import NOW_MS, NOW_S, PARTITION, a_log, a_manager, batch, data_of
from tests.storage.test_log_model import now

RETENTION_S = 100
CONFIG = TopicConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=500,
    index_interval_bytes=130,
    segment_ms=2**62,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=RETENTION_S * 1000,
)
TWO_KEYS = CleanerSettings(dedupe_buffer_size=3 * ENTRY_SIZE)
"""So little that a cleaning ends in the middle of a segment, and others follow."""
ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


def read_committed(log: Log, max_bytes: int = 700) -> list[Record]:
    """All records below the last stable offset that were not aborted, found as a consumer does."""
    found: list[Record] = []
    offset, stable = log.log_start_offset, log.last_stable_offset(log.log_end_offset)
    while offset < stable:
        data = data_of(log.read(offset, max_bytes, stable).data)
        if not data:
            break
        batches = list(iter_batches(data))
        told = list(log.aborted_transactions(offset, batches[-1][1].next_offset))
        aborted: set[int] = set()
        for position, header in batches:
            while told and told[0].first_offset <= header.last_offset:
                aborted.add(told.pop(0).producer_id)
            records = decode_batch(data, position, header=header)
            if header.control:
                if records and decode_control_key(records[0].key) is ABORT:
                    aborted.discard(header.producer_id)
            elif not (header.transactional and header.producer_id in aborted):
                found += [record for record in records if record.offset >= offset]
            offset = header.next_offset
    return found


def markers(log: Log) -> list[tuple[int, int]]:
    """Offset and producer of every control record."""
    found = []
    for segment in log.segments:
        for _, header in segment.batches(0):
            if header.control and header.record_count:
                found.append((header.base_offset, header.producer_id))
    return found


def undecided(log: Log) -> dict[int, int]:
    """Where transactions of producers begin that are open."""
    return {e.producer_id: e.open_since for e in log.producers if e.open_since is not None}


def copy_of(log: Log) -> Log:
    """What a follower has that begins now."""
    copy = a_log()
    for segment in log.segments:
        if segment.size:
            append_as_follower(copy, segment.log.get().pread(segment.size, 0))
    return copy


class WrittenRecord(NamedTuple):
    """A record that was written."""

    offset: int
    producer_id: int
    key: bytes
    value: bytes | None


class CleaningMachine(RuleBasedStateMachine):
    """
    :ivar committed: records that count, in the order of their offsets.
    :ivar pending: those of open transactions, by producer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.committed: list[WrittenRecord] = []
        self.pending: dict[int, list[WrittenRecord]] = {}
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.seconds = NOW_S

    @initialize(scarce=st.booleans())
    def begin(self, scarce: bool) -> None:
        self.settings = TWO_KEYS if scarce else CleanerSettings()
        self.disk = MemoryDisk()
        self.open()
        now(self.manager.create(PARTITION))

    def open(self) -> None:
        self.clock = Clock()
        self.manager: LogManager = a_manager(
            self.disk,
            clock=self.clock,
            default_config=CONFIG,
            wall_clock=lambda: self.seconds,
            cleaner_settings=lambda: self.settings,
        )
        now(self.manager.open())
        self.manager.start_housekeeping()

    @property
    def log(self) -> Log:
        log = self.manager.get(PARTITION)
        assert log is not None
        return log

    def commit_all(self) -> None:
        log = self.log
        log.high_watermark = log.log_end_offset

    @rule(pid=st.integers(-1, 3), pairs=st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=3))
    def write(self, pid: int, pairs: list[tuple[int, bool]]) -> None:
        end = self.log.log_end_offset
        kept = [
            WrittenRecord(end + i, pid, b"k%d" % key, None if gone else b"v%d" % (end + i))
            for i, (key, gone) in enumerate(pairs)
        ]
        header: dict[str, Any] = {}
        if pid >= 0:
            sequence = self.sequences.get(pid, 0)
            self.sequences[pid] = sequence + len(kept)
            header = {
                "producer_id": pid, "producer_epoch": self.epochs.setdefault(pid, 0), "base_sequence": sequence,
                "transactional": True,
            }  # fmt: skip
            self.pending.setdefault(pid, []).extend(kept)
        else:
            self.committed += kept
        append_as_leader(self.log, batch(*[k.value for k in kept], keys=[k.key for k in kept], **header), 0)
        self.commit_all()

    @rule(pid=st.integers(0, 3), type=st.sampled_from(ControlType), bump=st.booleans())
    def end(self, pid: int, type: ControlType, bump: bool) -> None:
        epoch = self.epochs.get(pid, 0) + bump
        append_marker(self.log, pid, epoch, Marker(type, 0), 0, int(self.seconds * 1000), 2 if bump else 0)
        self.epochs[pid] = epoch
        if bump:
            self.sequences[pid] = 0
        kept = self.pending.pop(pid, [])
        if type is COMMIT:
            self.committed = sorted([*self.committed, *kept])
        self.commit_all()

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(seconds=st.sampled_from([0, 1, RETENTION_S]))
    def clean(self, seconds: int) -> None:
        # Recovery points first: what is not synced is not cleaned.
        now(self.log.flusher.write_back_and_wait())
        self.seconds += seconds
        self.clock.advance(2)
        self.clock.advance(20)
        self.clock.advance(20)
        assert self.manager.cleaner.uncleanable == {}

    @rule(how=st.sampled_from(["clean", "kill", "reorder"]), seed=st.integers(0, 1000))
    def restart(self, how: str, seed: int) -> None:
        if how == "clean":
            now(self.manager.close())
        else:
            now(self.log.flush())
        rng = random.Random(seed)
        self.disk = (
            self.disk.after_power_cut(PowerCutOutcome("reorder", rng)) if how == "reorder" else self.disk.after_kill()
        )
        if rng.random() < 0.5:
            for name in self.disk.names("orders-0"):
                if name.endswith(".snapshot"):
                    self.disk.unlink(f"orders-0/{name}")
        self.open()
        if self.manager.get(PARTITION) is None:
            # Nothing was written, and so nothing was synced.
            assert not self.epochs and not self.committed
            now(self.manager.create(PARTITION))
        self.commit_all()

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "manager"):
            return
        log = self.log
        starts = {pid: kept[0].offset for pid, kept in self.pending.items()}
        stable = min(starts.values(), default=log.log_end_offset)
        assert undecided(log) == starts
        assert log.last_stable_offset(log.log_end_offset) == stable
        known = {e.producer_id: (e.epoch, e.last_sequence + 1) for e in log.producers}
        assert known == {pid: (epoch, self.sequences.get(pid, 0)) for pid, epoch in self.epochs.items()}
        for reader in (log, copy_of(log)):
            last: dict[bytes, bytes | None] = {}
            for record in read_committed(reader):
                assert record.key is not None
                last[record.key] = record.value
            expected = {kept.key: kept.value for kept in self.committed if kept.offset < stable}
            assert {k: v for k, v in last.items() if v is not None} == {
                k: v for k, v in expected.items() if v is not None
            }
            assert undecided(reader) == starts

    def teardown(self) -> None:
        if hasattr(self, "manager"):
            now(self.manager.close())
            assert self.disk.open_files == 0


class PartTests(SynchronousTestCase):
    """A cleaning that ends in the middle of a segment."""

    def test_aborted_transactions_above_the_bound(self) -> None:
        """Readers are still told of aborted transactions above the bound, until those are cleaned, too."""
        log = a_log(config=CONFIG)
        for key in (b"1", b"1", b"2", b"3"):
            append_as_leader(log, batch(keys=[key]), 0)
        header: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        append_as_leader(log, batch(keys=[b"1"], **header), 0)
        append_marker(log, 1, 0, Marker(ABORT, 0), 0, NOW_MS)
        log.roll()
        for size, end, told in ((TWO_KEYS.dedupe_buffer_size, 3, [4]), (1000, 6, [])):
            before = log.segments[0]
            cleaning = CleanerTask(log, LogToClean(0, 6, 0, 1, False), Throttler(Timers(Clock())), size, NOW_MS)
            now(Deferred.fromCoroutine(cleaning.run()))
            self.assertEqual(cleaning.end, end)
            self.assertIsNot(log.segments[0], before)
            self.assertEqual([entry.first_offset for entry in log.aborted_transactions(0, 6)], told)
        self.assertEqual([record.offset for record in read_committed(log)], [1, 2, 3])


CleaningModelTests = CleaningMachine.TestCase
CleaningModelTests.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
