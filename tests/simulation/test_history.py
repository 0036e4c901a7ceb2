"""The checks of histories find every anomaly, and nothing else."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.metastore.memory_store import MemoryEnsemble
from logbus.metastore.operations import Create, Set
from logbus.metastore.znodes import StateZnode
from logbus.model import LeaderAndIsr
from logbus.testing.simulation.checks.durability_oracle import DurabilityOracle
from logbus.testing.simulation.checks.history import FAIL, INFO, OK, History, Poll, Send


def send(values: Any, offset: int | None = None, outcome: str = OK, at: float = 1.0, **given: Any) -> Send:
    values = (values,) if isinstance(values, int) else tuple(values)
    defaults: dict[str, Any] = {"producer": "p", "partition": 0, "begin": at, "end": at + 0.1}
    return Send(values=values, offset=offset, outcome=outcome, **{**defaults, **given})


def poll(
    *records: tuple[int, int], consumer: str = "c", partition: int = 0, at: float = 2.0, position: int = 0
) -> Poll:
    return Poll(consumer, partition, position, records, at)


class HistoryTests(SynchronousTestCase):
    """Each anomaly by itself, made by hand."""

    def assertKinds(self, expected: list[str], sends: list[Send], polls: list[Poll], **given: Any) -> None:
        found = History(sends, polls).check(**given)
        self.assertEqual(sorted(each.kind for each in found), sorted(expected), [str(each) for each in found])

    def test_correct_history(self) -> None:
        """A history as it should be, with a refused write, an unknown one that came, and one that did not."""
        self.assertKinds(
            [],
            [
                send([1, 2], 0),
                send(3, 2, at=2),
                send(4, None, FAIL, at=3),
                send(5, None, INFO, at=4),
                send(6, None, INFO, at=5),
                send(7, 4, at=6),
            ],
            [poll((0, 1), (1, 2)), poll((2, 3), (3, 5), (4, 7)), poll((0, 1), consumer="d")],
        )

    def test_empty_history(self) -> None:
        """An empty history has no anomaly."""
        self.assertKinds([], [], [])
        self.assertEqual(History().worst_lag(), 0.0)

    def test_inconsistent_offsets(self) -> None:
        """Two values at one offset: both polled, or one told to its producer."""
        self.assertKinds(
            ["inconsistent-offsets"],
            [send(1, None, INFO), send(2, None, INFO)],
            [poll((0, 1)), poll((0, 2), consumer="d")],
        )
        self.assertKinds(
            ["inconsistent-offsets"], [send(1, 0), send(2, None)], [poll((0, 2)), poll((1, 1))][:1] * 1, finished=False
        )

    def test_lost_write(self) -> None:
        """An acknowledged value that nobody polled, although one behind it was."""
        self.assertKinds(["lost-write"], [send(1, 0), send(2, 1)], [poll((1, 2))])

    def test_acknowledged_value_lost_after_a_read(self) -> None:
        """An acknowledged value that somebody polled once, and that is not there for who reads in the end."""
        sends, polls = [send(1, 0), send(2, 1)], [poll((0, 1), (1, 2)), poll((1, 2), consumer="reader")]
        self.assertKinds([], sends, polls)
        self.assertKinds(["lost-write"], sends, polls, readers=frozenset({"reader"}))

    def test_unseen(self) -> None:
        """An acknowledged value at the end that nobody polled; while all goes on, it may still come."""
        self.assertKinds(["unseen"], [send(1, 0), send(2, 1)], [poll((0, 1))])
        self.assertKinds([], [send(1, 0), send(2, 1)], [poll((0, 1))], finished=False)
        self.assertKinds(["unseen"], [send(1, None)], [])

    def test_duplicate(self) -> None:
        """A value at two offsets, or in two partitions."""
        self.assertKinds(["duplicate"], [send(1, 0)], [poll((0, 1), (1, 1))])
        self.assertKinds(["duplicate", "wrong-partition"], [send(1, 0)], [poll((0, 1)), poll((0, 1), partition=1)])

    def test_aborted_read(self) -> None:
        """A value whose write was refused."""
        self.assertKinds(["aborted-read"], [send(1, None, FAIL)], [poll((0, 1))])

    def test_never_sent(self) -> None:
        """A value out of nowhere."""
        self.assertKinds(["never-sent"], [], [poll((0, 9))])

    def test_nonmonotonic_poll(self) -> None:
        """A consumer goes back, within an answer or from one to the next."""
        self.assertKinds(["nonmonotonic-poll"], [send([1, 2], 0)], [poll((0, 1), (1, 2)), poll((1, 2))])
        self.assertKinds(["nonmonotonic-poll"], [send([1, 2], 0)], [poll((1, 2), (0, 1))])

    def test_poll_skip(self) -> None:
        """A consumer misses what another one sees; a gap that is one for everybody is none."""
        sends = [send([1, 2, 3], 0)]
        self.assertKinds(["poll-skip"], sends, [poll((0, 1), (2, 3)), poll((0, 1), (1, 2), (2, 3), consumer="d")])
        self.assertKinds([], [send(1, 0), send(2, 5)], [poll((0, 1), (5, 2)), poll((0, 1), (5, 2), consumer="d")])

    def test_nonmonotonic_send(self) -> None:
        """A producer's later batch comes earlier; or the values of one batch are turned round."""
        self.assertKinds(["nonmonotonic-send"], [send(1, 1, at=1), send(2, 0, at=2)], [poll((0, 2), (1, 1))])
        self.assertKinds(["nonmonotonic-send"], [send([1, 2], None)], [poll((0, 2), (1, 1))])

    def test_late_batches_of_unknown_outcome(self) -> None:
        """A batch of unknown outcome may arrive behind a later one; and other producers' batches as they like."""
        self.assertKinds([], [send(1, None, INFO, at=1), send(2, 0, at=2)], [poll((0, 2), (1, 1))])
        self.assertKinds([], [send(1, 1, at=1), send(2, 0, at=2, producer="q")], [poll((0, 2), (1, 1))])

    def test_worst_lag(self) -> None:
        """How long what was acknowledged was not shown to one who asked."""
        sends = [send(1, 0, at=1.0), send(2, 1, at=2.0)]
        history = History(sends, [poll((0, 1), at=1.5), poll(position=1, at=9.1), poll((1, 2), at=9.2, position=1)])
        self.assertAlmostEqual(history.worst_lag(), 7.0)
        self.assertEqual(history.worst_lag(frozenset("c")), 0.0)

    def test_allowed_losses(self) -> None:
        """What was sent before all power went, and is gone in the end, is forgiven; what was acknowledged on demand."""
        sends = [send(1, None, INFO), send(2, 0, at=5)]
        polls = [poll((0, 1)), poll((0, 2), consumer="reader")]
        self.assertKinds(["inconsistent-offsets"], sends, polls)

        def left(at: float, acknowledged: bool = False) -> tuple[list[str], set[int]]:
            forgiven = History(sends, polls).without_losses(readers, {0: [at], 1: [9.0]}, acknowledged=acknowledged)
            return [each.kind for each in forgiven.check(readers=readers)], forgiven.phantoms

        readers = frozenset({"reader"})
        self.assertEqual(left(3), ([], {1}))
        self.assertEqual(left(0.5), (["inconsistent-offsets"], set()))
        sends[0] = send(1, 0)
        self.assertEqual(left(3)[0], ["inconsistent-offsets", "nonmonotonic-send", "unseen"])
        self.assertEqual(left(3, True), ([], {1}))
        self.assertIn("inconsistent-offsets", left(0.5, True)[0])

    def test_duplicates_are_never_allowed(self) -> None:
        """Two places for a value that is still there are too many, whoever lost power."""
        sends, readers = [send(1, 0)], frozenset({"reader"})
        polls = [poll((0, 1)), poll((3, 1), consumer="reader")]
        forgiven = History(sends, polls).without_losses(readers, {0: [2.0]}, acknowledged=True)
        self.assertEqual([each.kind for each in forgiven.check(readers=readers)], ["duplicate"])


