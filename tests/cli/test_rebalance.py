"""Moves among workers, with a cluster that a test plays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.rebalance import AT_ONCE, BEHIND_SECONDS, STALLED_SECONDS, Rebalance
from logbus.cli.rebalance_plan import CannotRebalance
from logbus.cli.runner import CommandFailed
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.log_dir_admin import LogDir, ReplicaInfo
from logbus.errors import ApiError, Disconnected, ErrorCode
from logbus.model import TopicPartition

LATER = 1.0


@define
class PlayedCluster:
    """
    Two workers of one machine, and what an admin client asks them.

    :ivar replicas: of each partition.
    :ivar moving: targets of reassignments, which end when the test says so.
    :ivar most: how many there were at a time.
    :ivar refusal: what a reassignment is answered with.
    :ivar away: requests that fail, from now on.
    """

    replicas: dict[TopicPartition, tuple[int, ...]]
    moving: dict[TopicPartition, tuple[int, ...]] = field(factory=dict)
    most: int = 0
    refusal: ApiError | None = None
    away: int = 0
    workers: Sequence[int] = (0, 1)

    def _answer(self, value: Any) -> Deferred[Any]:
        if self.away:
            self.away -= 1
            return fail(Disconnected("a worker died"))
        return succeed(value)

    def describe_cluster(self) -> Deferred[Any]:
        return self._answer(SimpleNamespace(nodes=[SimpleNamespace(node_id=n, host="h") for n in self.workers]))

    def describe_log_dirs(self, broker_id: int) -> Deferred[list[LogDir]]:
        held = {name: ReplicaInfo(100, 0) for name, replicas in self.replicas.items() if broker_id in replicas}
        return self._answer([LogDir("/d" if broker_id == 0 else f"/d/workers/{broker_id}", replicas=held)])

    def list_topics(self, internal: bool) -> Deferred[Any]:
        topics = dict.fromkeys(name.topic for name in self.replicas)
        return self._answer(
            [
                SimpleNamespace(
                    name=topic,
                    partitions={
                        name.partition: SimpleNamespace(replicas=replicas)
                        for name, replicas in self.replicas.items()
                        if name.topic == topic
                    },
                )
                for topic in topics
            ]
        )

    def list_reassignments(self, names: Iterable[TopicPartition]) -> Deferred[Any]:
        return self._answer({name: None for name in names if name in self.moving})

    def alter_reassignments(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Deferred[Any]:
        if self.refusal is not None:
            return self._answer(dict.fromkeys(targets, self.refusal))
        self.moving.update(targets)
        self.most = max(self.most, len(self.moving))
        return self._answer(dict.fromkeys(targets))

    def end(self, count: int = 1_000_000) -> None:
        """Some moves end."""
        for name in list(self.moving)[:count]:
            self.replicas[name] = self.moving.pop(name)


class RebalanceTests(SynchronousTestCase):
    """From the plan to the end."""

    def begin(self, cluster: PlayedCluster, **options: Any) -> tuple[Clock, Deferred[int]]:
        clock = Clock()
        self.shown: list[tuple[int, int]] = []
        work = Rebalance(cast(AdminClient, cluster), clock, shown=lambda *counts: self.shown.append(counts), **options)
        return clock, Deferred.fromCoroutine(work.carry_out())

    def all_on(self, broker: int, count: int) -> PlayedCluster:
        return PlayedCluster({TopicPartition("a", n): (broker,) for n in range(count)})

    def test_a_few_at_a_time(self) -> None:
        """When some have moved, others begin; in the end each worker has half of them."""
        cluster = self.all_on(0, 100)
        clock, done = self.begin(cluster)
        for _ in range(20):
            cluster.end(5)
            clock.advance(LATER)
        self.assertEqual(self.successResultOf(done), 50)
        self.assertEqual(cluster.most, AT_ONCE)
        self.assertEqual(sorted(cluster.replicas.values()), [(0,)] * 50 + [(1,)] * 50)
        self.assertEqual((self.shown[0], self.shown[-1]), ((0, 50), (50, 50)))

    def test_emptied(self) -> None:
        """The second worker gives all to the first."""
        cluster = self.all_on(1, 3)
        clock, done = self.begin(cluster, workers=1)
        cluster.end()
        clock.advance(LATER)
        self.assertEqual(self.successResultOf(done), 3)
        self.assertEqual(set(cluster.replicas.values()), {(0,)})

    def test_an_earlier_move_has_just_ended(self) -> None:
        """A broker that has not heard of that yet names two replicas on the machine; it is asked again."""
        cluster = PlayedCluster({TopicPartition("a", 0): (0, 1)})
        clock, done = self.begin(cluster, workers=1)
        self.assertNoResult(done)
        cluster.replicas[TopicPartition("a", 0)] = (0,)
        clock.advance(LATER)
        self.assertEqual(self.successResultOf(done), 0)

    def test_too_many_replicas(self) -> None:
        """A worker cannot be emptied of one of two replicas, which is said after a while."""
        clock, done = self.begin(PlayedCluster({TopicPartition("a", 0): (0, 1)}), workers=1)
        clock.pump([LATER] * round(BEHIND_SECONDS + 1))
        self.assertIn("a-0 has more replicas", str(self.failureResultOf(done, CannotRebalance).value))

    def test_worker_to_be_emptied_is_away(self) -> None:
        """That is said, rather than that it is empty."""
        cluster = self.all_on(2, 3)
        _, done = self.begin(cluster, workers=1)
        self.assertIn("broker 2", str(self.failureResultOf(done, ApiError).value))

    def test_a_worker_dies(self) -> None:
        """Requests that fail meanwhile are sent again."""
        cluster = self.all_on(0, 4)
        clock, done = self.begin(cluster)
        cluster.away = 3
        clock.pump([LATER] * 4)
        cluster.end()
        clock.advance(LATER)
        self.assertEqual(self.successResultOf(done), 2)

    def test_it_does_not_get_on(self) -> None:
        """After a while the command gives up, and says which partition waits."""
        cluster = self.all_on(0, 4)
        clock, done = self.begin(cluster)
        clock.pump([LATER] * round(STALLED_SECONDS + 2))
        self.assertIn("do not get on", str(self.failureResultOf(done, CommandFailed).value))

    def test_refused(self) -> None:
        """What the controller says is passed on; that a topic is gone is no error."""
        cluster = self.all_on(0, 4)
        cluster.refusal = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you")
        self.assertIn("not you", str(self.failureResultOf(self.begin(cluster)[1], CommandFailed).value))
        cluster.refusal = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")
        clock, done = self.begin(cluster)
        clock.pump([LATER] * 10)
        self.assertEqual(self.successResultOf(done), 0)

    def test_reassigned_by_others(self) -> None:
        """It waits for nobody, and says so."""
        cluster = self.all_on(0, 4)
        cluster.moving[TopicPartition("a", 1)] = (1,)
        self.assertIn("a-1", str(self.failureResultOf(self.begin(cluster)[1], CommandFailed).value))

    def test_no_workers(self) -> None:
        """There is nothing to spread among."""
        cluster = self.all_on(0, 4)
        cluster.workers = (0,)
        self.assertIn("workers", str(self.failureResultOf(self.begin(cluster)[1], CommandFailed).value))
