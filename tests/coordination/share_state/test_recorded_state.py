"""Tests of :mod:`logbus.coordination.share_state.recorded_state` and of the records."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.share_state.recorded_state import (
    RecordedState,
    Snapshot,
    StateChange,
    Update,
    apply,
    claim,
    initialize,
    write,
)
from logbus.coordination.share_state.share_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    SharePartitionKey,
    ShareState,
    StateBatch,
)
from logbus.coordination.share_state.share_state_records import decode_record, encode_record, encode_tombstone
from logbus.errors import ApiError, DecodeError, ErrorCode
from tests.coordination.share_state.strategies import state_changes

KEY = SharePartitionKey("group:1", UUID(int=7), 3)
NOW_MS = 1_000


def created(state_epoch: int = 0, start_offset: int = -1, leader_epoch: int = 0) -> RecordedState:
    """A state that was just initialized, and of which a leader has claimed the snapshot."""
    record = initialize(None, state_epoch, start_offset, NOW_MS)
    assert record is not None
    return apply(None, evolve(record, state=evolve(record.state, leader_epoch=leader_epoch)))


def acknowledged(*offsets: int, state_epoch: int = 0, leader_epoch: int = 0, start: int = -1) -> StateChange:
    """Records were acknowledged at their first delivery."""
    batches = tuple(StateBatch(offset, offset, ACKNOWLEDGED, 1) for offset in offsets)
    return StateChange(state_epoch, leader_epoch, start, len(offsets), batches)


class KeyTests(SynchronousTestCase):
    """The text of a key."""

    def test_text(self) -> None:
        """As Kafka's, with which clients of brokers find coordinators; the group may have colons."""
        text = "group:1:AAAAAAAAAAAAAAAAAAAABw:3"
        self.assertEqual((str(KEY), SharePartitionKey.parse(text)), (text, KEY))
        for wrong in ("", "group", "group:3", "group:AAAAAAAAAAAAAAAAAAAABw:x", "group:AAAA:3"):
            self.assertRaises(ValueError, SharePartitionKey.parse, wrong)


