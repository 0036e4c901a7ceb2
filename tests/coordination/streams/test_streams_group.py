"""Examples of streams groups; see also the properties."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.streams.heartbeat import StreamsHeartbeat, StreamsHeartbeatResult
from logbus.coordination.streams.status import StatusCode
from logbus.coordination.streams.streams_group import StreamsGroup
from logbus.coordination.streams.streams_group_settings import StreamsGroupSettings
from logbus.coordination.streams.tasks import NO_TASK_SETS, TaskSets, from_pairs
from logbus.coordination.streams.topology import Subtopology, Topology
from tests.coordination.consumer.kit import Cluster


def active(*numbers: int) -> TaskSets:
    """Active tasks of the only subtopology."""
    return TaskSets(from_pairs(("0", number) for number in numbers))


class LostResponseTests(SynchronousTestCase):
    """
    A member x has two tasks when y joins, which gets one of them. Members of Kafka Streams say after an error which
    tasks they have, and nothing else that is new.
    """

    def setUp(self) -> None:
        cluster = Cluster()
        cluster.create("a", 2)
        settings = StreamsGroupSettings(initial_rebalance_delay_ms=0)
        self.group = StreamsGroup("group", lambda: settings, cluster, lambda changes, done: None)
        self.assertEqual(self.join("x").tasks, active(0, 1))
        self.assertEqual(self.join("y").tasks, NO_TASK_SETS)

    def join(self, member_id: str) -> StreamsHeartbeatResult:
        """A member joins, in a process of its own."""
        return self.group.heartbeat(
            0.0,
            StreamsHeartbeat(
                member_id,
                0,
                rebalance_timeout_ms=60_000,
                topology=Topology(1, (Subtopology("0", ("a",)),)),
                owned=NO_TASK_SETS,
                process_id=member_id,
                endpoint=(member_id, 80),
            ),
        )[0]

    def stay(self, member_id: str, epoch: int, owned: TaskSets | None = None) -> StreamsHeartbeatResult:
        """A member sends a heartbeat."""
        return self.group.heartbeat(0.0, StreamsHeartbeat(member_id, epoch, owned=owned))[0]

    def test_of_one_that_has_to_give_up_a_task(self) -> None:
        """It is told again."""
        lost = self.stay("x", 2, active(0, 1))
        self.assertEqual((lost.epoch, lost.tasks), (2, active(0)))
        again = self.stay("x", 2, active(0, 1))
        self.assertEqual((again.epoch, again.tasks), (2, active(0)))
        self.assertEqual(self.stay("x", 2, active(0)).epoch, 3)

    def test_of_one_that_gets_a_task(self) -> None:
        """It is told again, in the same epoch, until it says that it has the task; others learn no new endpoints."""
        self.stay("x", 2)
        self.stay("x", 2, active(0))
        lost = self.stay("y", 3)
        self.assertEqual((lost.epoch, lost.tasks), (3, active(1)))
        again = self.stay("y", 3, NO_TASK_SETS)
        self.assertEqual((again.epoch, again.tasks), (3, active(1)))
        self.assertIsNone(self.stay("y", 3, active(1)).tasks)
        self.assertEqual(again.endpoint_epoch, lost.endpoint_epoch)


class AssignmentIntervalTests(SynchronousTestCase):
    """Changes that follow each other within a second make one assignment (KIP-1263)."""

    def test_burst_of_joins(self) -> None:
        """Members keep what they have, and are told that the assignment is delayed."""
        cluster = Cluster()
        cluster.create("a", 3)
        settings = StreamsGroupSettings(initial_rebalance_delay_ms=0)
        group = StreamsGroup("group", lambda: settings, cluster, lambda changes, done: None)

        def beat(now: float, member_id: str, epoch: int, owned: TaskSets) -> StreamsHeartbeatResult:
            given: dict[str, Any] = {}
            if epoch == 0:
                given = {"topology": Topology(1, (Subtopology("0", ("a",)),)), "process_id": member_id}
            beat = StreamsHeartbeat(member_id, epoch, rebalance_timeout_ms=60_000, owned=owned, **given)
            return group.heartbeat(now, beat)[0]

        first = beat(1000.0, "x", 0, NO_TASK_SETS)
        self.assertEqual((first.epoch, first.tasks, first.statuses), (2, active(0, 1, 2), ()))
        for name in ("y", "z"):
            late = beat(1000.1, name, 0, NO_TASK_SETS)
            self.assertEqual((late.epoch, late.tasks), (2, NO_TASK_SETS))
            (status,) = late.statuses
            self.assertEqual(status.code, StatusCode.ASSIGNMENT_DELAYED)
            self.assertIn("collects changes", status.detail)
        kept = beat(1000.9, "x", 2, active(0, 1, 2))
        self.assertEqual((kept.epoch, kept.tasks, group.state_name), (2, None, "Assigning"))
        self.assertEqual((group.describe().epoch, group.describe().target_epoch), (4, 2))
        told = beat(1001.0, "x", 2, active(0, 1, 2))
        self.assertEqual((told.epoch, told.statuses, group.describe().target_epoch), (2, (), 4))
        self.assertEqual(len(told.tasks.active["0"] if told.tasks else ()), 1)
