"""
Transactions in a log held against a list of what was written: whatever is done to it, in whatever order, and whatever
is lost of its snapshots and indexes.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from twisted.internet.task import Clock

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode
from logbus.records.batch import ControlType, Marker, encode_marker_batch
from logbus.storage.appends.append_as_follower import append_as_follower
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.appends.append_marker import append_marker
from logbus.storage.log import Log
from logbus.storage.segments.transaction_index import AbortedTransaction
from logbus.storage.settings import StorageSettings
from logbus.testing.simulation.environment.memory_disk import MemoryDisk, PowerCutOutcome
from tests.storage.builders import NOW_MS, PARTITION, a_manager, batch
from tests.storage.test_log_model import now

CONFIG = TopicConfig(segment_bytes=600, index_interval_bytes=130)
SETTINGS = StorageSettings(write_back_bytes=700, write_back_interval_ms=0, max_open_files=3)
PRODUCERS = st.integers(0, 4)


class WrittenBatch(NamedTuple):
    """A batch of one record: a producer's, or a marker."""

    producer_id: int
    epoch: int
    sequence: int
    transactional: bool
    marker: Marker | None


class ExpectedProducer(NamedTuple):
    """The expected producer state."""

    epoch: int
    last_sequence: int
    last_offset: int
    coordinator_epoch: int
    open_since: int | None


class Model:
    """The state that follows from a list of batches, computed each time."""

    def __init__(self, batches: list[WrittenBatch]) -> None:
        self.producers: dict[int, ExpectedProducer] = {}
        self.aborted: list[AbortedTransaction] = []
        self.decided: list[tuple[int, int]] = []
        for offset, b in enumerate(batches):
            if b.producer_id < 0:
                continue
            known = self.producers.get(b.producer_id) or ExpectedProducer(b.epoch, -1, -1, -1, None)
            if known.epoch != b.epoch:
                known = known._replace(epoch=b.epoch, last_sequence=-1, last_offset=-1)
            if b.marker is None:
                since = offset if b.transactional and known.open_since is None else known.open_since
                known = known._replace(last_sequence=b.sequence, last_offset=offset, open_since=since)
                self.producers[b.producer_id] = known
                continue
            first = known.open_since
            self.producers[b.producer_id] = known._replace(
                open_since=None, coordinator_epoch=b.marker.coordinator_epoch
            )
            if first is not None:
                self.decided.append((offset, first))
                if b.marker.type is ControlType.ABORT:
                    stable = min(self.open, default=offset + 1)
                    self.aborted.append(AbortedTransaction(b.producer_id, first, offset, stable))

    @property
    def open(self) -> list[int]:
        return [known.open_since for known in self.producers.values() if known.open_since is not None]

    def stable(self, high_watermark: int, decided: bool = True) -> int:
        waiting = [first for marker, first in self.decided if marker >= high_watermark] if decided else []
        return min([high_watermark, *self.open, *waiting])


