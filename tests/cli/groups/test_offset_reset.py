"""Tests of :mod:`logbus.cli.groups.offset_reset` and :mod:`logbus.cli.groups.group_lag`, against brokers in memory."""

from __future__ import annotations

import io
import json
from typing import Any
from unittest import mock

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.groups import group_lag, offset_reset
from logbus.cli.runner import CommandFailed
from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import Cluster
from logbus.coordination.offset_target import OffsetTarget, TargetKind
from logbus.model import TopicPartition
from logbus.wire.messages import groups, offsets
from logbus.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from logbus.wire.messages.partitions import PartitionErrorCode, TopicPartitions
from logbus.wire.schema import encode_versioned
from tests.client.memory_cluster import MemoryCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@define
class MemoryGroups:
    """
    A coordinator.

    :ivar committed: by group and partition.
    :ivar members: by group: what each member reads.
    """

    brokers: MemoryCluster
    committed: dict[str, dict[TopicPartition, int]] = field(factory=dict)
    members: dict[str, list[list[int]]] = field(factory=dict)
    errors: dict[TopicPartition, int] = field(factory=dict)

    def serve(self) -> None:
        """Answer for a cluster."""
        for key, versions, answer in (
            (8, (2, 9), self._commit),
            (9, (1, 9), self._fetch),
            (10, (0, 4), self._find),
            (15, (0, 5), self._describe),
        ):
            self.brokers.served[key] = versions
            self.brokers.answers[key] = answer

    def _find(self, node: int, message: Any) -> Any:
        return groups.FindCoordinatorResponse(
            coordinators=[
                groups.Coordinator(key=key, node_id=1, host="b1", port=9092) for key in message.coordinator_keys
            ]
        )

    def _describe(self, node: int, message: Any) -> Any:
        return groups.DescribeGroupsResponse(groups=[self._described(each) for each in message.groups])

    def _described(self, name: str) -> Any:
        if name not in self.committed and name not in self.members:
            return groups.DescribedGroup(group_id=name, group_state="Dead")
        members = [
            groups.DescribedGroupMember(
                member_id=f"m{number}",
                client_id="c",
                client_host="/h",
                member_assignment=encode_versioned(
                    ConsumerProtocolAssignment(
                        assigned_partitions=[TopicPartitions(topic="t", partitions=list(partitions))]
                    ),
                    1,
                ),
            )
            for number, partitions in enumerate(self.members.get(name, ()))
        ]
        state = "Stable" if members else "Empty"
        return groups.DescribedGroup(group_id=name, group_state=state, protocol_type="consumer", members=members)

    def _fetch(self, node: int, message: Any) -> Any:
        return offsets.OffsetFetchResponse(
            groups=[
                offsets.OffsetFetchResponseGroup(
                    group_id=each.group_id,
                    topics=[
                        offsets.OffsetFetchResponseTopics(
                            name=at.topic,
                            partitions=[
                                offsets.OffsetFetchResponsePartition(
                                    partition_index=at.partition, committed_offset=offset
                                )
                            ],
                        )
                        for at, offset in self.committed.get(each.group_id, {}).items()
                    ],
                )
                for each in message.groups
            ]
        )

    def _commit(self, node: int, message: Any) -> Any:
        answers = []
        for topic in message.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                code = self.errors.get(partition, 0)
                if not code:
                    self.committed.setdefault(message.group_id, {})[partition] = each.committed_offset
                answer = PartitionErrorCode(partition_index=partition.partition, error_code=code)
                answers.append(offsets.OffsetCommitResponseTopic(name=topic.name, partitions=[answer]))
        return offsets.OffsetCommitResponse(topics=answers)


class GroupToolTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.brokers = MemoryCluster()
        self.groups = MemoryGroups(self.brokers)
        self.groups.serve()
        logs = self.brokers.add("t", 1, 1)
        logs[0].put(*[b"x"] * 100)
        logs[0].start = 10
        self.admin = AdminClient(Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint))

    def done(self, work: Any) -> Any:
        waiting = Deferred.fromCoroutine(work)
        for _ in range(10):
            self.brokers.settle(0.1)
        return self.successResultOf(waiting)

    def refused(self, work: Any) -> str:
        waiting = Deferred.fromCoroutine(work)
        for _ in range(10):
            self.brokers.settle(0.1)
        return str(self.failureResultOf(waiting, CommandFailed).value)

    def report(self, *names: str) -> list[group_lag.GroupReport]:
        async def work() -> list[group_lag.GroupReport]:
            return await group_lag.group_reports(self.admin, await group_lag.group_descriptions(self.admin, names))

        reports: list[group_lag.GroupReport] = self.done(work())
        return reports

    # Reports.

    def test_lag(self) -> None:
        """
        A partition's lag is what is between its offset and its end; a group's that of all of them.
        """
        self.groups.committed["g"] = {T0: 30, T1: 0}
        self.groups.members["g"] = [[0], []]
        (report,) = self.report("g")
        self.assertEqual(
            [(each.offset, each.end, each.lag) for each in report.partition_lags], [(30, 100, 70), (0, 0, 0)]
        )
        self.assertEqual(report.lag, 70)
        rows = list(group_lag.offset_rows(report))
        self.assertEqual(rows[0], ("t", 0, 30, 100, 70, "m0", "c", "h"))
        self.assertEqual(rows[1], ("t", 1, 0, 0, 0, None, None, None))
        self.assertEqual(rows[2], (None, None, None, None, None, "m1", "c", "h"))
        self.assertIn("Stable, classic, 2 members, lag 70, coordinator b1:9092", group_lag.headline(report))

    def test_unknown_lag(self) -> None:
        """
        A partition without a commit has no lag, nor has one of a topic that was deleted; neither hides the others.
        """
        gone = TopicPartition("gone", 4)
        self.groups.committed = {"g": {gone: 5, TopicPartition("t", 9): 1, T1: 0}, "h": {}}
        self.groups.members["h"] = [[0]]
        first, second = self.report("g", "h")
        self.assertEqual(
            [(each.partition, each.lag) for each in first.partition_lags],
            [(gone, None), (T1, 0), (TopicPartition("t", 9), None)],
        )
        self.assertEqual((first.lag, second.lag), (0, None))
        self.assertIn("lag unknown", group_lag.headline(second))
        self.assertEqual(group_lag.as_json(second)["offsets"][0]["lag"], None)

    def test_an_offset_behind_the_end(self) -> None:
        """
        As a topic that was made anew has it: nothing is to be read, not less than nothing.
        """
        self.groups.committed["g"] = {T1: 7}
        self.assertEqual(self.report("g")[0].lag, 0)

    def test_unknown_groups(self) -> None:
        """
        All of them are named; of a list of all, those that went meanwhile are left out.
        """
        self.groups.committed["g"] = {}
        refusal = self.refused(group_lag.group_descriptions(self.admin, ["a", "g", "b"]))
        self.assertEqual(refusal, "there is no group 'a'; there is no group 'b'")
        found = self.done(group_lag.group_descriptions(self.admin, ["a", "g"], gone_is_fine=True))
        self.assertEqual([each.group_id for each in found], ["g"])

    # Moves.

    def plan(
        self, group_id: str, target: OffsetTarget, *partitions: TopicPartition
    ) -> list[offset_reset.OffsetResetPlan]:
        async def work() -> list[offset_reset.OffsetResetPlan]:
            there = await offset_reset.require_inactive(self.admin, [group_id])
            return await offset_reset.plan(self.admin, {group_id: dict.fromkeys(partitions, (target, ""))}, there)

        plans: list[offset_reset.OffsetResetPlan] = self.done(work())
        return plans

    def test_a_plan_is_written(self) -> None:
        """
        The shown offsets are those committed; other partitions keep theirs.
        """
        self.groups.committed["g"] = {T0: 30, T1: 0}
        (plan,) = plans = self.plan("g", OffsetTarget(TargetKind.SHIFT, 15), T0)
        self.assertEqual([(each.old, each.new) for each in plan.changes], [(30, 45)])
        self.assertEqual(self.groups.committed["g"], {T0: 30, T1: 0})
        self.done(offset_reset.write_plans(self.admin, plans))
        self.assertEqual(self.groups.committed["g"], {T0: 45, T1: 0})

    def test_a_time(self) -> None:
        """
        Each partition goes to its own first record of that time; one without goes to its end.
        """
        (plan,) = self.plan("g", OffsetTarget(TargetKind.TIME, 1040), T0, T1)
        self.assertEqual([(each.new, bool(each.note)) for each in plan.changes], [(40, False), (0, True)])
        self.assertTrue(plan.is_new)

    def test_groups_in_use(self) -> None:
        """
        A group with members is refused by its state, before anything is looked at.
        """
        self.groups.committed["g"] = {}
        self.groups.members["h"] = [[0]]
        self.assertEqual(
            self.refused(offset_reset.require_inactive(self.admin, ["g", "h"])),
            "group 'h' is Stable with 1 member; stop its consumers first",
        )
        self.assertEqual(self.done(offset_reset.require_inactive(self.admin, ["g", "new"])), {"g"})

    def test_unknown_partitions(self) -> None:
        """The error names them, and the existing ones."""
        scope = offset_reset.resolve_scopes
        self.assertEqual(self.done(scope(self.admin, [("t", None), ("t", (1,))])), [T0, T1])
        self.assertEqual(self.refused(scope(self.admin, [("t", None), ("no", None)])), "there is no topic 'no'")
        self.assertIn("'t' has no partition 2; it has 0 to 1", self.refused(scope(self.admin, [("t", (0, 2))])))
        missing = [TopicPartition("no", 0), TopicPartition("no", 1), TopicPartition("t", 7), T0]
        self.assertEqual(
            self.refused(offset_reset.check_existing(self.admin, missing)),
            "there is no topic 'no'; topic 't' has no partition 7; it has 0 to 1",
        )

    def test_a_partition_without_a_leader(self) -> None:
        """
        Nothing is moved when it is not known where to.
        """
        self.brokers.topics["t"][1].leader = -1
        self.groups.committed["g"] = {}
        targets = {"g": dict.fromkeys([T0, T1], (OffsetTarget(TargetKind.LATEST), ""))}
        self.assertIn("t-1 has no leader", self.refused(offset_reset.plan(self.admin, targets, {"g"})))

    def test_refusals_of_the_broker(self) -> None:
        """An error is shown once for all partitions that have it."""
        self.groups.errors = {T0: 25, T1: 25}
        plans = self.plan("g", OffsetTarget(TargetKind.LATEST), T0, T1)
        refusal = self.refused(offset_reset.write_plans(self.admin, plans))
        self.assertEqual(refusal, "group 'g' has members; stop its consumers first")

    def test_empty_file(self) -> None:
        """A file without offsets gives no advice to use --execute."""
        with mock.patch("sys.stdout", io.StringIO()) as out:
            offset_reset.print_plans([], False, False)
        self.assertEqual(out.getvalue(), "There are no offsets to write.\n")

    def test_output(self) -> None:
        """A table that says that nothing is written yet, or the same in JSON."""
        plans = self.plan("g", OffsetTarget(TargetKind.OFFSET, 3), T0)
        with mock.patch("sys.stdout", io.StringIO()) as out:
            offset_reset.print_plans(plans, False, False)
        self.assertEqual(
            out.getvalue().splitlines(),
            [
                "group  topic  partition  old  new  note",
                "g      t              0    -   10  3 is before the first that is kept",
                "There is no group 'g'; it begins with these offsets.",
                "Nothing is written yet: --execute writes it.",
            ],
        )
        with mock.patch("sys.stdout", io.StringIO()) as out:
            offset_reset.print_plans(plans, True, True)
        (told,) = json.loads(out.getvalue())
        self.assertEqual((told["group"], told["new"], told["executed"]), ("g", True, True))
        self.assertEqual(told["offsets"][0]["old"], None)
        self.assertEqual(told["offsets"][0]["new"], 10)
