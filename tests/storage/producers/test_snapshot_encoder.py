"""Producers are encoded for a snapshot while they change."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import StorageError
from logbus.records.batch import ControlType, Marker, iter_batches
from logbus.storage.producers.producer_snapshot import decode_snapshot, encode_snapshot
from logbus.storage.producers.producer_state_manager import ProducerStateManager
from logbus.storage.producers.snapshot_encoder import SnapshotEncoder
from tests.storage.builders import batch

CHANGES = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["batch", "batches", "commit", "expire"])), max_size=8)


class SnapshotEncoderTests(SynchronousTestCase):
    """Three producers in a turn."""

    def setUp(self) -> None:
        self.turns: list[Deferred[None]] = []

    def next_turn(self) -> Deferred[None]:
        self.turns.append(Deferred())
        return self.turns[-1]

    def change(self, producers: ProducerStateManager, producer_id: int, how: str) -> None:
        """What an append does, or the expiration of producers."""
        offset = producers.end_offset
        data = batch(
            b"v", producer_id=producer_id, producer_epoch=offset % 3, base_sequence=0, transactional=how != "batches"
        )
        _, header = next(iter_batches(data))
        if how == "expire":
            producers.expire(2**60)
        elif how == "batches":
            producers.append_consecutive([header], offset + 1)
        elif how == "batch":
            producers.appended(header, offset)
        else:
            control = header._replace(attributes=header.attributes | 0x20)
            producers.appended(control, offset, Marker(ControlType.COMMIT, 0))
        producers.end_offset += 1

    @given(st.integers(0, 10), st.lists(CHANGES, max_size=4))
    def test_as_of_one_moment(self, count: int, changes: list[list[tuple[int, str]]]) -> None:
        """Whatever changes between two turns, the snapshot has all as they were, and each once."""
        producers = ProducerStateManager()
        for number in range(count):
            self.change(producers, number, "batch")
        wanted = sorted(decode_snapshot(encode_snapshot(producers), 0), key=lambda entry: entry.producer_id)
        encoder = SnapshotEncoder(producers, 3)
        finishing = Deferred.fromCoroutine(encoder.finish(self.next_turn))
        for some in changes:
            for producer_id, how in some:
                self.change(producers, producer_id, how)
            if self.turns:
                self.turns.pop().callback(None)
        while self.turns:
            self.turns.pop().callback(None)
        found = decode_snapshot(self.successResultOf(finishing), 0)
        self.assertEqual(sorted(found, key=lambda entry: entry.producer_id), wanted)
        self.assertEqual(producers._listeners, [])

    def test_few(self) -> None:
        """They are encoded at once, as ever."""
        producers: Any = ProducerStateManager()
        for number in range(3):
            self.change(producers, number, "batch")
        finishing = Deferred.fromCoroutine(SnapshotEncoder(producers, 3).finish(self.next_turn))
        self.assertEqual((self.successResultOf(finishing), self.turns), (encode_snapshot(producers), []))

    def test_in_turns(self) -> None:
        """Ten producers take four turns."""
        producers = ProducerStateManager()
        for number in range(10):
            self.change(producers, number, "batch")
        finishing = Deferred.fromCoroutine(SnapshotEncoder(producers, 3).finish(self.next_turn))
        turns = 0
        while self.turns:
            turns += 1
            self.turns.pop().callback(None)
        self.successResultOf(finishing)
        self.assertEqual(turns, 4)

    def test_given_up(self) -> None:
        """If the disk fails meanwhile, nothing watches the producers any more; nor if it was given up before."""
        producers = ProducerStateManager()
        for number in range(10):
            self.change(producers, number, "batch")
        encoder = SnapshotEncoder(producers, 3)
        finishing = Deferred.fromCoroutine(encoder.finish(self.next_turn))
        self.turns.pop().errback(StorageError("offline"))
        self.failureResultOf(finishing, StorageError)
        encoder.close()
        SnapshotEncoder(producers, 3).close()
        self.assertEqual(producers._listeners, [])
