"""A broker that starts, and coordinates groups before its metadata show it."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred

from logbus.cluster.metadata_update_receiver import MetadataUpdateReceiver
from logbus.errors import ErrorCode
from logbus.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from logbus.wire.messages.groups import FindCoordinatorRequest
from tests.cluster.test_leader import LeaderCase


class StartingCoordinatorTests(LeaderCase):
    """One broker has all groups."""

    config = {**LeaderCase.config, "offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}

    def coordinator(self) -> int:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        for _ in range(100):
            (found,) = self.ask(0, request, 4).coordinators
            if not found.error_code:
                return int(found.node_id)
            self.cluster.settle(0.1)
        raise AssertionError("nobody coordinates")

    def test_early_requests(self) -> None:
        """Until the topics are shown, members are to try again: those that are missing are not taken for deleted."""
        self.create(partitions=3)
        coordinator = self.coordinator()
        joining = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        joined = self.ask(coordinator, joining, 1)
        self.assertEqual(joined.assignment.topic_partitions[0].partitions, [0, 1, 2])
        self.cluster.kill(coordinator)
        hold: Deferred[None] = Deferred()
        show = MetadataUpdateReceiver._show

        async def held(receiver: MetadataUpdateReceiver, *update: Any) -> None:
            if receiver.broker_id == coordinator:
                await hold
            await show(receiver, *update)

        with patch.object(MetadataUpdateReceiver, "_show", held):
            self.cluster.boot(coordinator, wait=False)
            self.cluster.settle(2)
            heartbeat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
            early = self.ask(coordinator, heartbeat, 1)
            hold.callback(None)
            self.cluster.settle(1)
        self.assertEqual(early.error_code, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        beat = self.ask(coordinator, heartbeat, 1)
        self.assertEqual((beat.error_code, beat.member_epoch, beat.assignment), (0, 1, None))
