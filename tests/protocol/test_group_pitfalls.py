"""
Known mistakes of group coordinators, each a test against a whole broker in memory. The number in a docstring is that of
the pitfall in the project's list.
"""

from __future__ import annotations

from logbus.errors import ErrorCode
from logbus.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from logbus.wire.messages.groups import (
    DeleteGroupsRequest,
    FindCoordinatorRequest,
    LeaveGroupRequest,
    MemberIdentity,
)
from logbus.wire.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from logbus.wire.messages.partitions import TopicPartitionIndexes
from logbus.wire.schema import encode_versioned
from tests.handlers.group_kit import GroupCase, Member, commit, fetch_committed


class Joining(GroupCase):
    """JoinGroup and SyncGroup."""

    def test_member_id_required_by_version(self) -> None:
        """Trap 20: MEMBER_ID_REQUIRED only from version 4 on, without an id and an instance id; else kafka-go hangs."""
        for version, instance_id, expected in (
            (0, None, 0),
            (2, None, 0),
            (3, None, 0),
            (4, None, ErrorCode.MEMBER_ID_REQUIRED),
            (9, None, ErrorCode.MEMBER_ID_REQUIRED),
            (5, "static", 0),
            (9, "fixed", 0),
        ):
            member = self.member(f"group-{version}-{instance_id}", instance_id=instance_id)
            member.send_join(version)
            answer = member.joined()
            self.assertEqual(answer.error_code, expected, (version, instance_id))
            self.assertTrue(answer.member_id)

    def test_all_are_answered_together(self) -> None:
        """Trap 21: all have the same generation and protocol; only the leader gets the members."""
        first, second = self.member(), self.member()
        self.group_of(first)
        second.get_id()
        second.send_join(protocols={"sticky": b"s", "range": b"r"})
        self.assertIsNone(second.answer())
        first.send_join(protocols={"range": b"r", "roundrobin": b"x"})
        answers = [first.joined(), second.joined()]
        self.assertEqual({answer.generation_id for answer in answers}, {2})
        self.assertEqual({answer.protocol_name for answer in answers}, {"range"})
        self.assertEqual({answer.protocol_type for answer in answers}, {"consumer"})
        told = {member.member_id: [one.member_id for one in member.told.members] for member in (first, second)}
        leader, follower = (first, second) if first.leads else (second, first)
        self.assertEqual(told[follower.member_id], [])
        self.assertEqual(sorted(told[leader.member_id]), sorted(told))

    def test_session_timeouts_have_bounds(self) -> None:
        """Trap 21: a session timeout that the broker does not allow is INVALID_SESSION_TIMEOUT."""
        for milliseconds in (5_999, 1_800_001, 0, -1):
            member = self.member(session_timeout_ms=milliseconds)
            member.send_join()
            self.assertEqual(member.joined().error_code, ErrorCode.INVALID_SESSION_TIMEOUT)

    def test_sync_waits_for_the_leader(self) -> None:
        """Trap 22: SyncGroup before the leader's is parked, no error; an empty assignment is one."""
        first, second = self.member(), self.member()
        self.group_of(first)
        second.get_id()
        second.send_join()
        first.send_join()
        first.joined(), second.joined()
        leader, follower = (first, second) if first.leads else (second, first)
        follower.send_sync()
        self.assertIsNone(follower.answer())
        leader.send_sync({leader.member_id: b"all"})
        self.assertEqual(leader.answer().assignment, b"all")
        answer = follower.answer()
        self.assertEqual((answer.error_code, answer.assignment), (0, b""))

    def test_heartbeat_errors(self) -> None:
        """Trap 22: REBALANCE_IN_PROGRESS while others join, ILLEGAL_GENERATION when late, UNKNOWN_MEMBER_ID else."""
        first, second = self.member(), self.member()
        self.group_of(first)
        self.assertEqual(first.heartbeat(), 0)
        second.get_id()
        second.send_join()
        self.assertEqual(first.heartbeat(), ErrorCode.REBALANCE_IN_PROGRESS)
        self.assertEqual(first.heartbeat(generation_id=0), ErrorCode.ILLEGAL_GENERATION)
        self.assertEqual(first.heartbeat(member_id="nobody"), ErrorCode.UNKNOWN_MEMBER_ID)

    def test_static_members(self) -> None:
        """Trap 23: a returning static member gets a new member id and no rebalance; the old one is fenced."""
        fixed, other = self.member(instance_id="fixed"), self.member()
        self.group_of(fixed)
        self.group_of(fixed, other)
        again = self.member(instance_id="fixed")
        again.send_join()
        answer = again.joined()
        self.assertEqual((answer.error_code, answer.generation_id), (0, other.generation))
        self.assertNotEqual(answer.member_id, fixed.member_id)
        self.assertEqual(other.heartbeat(), 0)
        self.assertEqual(fixed.heartbeat(), ErrorCode.FENCED_INSTANCE_ID)
        self.assertEqual(fixed.commit(1), ErrorCode.FENCED_INSTANCE_ID)
        leaving = [MemberIdentity(member_id="", group_instance_id="fixed")]
        left = self.client.ask(LeaveGroupRequest(group_id="g", members=leaving), 3)
        self.assertEqual([one.error_code for one in left.members], [0])
        self.assertEqual(other.heartbeat(), ErrorCode.REBALANCE_IN_PROGRESS)