class DecisionTests(SynchronousTestCase):
    """Requests, and whether they are refused."""

    def refused(self, code: ErrorCode, decide: Callable[[], object]) -> None:
        self.assertIs(self.assertRaises(ApiError, decide).code, code)

    def test_initialization(self) -> None:
        """A new state is empty, and no leader's; its start offset may be open."""
        for epoch, start, count in ((0, -1, -1), (2, 5, 0)):
            state = ShareState(epoch, -1, start, (), count)
            self.assertEqual(initialize(None, epoch, start, NOW_MS), Snapshot(0, state, NOW_MS, NOW_MS))
        self.refused(ErrorCode.INVALID_REQUEST, lambda: initialize(None, -1, 5, NOW_MS))

    def test_initialized_again(self) -> None:
        """The same epoch keeps the state, a higher one sets it anew for leaders to read, a lower one is refused."""
        before = created(1, 0, 7)
        now = apply(before, write(before, acknowledged(0, state_epoch=1, leader_epoch=7), 500, NOW_MS))
        self.assertIsNone(initialize(now, 1, 0, NOW_MS))
        self.refused(ErrorCode.FENCED_STATE_EPOCH, lambda: initialize(now, 0, 0, NOW_MS))
        record = initialize(now, 2, 10, NOW_MS + 1)
        self.assertEqual(record, Snapshot(1, ShareState(2, -1, 10, (), 0), NOW_MS, NOW_MS + 1))
        assert record is not None
        after, change = apply(now, record), acknowledged(11, state_epoch=2, leader_epoch=7)
        self.refused(ErrorCode.FENCED_LEADER_EPOCH, lambda: write(after, change, 500, NOW_MS))
        claimed = claim(after, 7, -1, 500, NOW_MS)
        assert claimed is not None
        write(apply(after, claimed), change, 500, NOW_MS)

    def test_leaders(self) -> None:
        """A leader that reads fences those before it; reading again needs no record."""
        record = claim(created(), 4, -1, 500, NOW_MS)
        self.assertEqual(record, Update(0, 4, -1, -1))
        assert record is not None
        now = apply(created(), record)
        self.assertIsNone(claim(now, 4, -1, 500, NOW_MS))
        self.assertIsNone(claim(now, -1, -1, 500, NOW_MS))
        self.refused(ErrorCode.FENCED_LEADER_EPOCH, lambda: claim(now, 3, -1, 500, NOW_MS))
        for epoch in (3, 5):
            change = acknowledged(1, leader_epoch=epoch)
            self.refused(ErrorCode.FENCED_LEADER_EPOCH, lambda change=change: write(now, change, 500, NOW_MS))
        apply(now, write(now, acknowledged(1, leader_epoch=4), 500, NOW_MS))

    def test_a_log_that_has_lost_records(self) -> None:
        """A leader whose log ends before what is known has it forgotten, with its first claim only."""
        now = apply(created(0, 2), write(created(0, 2), acknowledged(4, 5, 8), 500, NOW_MS))
        for end, start, batches in ((9, 2, now.state.batches), (5, 2, acknowledged(4).batches), (1, 1, ())):
            record = claim(now, 4, end, 500, NOW_MS)
            assert record is not None
            after = apply(now, record)
            count = sum(batch.last_offset + 1 - batch.first_offset for batch in batches)
            self.assertEqual(after.state, ShareState(0, 4, start, batches, count))
            self.assertIsNone(claim(after, 4, 0, 500, NOW_MS))
            # Others have these offsets by now.
            after = apply(after, write(after, acknowledged(9, leader_epoch=4), 500, NOW_MS))
            self.assertEqual(after.state.end_offset, 10)
        self.assertEqual(claim(created(), 4, 0, 500, NOW_MS), Update(0, 4, -1, -1))
        self.assertIsNone(claim(now, -1, 0, 500, NOW_MS))

    def test_a_log_that_has_other_records(self) -> None:
        """Where records of later leaders have taken the offsets of lost ones, what is known of these is forgotten."""
        now = apply(created(0, 2, 3), write(created(0, 2, 3), acknowledged(4, 5, 8, leader_epoch=3), 500, NOW_MS))
        for epochs, start, batches in (
            (((3, 0), (5, 9)), 2, now.state.batches),
            (((3, 0), (4, 5), (5, 7)), 2, acknowledged(4).batches),
            (((2, 0), (5, 1)), 1, ()),
            ((), 2, now.state.batches),
        ):
            record = claim(now, 5, 100, 500, NOW_MS, epochs)
            assert record is not None
            after = apply(now, record).state
            self.assertEqual((after.leader_epoch, after.start_offset, after.batches), (5, start, batches))
        # An administrator has set it where no leader has been.
        self.assertEqual(claim(created(0, 50, -1), 5, 100, 500, NOW_MS, ((5, 9),)), Update(0, 5, -1, 0))

    def test_state_epochs(self) -> None:
        """A write must be of the current state epoch."""
        for epoch in (0, 2):
            self.refused(
                ErrorCode.FENCED_STATE_EPOCH,
                lambda epoch=epoch: write(created(1), acknowledged(1, state_epoch=epoch), 500, NOW_MS),
            )
        write(created(1), acknowledged(1, state_epoch=1), 500, NOW_MS)

    def test_missing(self) -> None:
        """Without a state nothing is read or written."""
        self.refused(ErrorCode.INVALID_REQUEST, lambda: claim(None, 0, -1, 500, NOW_MS))
        self.refused(ErrorCode.INVALID_REQUEST, lambda: write(None, acknowledged(1), 500, NOW_MS))

    def test_invalid_batches(self) -> None:
        """Offsets in the wrong order, and states that are never written."""
        for batch in (StateBatch(2, 1, AVAILABLE, 1), StateBatch(-1, 1, AVAILABLE, 1), StateBatch(0, 1, 1, 1)):
            change = StateChange(0, 0, -1, -1, (batch,))
            self.refused(ErrorCode.INVALID_REQUEST, lambda change=change: write(created(), change, 500, NOW_MS))

    def test_snapshots(self) -> None:
        """After so many updates comes a snapshot, with all that was written."""
        now = created()
        kinds = []
        for offset in range(8):
            record = write(now, acknowledged(offset), 3, NOW_MS + offset)
            now = apply(now, record)
            kinds.append(type(record).__name__)
        self.assertEqual(kinds, ["Update"] * 3 + ["Snapshot"] + ["Update"] * 3 + ["Snapshot"])
        self.assertEqual(now.state.batches, (StateBatch(0, 7, ACKNOWLEDGED, 1),))
        self.assertEqual(now.snapshot, Snapshot(2, now.state, NOW_MS, NOW_MS + 7))