class TransactionMachine(RuleBasedStateMachine):
    """
    :ivar batches: what the log has, one offset each.
    :ivar reloaded: markers below this offset may count as committed: the log was opened with them.
    :ivar synced: below this offset everything was flushed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[WrittenBatch] = []
        self.high_watermark = 0
        self.reloaded = 0
        self.synced = 0

    @initialize()
    def begin(self) -> None:
        self.disk = MemoryDisk()
        self.open()
        now(self.manager.create(PARTITION))

    def open(self) -> None:
        self.clock = Clock()
        self.manager = a_manager(self.disk, clock=self.clock, settings=SETTINGS, default_config=CONFIG)
        now(self.manager.open())
        self.manager.start_housekeeping()

    @property
    def log(self) -> Log:
        log = self.manager.get(PARTITION)
        assert log is not None
        return log

    def model(self) -> Model:
        return Model(self.batches)

    # -- Appends

    @rule(pid=PRODUCERS, transactional=st.booleans(), bump=st.integers(0, 1), copied=st.booleans())
    def produce(self, pid: int, transactional: bool, bump: int, copied: bool) -> None:
        known = self.model().producers.get(pid)
        epoch = known.epoch + bump if known else 0
        sequence = 0 if known is None or bump else known.last_sequence + 1
        data = batch(
            b"x" * 40,
            producer_id=pid, producer_epoch=epoch, base_sequence=sequence, transactional=transactional,
            base_offset=len(self.batches), leader_epoch=0,
        )  # fmt: skip
        if copied:
            append_as_follower(self.log, data)
        else:
            try:
                append_as_leader(self.log, data, 0)
            except ApiError as error:
                assert error.code == ErrorCode.INVALID_TXN_STATE
                assert known and known.open_since is not None and not transactional
                return
            assert not (known and known.open_since is not None and not transactional)
        self.batches.append(WrittenBatch(pid, epoch, sequence, transactional, None))

    @rule(
        pid=PRODUCERS,
        type=st.sampled_from(ControlType),
        bump=st.integers(-1, 1),
        coordinator=st.integers(0, 2),
        version=st.integers(0, 2),
        copied=st.booleans(),
    )
    def mark(self, pid: int, type: ControlType, bump: int, coordinator: int, version: int, copied: bool) -> None:
        known = self.model().producers.get(pid)
        epoch = max(0, known.epoch + bump) if known else 0
        marker = Marker(type, coordinator)
        refused = known is not None and (
            epoch < known.epoch
            or (version == 2 and epoch == known.epoch and known.open_since is not None)
            or coordinator < known.coordinator_epoch
        )
        if copied:
            data = encode_marker_batch(
                marker, producer_id=pid, producer_epoch=epoch, timestamp=NOW_MS, base_offset=len(self.batches),
                leader_epoch=0,
            )  # fmt: skip
            append_as_follower(self.log, data)
        else:
            try:
                appended = append_marker(self.log, pid, epoch, marker, 0, NOW_MS, version)
            except ApiError as error:
                assert refused, error
                return
            assert not refused
            assert appended.base_offset == appended.last_offset == len(self.batches)
            assert self.log.producers.last_marker_offset(pid) == len(self.batches)
        self.batches.append(WrittenBatch(pid, epoch, -1, True, marker))

    @rule(
        pids=st.lists(PRODUCERS, min_size=1, max_size=3),
        count=st.integers(1, 4),
        type=st.sampled_from([ControlType.ABORT, ControlType.ABORT, ControlType.COMMIT]),
        bump=st.integers(0, 1),
    )
    def transactions(self, pids: list[int], count: int, type: ControlType, bump: int) -> None:
        """Some that overlap, from begin to end: few would come of single steps."""
        for _ in range(count):
            for pid in pids:
                self.produce(pid, True, 0, False)
        for pid in sorted(set(pids)):
            self.mark(pid, type, bump, 2, 2 * bump, False)

    @rule()
    def others(self) -> None:
        append_as_leader(self.log, batch(b"y" * 40), 0)
        self.batches.append(WrittenBatch(-1, -1, -1, False, None))

    @rule(forward=st.integers(1, 6))
    def commit(self, forward: int) -> None:
        self.high_watermark = min(len(self.batches), self.high_watermark + forward)
        self.log.high_watermark = self.high_watermark

    # -- What is done to the log

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        now(self.log.flush())
        self.synced = len(self.batches)

    @rule(seconds=st.sampled_from([1, 61]))
    def put_down(self, seconds: int) -> None:
        now(self.log.flusher.write_back_and_wait())
        self.synced = len(self.batches)
        self.clock.advance(seconds)

    @precondition(lambda self: len(self.batches) > 15)
    @rule(back=st.integers(1, 20))
    def truncate(self, back: int) -> None:
        offset = max(0, len(self.batches) - back)
        now(self.manager.truncator.truncate({PARTITION: offset}))
        self.came_back(offset)

    @precondition(lambda self: len(self.batches) > 15)
    @rule(how=st.sampled_from(["clean", "kill", "lose", "keep", "tear", "reorder"]), damage=st.integers(0, 2**32))
    def restart(self, how: str, damage: int) -> None:
        rng = random.Random(damage)
        if how == "clean":
            now(self.manager.close())
            self.synced = len(self.batches)
        if how in ("clean", "kill"):
            self.disk = self.disk.after_kill()
        else:
            self.disk = self.disk.after_power_cut(PowerCutOutcome(how, rng))
        self.damage(rng)
        self.open()
        if self.manager.get(PARTITION) is None:
            # Not even its name was synced.
            assert self.synced == 0
            now(self.manager.create(PARTITION))
        end = self.log.log_end_offset
        assert self.synced <= end <= len(self.batches)
        assert how != "kill" or end == len(self.batches)
        self.came_back(end)

    def damage(self, rng: random.Random) -> None:
        """Snapshots may be gone or damaged, indexes of aborted transactions may be damaged."""
        for name in sorted(self.disk.names("orders-0")):
            path = f"orders-0/{name}"
            if name.endswith(".snapshot") and rng.random() < 0.3:
                if rng.random() < 0.5:
                    self.disk.unlink(path)
                else:
                    self.disk.replace(path, b"torn")
            if name.endswith(".txnindex") and rng.random() < 0.2:
                self.disk.replace(path, self.disk.read(path) + b"\0")

    def came_back(self, end: int) -> None:
        del self.batches[end:]
        self.synced = min(self.synced, end)
        self.high_watermark = min(self.high_watermark, end)
        self.reloaded = end

    # -- What it must say

    @rule(first=st.integers(0, 60), size=st.integers(0, 30))
    def aborted(self, first: int, size: int) -> None:
        expected = [
            entry for entry in self.model().aborted if entry.last_offset >= first and entry.first_offset < first + size
        ]
        found = list(self.log.aborted_transactions(first, first + size))
        assert found == sorted(expected, key=lambda entry: entry.first_offset), (found, expected)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "manager"):
            return
        log, model = self.log, self.model()
        assert log.log_end_offset == len(self.batches)
        found = {
            entry.producer_id: ExpectedProducer(
                entry.epoch, entry.last_sequence, entry.last_offset, entry.coordinator_epoch, entry.open_since
            )
            for entry in log.producers
        }
        assert found == model.producers, (found, model.producers)
        aborted = sorted(model.aborted, key=lambda entry: entry.first_offset)
        assert list(log.aborted_transactions(0, len(self.batches))) == aborted
        stable = log.last_stable_offset(self.high_watermark)
        least, most = model.stable(self.high_watermark), model.stable(self.high_watermark, False)
        assert least <= stable <= most
        if not any(marker < self.reloaded for marker, _ in model.decided):
            assert stable == least
        for pid, known in model.producers.items():
            assert log.producers.open_transaction(pid, known.epoch) == (known.open_since is not None)
            assert not log.producers.open_transaction(pid, known.epoch + 1)

    def teardown(self) -> None:
        if hasattr(self, "manager"):
            now(self.manager.close())
            assert self.disk.open_files == 0


TransactionModelTests = TransactionMachine.TestCase
TransactionModelTests.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