class LossesTests(SynchronousTestCase):
    """Who lost power, as the metadata store has it."""

    def setUp(self) -> None:
        self.time = 0.0
        self.ensemble = MemoryEnsemble()
        self.losses = DurabilityOracle("t", self.ensemble.tree, lambda: self.time)
        self.ensemble.clients.append(self.losses)
        session = self.ensemble.begin()
        self.apply: Any = lambda op: self.ensemble.apply([op], session)
        path = ""
        for name in StateZnode.path("t", 0).strip("/").split("/"):
            path += "/" + name
            self.apply(Create(path, self.state(1, 2) if name == "state" else b""))

    def state(self, *isr: int, eligible: tuple[int, ...] = ()) -> bytes:
        return StateZnode.encode(LeaderAndIsr(1, 1, isr, 1, 0, eligible))

    def change(self, *isr: int, eligible: tuple[int, ...] = ()) -> None:
        self.apply(Set(StateZnode.path("t", 0), self.state(*isr, eligible=eligible)))

    def lose(self, *brokers: int) -> dict[int, list[float]]:
        for broker in brokers:
            self.time += 1
            self.losses.power_lost(broker)
        return self.losses.at

    def test_all_of_them(self) -> None:
        """Once the last of them lost its power something may be lost; and once more only after all did again."""
        self.assertEqual(self.lose(1, 3), {})
        self.assertEqual(self.lose(2), {0: [3.0]})
        self.assertEqual(self.lose(2), {0: [3.0]})
        self.assertEqual(self.lose(1), {0: [3.0, 5.0]})

    def test_returned_member_is_complete(self) -> None:
        """A member that was taken out has fetched what it lacked when it is back."""
        self.lose(1)
        self.change(2)
        self.change(2, 1)
        self.assertEqual(self.lose(2), {})

    def test_departure_of_the_last_complete_member(self) -> None:
        """The last one whose power did not go was taken out: nobody is left who has it all for certain."""
        self.lose(1)
        self.change(1)
        self.assertEqual(self.losses.at, {0: [1.0]})

    def test_eligible_replicas_count_as_members(self) -> None:
        """He counts like those in sync."""
        self.change(1, eligible=(2,))
        self.assertEqual(self.lose(1), {})
        self.assertEqual(self.lose(2), {0: [2.0]})

    def test_one_damaged_replica_at_a_time(self) -> None:
        """Only where another member is whole, and no other replica is damaged or lacks what it had synced."""
        self.change(1, 2, 3)
        self.assertTrue(self.losses.may_damage(1, 0))
        self.losses.damaged(1, 0)
        self.assertEqual([self.losses.may_damage(each, 0) for each in (1, 2, 3)], [False] * 3)
        self.losses.repaired(1, 0)
        self.lose(2)
        self.assertTrue(self.losses.may_damage(1, 0), "3 is whole")
        self.lose(3)
        self.assertFalse(self.losses.may_damage(1, 0), "nobody else is")

    def test_replica_truncated_at_the_damage(self) -> None:
        """He lacks what followed, until he has left, and come back by fetching."""
        self.change(1, 2, 3)
        self.losses.damaged(1, 0)
        self.losses.repaired(1, 0)
        self.losses.lacks(1, 0)
        self.assertFalse(self.losses.may_damage(2, 0))
        self.change(2, 3)
        self.change(2, 3, 1)
        self.assertTrue(self.losses.may_damage(2, 0))

    def test_lying_disk_needs_a_complete_replica(self) -> None:
        """One that is damaged is not."""
        self.losses.damaged(1, 0)
        self.assertTrue(self.losses.all_but(1))
        self.assertFalse(self.losses.all_but(2))
        self.assertFalse(self.losses.all_but(3), "it may have the only intact copy, although it is no member")

    def test_only_a_damaged_member_is_left(self) -> None:
        """The damage ends then: records could be lost."""
        told: list[int] = []
        self.losses.only_damaged = told.append
        self.losses.damaged(1, 0)
        self.change(1, eligible=(2,))
        self.assertEqual(told, [])
        self.change(1)
        self.assertEqual(told, [0])