class ReplayTests(SynchronousTestCase):
    """States that are read back."""

    @given(st.lists(state_changes(), max_size=12), st.integers(0, 4))
    def test_records_make_the_state(self, changes: list[StateChange], most_updates: int) -> None:
        """The records from any snapshot on give the state, whatever came before."""
        now = created()
        records: list[Snapshot | Update] = [now.snapshot]
        for change in changes:
            records.append(write(now, change, most_updates, NOW_MS))
            now = apply(now, records[-1])
        last = max(at for at, record in enumerate(records) if isinstance(record, Snapshot))
        replayed: RecordedState | None = None
        for record in records[last:]:
            key, decoded = decode_record(*encode_record(KEY, record))
            assert decoded is not None
            self.assertEqual((key, decoded), (KEY, record))
            replayed = apply(replayed, decoded)
        self.assertEqual(replayed, now)

    @given(st.lists(state_changes(), max_size=8), st.integers(0, 4), st.integers(0, 4))
    def test_snapshots_change_nothing(self, changes: list[StateChange], one: int, other: int) -> None:
        """The state does not depend on how often it is written as a whole."""
        states = []
        for most_updates in (one, other):
            now = created()
            for change in changes:
                now = apply(now, write(now, change, most_updates, NOW_MS))
            states.append(now.state)
        self.assertEqual(*states)

    @given(st.lists(state_changes(), min_size=1, max_size=8), st.data())
    def test_repetitions(self, changes: list[StateChange], data: st.DataObject) -> None:
        """A change that is repeated late undoes nothing: no record that was done is delivered again."""
        now = created()
        for change in changes:
            now = apply(now, write(now, change, 3, NOW_MS))
        late = data.draw(st.sampled_from(changes))
        after = apply(now, write(now, late, 3, NOW_MS)).state
        self.assertEqual(evolve(after, delivery_complete_count=0), evolve(now.state, delivery_complete_count=0))

    def test_lost_snapshot(self) -> None:
        """An update whose snapshot was damaged is not lost, too."""
        update = Update(4, 2, 5, 1, (StateBatch(6, 6, ARCHIVED, 5),))
        self.assertEqual(apply(None, update).state, ShareState(0, 2, 5, (StateBatch(6, 6, ARCHIVED, 5),), 1))


class RecordTests(SynchronousTestCase):
    """Records, byte by byte."""

    def test_snapshot(self) -> None:
        """As Kafka's."""
        state = ShareState(1, 2, 3, (StateBatch(4, 5, ACKNOWLEDGED, 6),), 2)
        key, value = encode_record(KEY, Snapshot(9, state, 10, 11))
        self.assertEqual(key.hex(), "0000" + "0007" + b"group:1".hex() + f"{7:032x}" + f"{3:08x}")
        self.assertEqual(
            value.hex(),
            "0000"
            + f"{9:08x}{1:08x}{2:08x}{3:016x}{10:016x}{11:016x}"
            + ("02" + f"{4:016x}{5:016x}02{6:04x}00")
            + ("010004" + f"{2:08x}"),
        )

    def test_update(self) -> None:
        """As Kafka's; an unknown count takes no place."""
        key, value = encode_record(KEY, Update(9, 2, -1, -1))
        self.assertEqual(key.hex()[:4], "0001")
        self.assertEqual(value.hex(), "0000" + f"{9:08x}{2:08x}" + "ff" * 8 + "01" + "00")

    def test_tombstone(self) -> None:
        """It removes a state."""
        self.assertEqual(decode_record(*encode_tombstone(KEY)), (KEY, None))

    def test_damage(self) -> None:
        """What cannot be decoded is told."""
        key, value = encode_record(KEY, Update(9, 2, -1, -1))
        for wrong in ((None, value), (b"", value), (b"\0\2" + key[2:], value), (key, value[:5])):
            self.assertRaises(DecodeError, decode_record, *wrong)