class Offsets(GroupCase):
    """OffsetCommit, OffsetFetch, OffsetDelete."""

    def test_consumers_without_a_group(self) -> None:
        """Trap 24: generation −1 without a member id may commit while the group has no members; metadata comes back."""
        self.assertEqual(commit(self.client, {("t", 0): 7}, metadata="where I was", leader_epoch=0), {("t", 0): 0})
        asked = OffsetFetchRequest(
            group_id="g", topics=[TopicPartitionIndexes(name="t", partition_indexes=[0, 1])], require_stable=True
        )
        answer = self.client.ask(asked, 7)
        known, unknown = answer.topics[0].partitions
        self.assertEqual((known.committed_offset, known.metadata, known.committed_leader_epoch), (7, "where I was", 0))
        self.assertEqual((unknown.committed_offset, unknown.error_code), (-1, 0))
        self.group_of(self.member())
        self.assertEqual(commit(self.client, {("t", 0): 8}), {("t", 0): ErrorCode.UNKNOWN_MEMBER_ID})

    def test_null_is_all(self) -> None:
        """Trap 24: no topics named (from version 2) are all; several groups at once from version 8."""
        commit(self.client, {("t", 0): 7, ("t", 1): 8})
        commit(self.client, {("t", 1): 9}, "h")
        answer = self.client.ask(OffsetFetchRequest(group_id="g", topics=None), 2)
        self.assertEqual([one.committed_offset for one in answer.topics[0].partitions], [7, 8])
        wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[1])
        groups = [OffsetFetchRequestGroup(group_id=name, topics=[wanted]) for name in ("g", "h", "nobody")]
        answer = self.client.ask(OffsetFetchRequest(groups=groups), 8)
        found = {one.group_id: one.topics[0].partitions[0].committed_offset for one in answer.groups}
        self.assertEqual(found, {"g": 8, "h": 9, "nobody": -1})

    def test_coordinators_are_found_in_batches(self) -> None:
        """Trap 25: from version 4 several keys, each with its own error."""
        answer = self.client.ask(FindCoordinatorRequest(coordinator_keys=["a", "b"]), 4)
        self.assertEqual(
            [(one.key, one.error_code, one.node_id) for one in answer.coordinators], [("a", 0, 0), ("b", 0, 0)]
        )
        answer = self.client.ask(FindCoordinatorRequest(key="a"), 0)
        self.assertEqual((answer.error_code, answer.node_id, answer.port), (0, 0, 9092))

    def test_deletion_of_used_groups_and_offsets(self) -> None:
        """Trap 41: GROUP_SUBSCRIBED_TO_TOPIC, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND; a missing group is Dead."""
        subscription = encode_versioned(ConsumerProtocolSubscription(topics=["t"]), 1)
        member = Member(self.server.connect())
        member.get_id()
        member.send_join(protocols={"range": subscription})
        member.joined()
        member.send_sync({member.member_id: b""})
        self.assertEqual(member.answer().error_code, 0)
        self.assertEqual(member.commit(3), 0)
        gone = OffsetDeleteRequest(
            group_id="g",
            topics=[OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])],
        )
        answer = self.client.ask(gone, 0)
        self.assertEqual(answer.topics[0].partitions[0].error_code, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
        results = self.client.ask(DeleteGroupsRequest(groups_names=["g", "nobody"]), 2).results
        self.assertEqual(
            {one.group_id: one.error_code for one in results},
            {"g": ErrorCode.NON_EMPTY_GROUP, "nobody": ErrorCode.GROUP_ID_NOT_FOUND},
        )
        self.assertEqual(self.describe("nobody").group_state, "Dead")
        self.assertEqual(self.describe("nobody").error_code, 0)
        member.leave()
        self.assertEqual(self.client.ask(gone, 0).topics[0].partitions[0].error_code, 0)
        self.assertEqual(fetch_committed(self.client), {})
