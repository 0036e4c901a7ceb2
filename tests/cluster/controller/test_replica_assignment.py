"""Assignment of replicas to brokers."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.controller.replica_assignment import assign_replicas, check_assignment
from logbus.errors import ApiError, ErrorCode

broker_sets = st.dictionaries(st.integers(0, 99), st.none() | st.sampled_from("abc"), min_size=1, max_size=9)


@st.composite
def requests(draw: st.DrawFn) -> tuple[dict[int, str | None], int, int, Random]:
    """Brokers, partitions, replication factor, chance."""
    brokers = draw(broker_sets)
    return (
        brokers,
        draw(st.integers(1, 40)),
        draw(st.integers(1, len(brokers))),
        Random(draw(st.integers(0, 999))),
    )


class PlacementTests(SynchronousTestCase):
    """Properties."""

    @given(requests())
    def test_spread(self, request: tuple[dict[int, str | None], int, int, Random]) -> None:
        """
        Every partition has as many different, living replicas as asked; no broker leads two more than another.
        """
        brokers, partitions, factor, random = request
        placed = assign_replicas(brokers, partitions, factor, random)
        self.assertEqual(len(placed), partitions)
        for replicas in placed:
            self.assertEqual(len(set(replicas)), factor)
            self.assertLessEqual(set(replicas), set(brokers))
        leaders = Counter(dict.fromkeys(brokers, 0))
        leaders.update(replicas[0] for replicas in placed)
        self.assertLessEqual(max(leaders.values()) - min(leaders.values()), 1)

    @given(requests())
    def test_racks(self, request: tuple[dict[int, str | None], int, int, Random]) -> None:
        """With all racks known, a partition is in as many racks as it can be."""
        brokers, partitions, factor, random = request
        known = {broker: rack or "z" for broker, rack in brokers.items()}
        for replicas in assign_replicas(dict(known), partitions, factor, random):
            racks = {known[broker] for broker in replicas}
            self.assertEqual(len(racks), min(factor, len(set(known.values()))))

    @given(requests(), st.integers(1, 20))
    def test_growth(self, request: tuple[dict[int, str | None], int, int, Random], more: int) -> None:
        """Later partitions go on where the first ended: together they are as even as if made at once."""
        brokers, partitions, factor, random = request
        first = assign_replicas(brokers, partitions, factor, random)
        placed = first + assign_replicas(brokers, more, factor, random, first)
        leaders = Counter(dict.fromkeys(brokers, 0))
        leaders.update(replicas[0] for replicas in placed)
        self.assertLessEqual(max(leaders.values()) - min(leaders.values()), 1)

    def test_followers_of_one_leader_differ(self) -> None:
        """A failed broker's load is taken over by all others."""
        placed = assign_replicas(dict.fromkeys(range(5)), 40, 2, Random(1))
        followers = {replicas[1] for replicas in placed if replicas[0] == 0}
        self.assertEqual(followers, {1, 2, 3, 4})

    def test_refusals(self) -> None:
        """No partitions, no replicas, more replicas than brokers; the error names the numbers."""
        brokers: dict[int, str | None] = {1: None, 2: None}
        for partitions, factor, code in (
            (0, 1, ErrorCode.INVALID_PARTITIONS),
            (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
            (1, 3, ErrorCode.INVALID_REPLICATION_FACTOR),
        ):
            error = self.assertRaises(ApiError, assign_replicas, brokers, partitions, factor, Random(1))
            self.assertEqual(error.code, code)
        self.assertIn("3 is larger than the 2 brokers", error.message)


class ManualTests(SynchronousTestCase):
    """Replicas that somebody chose."""

    def test_good(self) -> None:
        """They are taken in their order."""
        self.assertEqual(check_assignment([[2, 1], [1, 2]], {1, 2, 3}), [(2, 1), (1, 2)])

    def test_bad(self) -> None:
        """The error names the partition and the reason."""
        for given_, words in (
            ([], "no partition"),
            ([[1], []], "partition 4 has no replicas"),
            ([[1, 1]], "names a broker twice"),
            ([[7]], "not alive: [7]"),
            ([[1], [1, 2]], "2 replicas where others have 1"),
        ):
            error = self.assertRaises(ApiError, check_assignment, given_, {1, 2}, first=3)
            self.assertEqual(error.code, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
            self.assertIn(words, error.message)
        self.assertRaises(ApiError, check_assignment, [[1]], {1, 2}, replication_factor=2)
