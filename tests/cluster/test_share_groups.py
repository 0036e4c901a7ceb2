"""Share groups on several brokers: their members, offsets and states survive fail-overs."""

from __future__ import annotations

from typing import Any

from logbus.coordination.share.share_group import ShareGroup
from logbus.errors import ErrorCode
from logbus.wire.messages.groups import DeleteGroupsRequest, FindCoordinatorRequest
from logbus.wire.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    ShareGroupHeartbeatRequest,
)
from logbus.wire.messages.topics import DeleteTopicsRequest, DeleteTopicState
from tests.cluster.test_share_coordinators import ShareCase

GROUP = "g"
RETRIABLE = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


class ShareGroupTests(ShareCase):
    """A group that reads nine partitions, whose states are on all brokers."""

    config = {**ShareCase.config, "offsets.topic.num.partitions": "1"}
    epoch = 0
    assigned: list[int] | None = None

    def coordinator(self) -> int:
        """The broker that coordinates the group."""
        for _ in range(20):
            request = FindCoordinatorRequest(coordinator_keys=[GROUP])
            (found,) = self.ask(self.cluster.alive[0], request, 4, 30).coordinators
            if found.error_code not in RETRIABLE:
                assert not found.error_code, found
                return int(found.node_id)
            self.cluster.settle(1)
        raise AssertionError("nobody coordinates the group")

    def asked(self, message: Any, version: int) -> Any:
        """The answer of the group's coordinator, once it serves."""
        for _ in range(20):
            answer = self.ask(self.coordinator(), message, version, 40)
            errors = [answer, *getattr(answer, "results", ()), *getattr(answer, "groups", ())]
            if not {getattr(each, "error_code", 0) for each in errors} & RETRIABLE:
                return answer
            self.cluster.settle(1)
        raise AssertionError(answer)

    def beat(self, epoch: int | None = None) -> Any:
        """A heartbeat of the one member."""
        epoch = self.epoch if epoch is None else epoch
        topics = ["t"] if epoch == 0 else None
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id="m", member_epoch=epoch, subscribed_topic_names=topics
        )
        answer = self.asked(request, 1)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = sorted(p for topic in answer.assignment.topic_partitions for p in topic.partitions)
        return answer

    def starts(self) -> dict[int, tuple[int, int, int]]:
        """Start offset, lag and error of each partition."""
        request = DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)]
        )
        (found,) = self.asked(request, 1).groups
        assert found.error_code == 0, found
        return {
            each.partition_index: (each.start_offset, each.lag, each.error_code)
            for topic in found.topics
            for each in topic.partitions
        }

    def alter(self, offsets: dict[int, int]) -> list[int]:
        """Set start offsets; the errors."""
        request = AlterShareGroupOffsetsRequest(
            group_id=GROUP,
            topics=[
                AlterShareGroupOffsetsRequestTopic(
                    topic_name="t",
                    partitions=[
                        AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
                        for number, offset in offsets.items()
                    ],
                )
            ],
        )
        answer = self.asked(request, 0)
        assert answer.error_code == 0, answer
        return [each.error_code for topic in answer.responses for each in topic.partitions]

    def states(self) -> list[int]:
        """The start offsets of the states, as any broker knows them."""
        persister = self.persister(self.cluster.alive[-1])
        return [state.start_offset for state in self.all_of([persister.summary(key) for key in self.keys])]

    def test_failover(self) -> None:
        """The next coordinator knows the member and what it has; start offsets stay as they were set."""
        for number in range(self.partitions):
            for _ in range(3):
                self.assertEqual(self.produce(number % 3, partition=number).error_code, 0)
        self.assertEqual(self.alter(dict.fromkeys(range(8), 2)), [0] * 8)
        self.beat()
        self.assertEqual(self.assigned, list(range(9)))
        expected = {**dict.fromkeys(range(8), (2, 1, 0)), 8: (-1, -1, 0)}
        self.assertEqual(self.starts(), expected)
        before = self.epoch
        self.cluster.kill(self.coordinator())
        self.cluster.settle(2)
        self.assertIsNone(self.beat().assignment)
        self.assertEqual((self.epoch, self.states()), (before, [2] * 8 + [-1]))

    def test_killed_while_states_are_made(self) -> None:
        """Whoever coordinates the group next makes the others."""
        coordinator = self.coordinator()
        client = self.client(coordinator)
        client.send(
            ShareGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=0, subscribed_topic_names=["t"]),
            1,
        )
        self.cluster.settle(0.02)
        self.assertEqual(client.answers(), [])
        group = self.cluster[coordinator].broker.coordinators.groups.group(GROUP)
        assert isinstance(group, ShareGroup)
        self.assertEqual((len(group.recorded.partitions.initializing), group.recorded.partitions.initialized), (1, {}))
        self.cluster.kill(coordinator)
        self.cluster.settle(2)
        for _ in range(3):
            self.epoch = 0 if self.assigned is None else self.epoch
            self.beat()
            self.cluster.settle(3)
        self.assertEqual((self.assigned, self.states()), (list(range(9)), [-1] * 9))

    def test_deletion(self) -> None:
        """Of a group, and of a topic: no state is left on any broker."""
        self.assertEqual(self.alter(dict.fromkeys(range(9), 2)), [0] * 9)
        (result,) = self.asked(DeleteGroupsRequest(groups_names=[GROUP]), 2).results
        self.assertEqual((result.error_code, self.states()), (0, [-1] * 9))
        self.assertEqual(self.alter(dict.fromkeys(range(9), 2)), [0] * 9)
        self.ask(0, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), 6)
        self.cluster.settle(5)
        self.assertEqual(self.starts(), {})
        held = [len(shard.entries) for each in self.cluster.alive for shard in self.shards(each)]
        self.assertEqual(sum(held), 0)

    def shards(self, broker_id: int) -> Any:
        return self.cluster[broker_id].broker.coordinators.share_states.active_shards()
