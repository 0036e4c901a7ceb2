"""Tests of :mod:`logbus.coordination.group_loader`: requests during a load, and damaged logs."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred
from twisted.logger import LogLevel, globalLogPublisher

from logbus.coordination import group_coordinator, state_log_reader
from logbus.coordination.coordinator_partition import partition_for
from logbus.coordination.group_shard import GroupShard
from logbus.errors import ErrorCode
from logbus.model import OFFSETS_TOPIC, TopicPartition
from logbus.net.time_slices import SliceScheduler
from logbus.wire.messages.groups import ListGroupsRequest
from logbus.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.handlers.group_kit import GroupCase, commit, fetch_committed


class LoadingTests(GroupCase):
    """A broker that loads the groups of a former one."""

    def complaints(self) -> list[str]:
        """Collects errors that are logged."""
        said: list[str] = []

        def observe(event: dict[str, object]) -> None:
            if event["log_level"] in (LogLevel.error, LogLevel.critical):
                said.append(str(event["log_format"]).format(**event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        return said

    def shard(self, group: str) -> GroupShard:
        return self.server.broker.coordinators.groups.shards[partition_for(group, 4)]

    def append(self, group: str, *records: tuple[bytes, bytes | None]) -> None:
        """Write records as they are into the partition of a group."""
        self.shard(group).log.append(records, ErrorCode.UNKNOWN_SERVER_ERROR)

    def test_requests_during_a_load(self) -> None:
        """Requests for groups of the partition must be retried; other partitions are served."""
        self.patch(state_log_reader, "RECORDS_A_TURN", 20)
        member = self.member(group="g")
        self.group_of(member)
        self.patch(state_log_reader, "RECORDS_A_TURN", 50)
        self.server.create("wide", 30)
        for _ in range(3):
            commit(self.client, {("wide", number): number for number in range(30)}, "h" * 3)
            member.commit(5)
        self.assertNotEqual(partition_for("hhh", 4), partition_for("g", 4))
        turns: list[Deferred[None]] = []

        class Slice:
            """Waits for the test."""

            def __init__(self, slices: SliceScheduler) -> None:
                pass

            def next(self) -> Deferred[None]:
                turns.append(Deferred())
                return turns[-1]

        self.patch(state_log_reader, "TimeSlice", Slice)
        self.restart()
        self.assertEqual(len(turns), 2)
        for _ in range(2):
            turns.pop(0).callback(None)
        member.client = self.server.connect()
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name) for name in ("hhh", "g")])
        codes = [group.error_code for group in self.client.ask(asked, 9).groups]
        self.assertEqual(codes, [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0])
        while turns:
            turns.pop().callback(None)
            self.client.turn()
        self.assertEqual(len(fetch_committed(self.client, "hhh")), 30)
        self.assertEqual(fetch_committed(self.client, "g"), {("t", 0): 5})
        self.assertEqual(member.heartbeat(), 0)

    def test_loading_is_answered(self) -> None:
        """Requests get COORDINATOR_LOAD_IN_PROGRESS, but heartbeats succeed, so that members do not rejoin."""
        member = self.member()
        self.group_of(member)
        member.commit(5)
        shard = self.shard("g")
        shard.loading = True
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self.assertEqual(member.heartbeat(), 0)
        self.assertEqual(member.commit(6), code)
        member.send_join()
        self.assertEqual(member.joined().error_code, code)
        response = self.client.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")]), 9)
        self.assertEqual(response.groups[0].error_code, code)
        self.assertEqual(self.describe().error_code, code)
        listed = self.client.ask(ListGroupsRequest(), 5)
        self.assertEqual((listed.error_code, listed.groups), (code, []))
        elsewhere = next(name for name in "abcdefgh" if partition_for(name, 4) != partition_for("g", 4))
        self.assertEqual(commit(self.client, {("t", 0): 1}, elsewhere), {("t", 0): 0})
        self.assertEqual([group.group_id for group in self.client.ask(ListGroupsRequest(), 5).groups], [elsewhere])
        shard.loading = False

    def test_damaged_records(self) -> None:
        """Each is passed over with a line in the log that names the place; the rest is there."""
        member = self.member()
        self.group_of(member)
        self.assertEqual(member.commit(5), 0)
        self.append("g", (b"\0\x01\0\x01", b"\0\x03"), (b"\0\x02\0\x01g", b"\0\x03garbage"))
        self.assertEqual(member.commit(6, 1), 0)
        said = self.complaints()
        self.restart()
        member.client = self.server.connect()
        self.assertEqual(fetch_committed(self.client), {("t", 0): 5, ("t", 1): 6})
        self.assertEqual(member.heartbeat(), 0)
        damage = [line for line in said if "damage at offset" in line]
        self.assertEqual(len(damage), 2, said)
        self.assertIn(f"{OFFSETS_TOPIC}-{partition_for('g', 4)}", damage[0])
        self.assertEqual(self.server.broker.coordinators.groups.metrics.damaged, 2)

    def test_unknown_record_kinds(self) -> None:
        """Records of unknown kinds do not count as damage."""
        commit(self.client, {("t", 0): 5})
        self.append("g", (b"\0\x63new", b"\0\0new"))
        said = self.complaints()
        self.restart()
        self.assertEqual(fetch_committed(self.client), {("t", 0): 5})
        self.assertEqual(said, [])

    def test_leadership_lost_during_a_load(self) -> None:
        """The load is cancelled, and another one begins with the next leadership."""
        commit(self.client, {("t", 0): 5})
        coordinator = self.server.broker.coordinators.groups
        name = TopicPartition(OFFSETS_TOPIC, partition_for("g", 4))
        for _ in range(600):
            self.append("g", (b"\0\x63filler", None))
        coordinator.leads_no_more(name)
        coordinator.leads(name, 8)
        first = coordinator.shards[name.partition]
        self.assertTrue(first.loading)
        coordinator.leads_no_more(name)
        coordinator.leads(name, 9)
        self.client.turn()
        second = coordinator.shards[name.partition]
        self.assertIsNot(second, first)
        self.assertEqual((first.loading, second.loading, second.epoch), (True, False, 9))
        self.assertEqual(fetch_committed(self.client), {("t", 0): 5})
        self.assertEqual(first.groups, {})

    def test_many_groups_are_resigned_and_loaded_in_turns(self) -> None:
        """Members that wait are told so, whatever the number of groups; the timers of the others begin in turns."""
        self.patch(group_coordinator, "GROUPS_A_TURN", 10)
        coordinator = self.server.broker.coordinators.groups
        names = [name for name in map(str, range(400)) if partition_for(name, 4) == partition_for("g", 4)]
        for name in names:
            commit(self.client, {("t", 0): 5}, name)
        member = self.member()
        self.group_of(member)
        other = self.member()
        other.get_id()
        other.send_join()
        name = TopicPartition(OFFSETS_TOPIC, partition_for("g", 4))
        before = coordinator.slices.slices
        coordinator.leads_no_more(name)
        self.assertEqual(other.joined().error_code, ErrorCode.NOT_COORDINATOR)
        self.assertGreaterEqual(coordinator.slices.slices - before, len(names) // 10)
        before = coordinator.slices.slices
        coordinator.leads(name, 8)
        self.client.turn()
        self.assertEqual(len(coordinator.shards[name.partition].groups), len(names) + 1)
        self.assertGreaterEqual(coordinator.slices.slices - before, 1 + len(names) // 10)
        self.assertIn("g", coordinator.shards[name.partition].alarms)

    def test_stopping_broker(self) -> None:
        """It answers those that wait at once: there is no later turn."""
        self.patch(group_coordinator, "GROUPS_A_TURN", 1)
        for name in map(str, range(20)):
            commit(self.client, {("t", 0): 5}, name)
        member = self.member()
        self.group_of(member)
        other = self.member()
        other.get_id()
        other.send_join()
        self.server.broker.coordinators.groups.stop()
        (answer,) = other.client.answers()
        self.assertEqual(answer.error_code, ErrorCode.NOT_COORDINATOR)

    def test_topic_deleted_during_a_load(self) -> None:
        """Its offsets are deleted as soon as they are loaded, before clients can commit for a new topic of its name."""
        self.server.create("u")
        commit(self.client, {("t", 0): 5, ("u", 0): 6})
        coordinator = self.server.broker.coordinators.groups
        name = TopicPartition(OFFSETS_TOPIC, partition_for("g", 4))
        for _ in range(600):
            self.append("g", (b"\0\x63filler", None))
        coordinator.leads_no_more(name)
        coordinator.leads(name, 8)
        self.assertTrue(coordinator.shards[name.partition].loading)
        self.server.broker.coordinators.group_cleanup.forget_topics(["u"])
        for _ in range(5):
            self.client.turn()
        self.assertEqual(fetch_committed(self.client), {("t", 0): 5})

    def test_loads_are_counted(self) -> None:
        """Metrics of loads."""
        metrics = self.server.broker.coordinators.groups.metrics
        self.assertEqual(metrics.loads, 4)
        self.assertEqual(self.shard_numbers(), [0, 1, 2, 3])

    def shard_numbers(self) -> Sequence[int]:
        return sorted(self.server.broker.coordinators.groups.shards)
