"""Where a follower begins when what it lacks is only in remote storage."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.logger import LogLevel, capturedLogs

from logbus.cluster.follower.partition_fetch_state import PartitionFetchState
from logbus.cluster.follower.tier_state_machine import TierStateMachine
from logbus.cluster.replication.partition import Partition
from logbus.cluster.replication.replica import Replica
from logbus.errors import ApiError, ErrorCode
from logbus.model import OffsetAndEpoch, TopicPartition
from logbus.storage.auxiliary_state import AuxiliaryState
from logbus.wire.messages.records import (
    EpochEndOffset,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.cluster.follower.test_replica_fetcher import FetcherCase
from tests.storage.builders import a_log

NOTHING = OffsetAndEpoch(-1, -1)


@define(eq=False)
class TieredLeader:
    """
    A leader whose local log begins somewhere.

    :ivar start: there, and its epoch; ``before``: the epoch before that one, with its end.
    """

    start: OffsetAndEpoch
    before: OffsetAndEpoch = NOTHING
    error: int = 0
    asked: list[Any] = field(factory=list)

    def channel_for(self, broker_id: int, purpose: str) -> Deferred[Any]:
        return succeed(self)

    def request(self, request: Any, timeout: float = 0) -> Deferred[Any]:
        self.asked.append(request)
        if isinstance(request, ListOffsetsRequest):
            found = ListOffsetsPartitionResponse(
                partition_index=0, error_code=self.error, offset=self.start.offset, leader_epoch=self.start.epoch
            )
            return succeed(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])]))
        end = EpochEndOffset(
            partition=0, error_code=self.error, leader_epoch=self.before.epoch, end_offset=self.before.offset
        )
        return succeed(OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])]))


class TierStateMachineTests(FetcherCase):
    """The record whose remote segment is wanted: its offset and epoch."""

    def wanted(self, leader: TieredLeader) -> OffsetAndEpoch:
        wanted: list[OffsetAndEpoch] = []

        async def remote_state(replica: Replica, last: OffsetAndEpoch, log_start_offset: int) -> AuxiliaryState:
            wanted.append(last)
            return AuxiliaryState(last.offset + 1, log_start_offset, ())

        machine = TierStateMachine(1, 2, leader.channel_for, remote_state)  # type: ignore[arg-type]
        name = TopicPartition("t", 0)
        followed = PartitionFetchState(Replica(Partition(name, 2), UUID(int=7), a_log()), 5)
        state = self.successResultOf(Deferred.fromCoroutine(machine.state_of(followed, 3)))
        self.assertEqual(state.log_start_offset, 3)
        return wanted[0]

    def test_one_epoch(self) -> None:
        """The record before the first local one has its epoch, if an earlier one ends before it."""
        leader = TieredLeader(OffsetAndEpoch(100, 4), OffsetAndEpoch(60, 2))
        self.assertEqual(self.wanted(leader), OffsetAndEpoch(99, 4))
        (offsets, epochs) = leader.asked
        self.assertEqual((offsets.replica_id, offsets.topics[0].partitions[0].timestamp), (2, -4))
        self.assertEqual(offsets.topics[0].partitions[0].current_leader_epoch, 5)
        self.assertEqual(epochs.topics[0].partitions[0].leader_epoch, 3)

    def test_an_epoch_that_ends_there(self) -> None:
        """The record before the first local one has an earlier epoch."""
        self.assertEqual(
            self.wanted(TieredLeader(OffsetAndEpoch(100, 4), OffsetAndEpoch(100, 2))), OffsetAndEpoch(99, 2)
        )

    def test_the_first_epoch(self) -> None:
        """There is none before it."""
        leader = TieredLeader(OffsetAndEpoch(100, 0))
        self.assertEqual(self.wanted(leader), OffsetAndEpoch(99, 0))
        self.assertEqual(len(leader.asked), 1)

    def test_a_refusal(self) -> None:
        """An error of the leader is passed on."""
        machine = TierStateMachine(
            1, 2, TieredLeader(OffsetAndEpoch(1, 0), error=ErrorCode.FENCED_LEADER_EPOCH).channel_for, None  # type: ignore[arg-type]
        )  # fmt: skip
        followed = PartitionFetchState(Replica(Partition(TopicPartition("t", 0), 2), UUID(int=7), a_log()), 5)
        error = self.failureResultOf(Deferred.fromCoroutine(machine.state_of(followed, 0)), ApiError).value
        self.assertEqual(error.code, ErrorCode.FENCED_LEADER_EPOCH)

    def test_a_follower_without_remote_storage(self) -> None:
        """It says so once, and tries again: somebody may mend that and restart it."""
        led, replica = self.lead(), self.replica()
        led.error = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
        self.leader.others = TieredLeader(OffsetAndEpoch(100, 0)).request
        with capturedLogs() as logs:
            self.follow(replica)
            self.clock.pump([0.1] * 30)
        said = [each for each in logs if each["log_level"] is LogLevel.warn]
        self.assertEqual(len(said), 1)
        self.assertIn("remote.log.storage.system.enable=false", said[0]["problem"])
        self.assertGreater(self.fetcher.counters.failed_partitions, 2)
        # Its log begins with what the state says, and goes on from there.
        led.error = None
        self.leader.append(led, b"a")
        self.clock.pump([0.1] * 30)
        self.same(replica, led)


del FetcherCase
