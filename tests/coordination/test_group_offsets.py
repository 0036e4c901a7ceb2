"""Tests of :mod:`logbus.coordination.group_offsets`."""

from __future__ import annotations

from typing import Any

from attrs import define
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.group_offsets import CommittedOffset, GroupOffsets, offset_commit_change
from logbus.model import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
DAY = 24 * 3600 * 1000


@define
class FakeGroup:
    """The parts of a group that expiration depends on."""

    is_empty: bool = True
    empty_since_ms: int | None = None
    topics: tuple[str, ...] = ()

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topics


def offsets(*commits: tuple[TopicPartition, CommittedOffset]) -> GroupOffsets:
    held = GroupOffsets("g")
    for partition, committed in commits:
        held.apply(*offset_commit_change("g", partition, committed))
    return held


class OffsetTests(SynchronousTestCase):
    """Commits, tombstones, expiry."""

    def test_the_last_commit_counts(self) -> None:
        """A commit is found by its partition; the next replaces it; a tombstone removes it."""
        held = offsets((A, CommittedOffset(1)), (B, CommittedOffset(2, 5, "m", 77)), (A, CommittedOffset(3)))
        self.assertEqual(held.committed, {A: CommittedOffset(3), B: CommittedOffset(2, 5, "m", 77)})
        self.assertEqual(held.get("b", 1), CommittedOffset(2, 5, "m", 77))
        self.assertIsNone(held.get("b", 0))
        for change in held.tombstones([A, TopicPartition("c", 0)]):
            held.apply(*change)
        self.assertEqual(list(held.committed), [B])
        self.assertEqual(held.partitions(), [B])
        for change in held.tombstones():
            held.apply(*change)
        self.assertEqual(len(held), 0)

    def expired(self, held: GroupOffsets, group: FakeGroup | None, now_ms: int) -> set[TopicPartition]:
        given_group: Any = group
        return set(held.expired(given_group, now_ms, DAY))

    def test_without_members(self) -> None:
        """Offsets of a group that never had members expire a retention after each commit."""
        held = offsets((A, CommittedOffset(1, commit_timestamp=0)), (B, CommittedOffset(1, commit_timestamp=10)))
        for group in (None, FakeGroup()):
            self.assertEqual(self.expired(held, group, DAY - 1), set())
            self.assertEqual(self.expired(held, group, DAY), {A})
            self.assertEqual(self.expired(held, group, DAY + 10), {A, B})

    def test_of_an_empty_group(self) -> None:
        """They expire a retention after the last member went; what was committed since then lasts longer."""
        held = offsets((A, CommittedOffset(1, commit_timestamp=0)), (B, CommittedOffset(1, commit_timestamp=500)))
        group = FakeGroup(empty_since_ms=100)
        self.assertEqual(self.expired(held, group, DAY + 99), set())
        self.assertEqual(self.expired(held, group, DAY + 100), {A})
        self.assertEqual(self.expired(held, group, DAY + 500), {A, B})

    def test_of_a_group_in_use(self) -> None:
        """Offsets of subscribed topics do not expire; others do, a retention after their commit."""
        held = offsets((A, CommittedOffset(1, commit_timestamp=0)), (B, CommittedOffset(1, commit_timestamp=0)))
        self.assertEqual(self.expired(held, FakeGroup(is_empty=False, topics=("a",)), 99 * DAY), {B})
        self.assertEqual(self.expired(held, FakeGroup(is_empty=False, topics=("a", "b")), 99 * DAY), set())

    @given(st.integers(0, 10 * DAY), st.integers(0, 10 * DAY))
    def test_expiration_set_by_the_client(self, expires: int, now_ms: int) -> None:
        """An offset that a client wants kept until a time is kept until then and no longer."""
        held = offsets((A, CommittedOffset(1, commit_timestamp=0, expire_timestamp=expires)))
        self.assertEqual(self.expired(held, None, now_ms), {A} if now_ms >= expires else set())
