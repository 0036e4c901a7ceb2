"""
Has a follower begin where its leader's local log does, when what it lacks is only in remote storage (KIP-405; Kafka:
TierStateMachine).

The leader answers a fetch below its first local record with OFFSET_MOVED_TO_TIERED_STORAGE. The follower asks for that
record's offset and leader epoch, finds the remote segment that has the records before it, and takes over what was
uploaded with that: the leader epochs, and the state of the producers. Its log begins behind that segment, and it
fetches from there. Nothing is copied from remote storage.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define
from twisted.internet.defer import Deferred

from logbus.cluster.follower.partition_fetch_state import PartitionFetchState
from logbus.cluster.replication.replica import Replica
from logbus.errors import ApiError, ErrorCode, error_of
from logbus.model import NO_EPOCH, OffsetAndEpoch
from logbus.net.channel import Channel
from logbus.storage.auxiliary_state import AuxiliaryState
from logbus.wire.messages.records import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

PURPOSE = "tier"
"""Purpose of the connections to leaders: those of fetches answer late."""

EARLIEST_LOCAL = -4
"""The special timestamp of ListOffsets for the first local offset."""

TIMEOUT_SECONDS = 30.0

RemoteState = Callable[[Replica, OffsetAndEpoch, int], Awaitable[AuxiliaryState]]
"""
Returns the state behind the remote segment that has the record at an offset, in a leader epoch, for a log that begins
at the last argument. Raises LogbusError.
"""


async def no_remote_storage(replica: Replica, last: OffsetAndEpoch, log_start_offset: int) -> AuxiliaryState:
    """The default: this broker has none."""
    raise ApiError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        "it has only in remote storage what this broker lacks, which has remote.log.storage.system.enable=false",
    )


@define(eq=False)
class TierStateMachine:
    """Finds out where partitions that follow one leader begin, and with which state."""

    leader: int
    broker_id: int
    channel_for: Callable[[int, str], Deferred[Channel]]
    remote_state: RemoteState

    async def state_of(self, followed: PartitionFetchState, log_start_offset: int) -> AuxiliaryState:
        """
        The state with which a partition's log begins.

        :param log_start_offset: the leader's.
        :raise LogbusError: it cannot be had now.
        """
        channel = await self.channel_for(self.leader, PURPOSE)
        start = await self._local_start(channel, followed)
        epoch = await self._epoch_before(channel, followed, start)
        return await self.remote_state(followed.replica, OffsetAndEpoch(start.offset - 1, epoch), log_start_offset)

    async def _local_start(self, channel: Channel, followed: PartitionFetchState) -> OffsetAndEpoch:
        name = followed.name
        asked = ListOffsetsPartition(
            partition_index=name.partition, current_leader_epoch=followed.leader_epoch, timestamp=EARLIEST_LOCAL
        )
        response: ListOffsetsResponse = await channel.request(
            ListOffsetsRequest(
                replica_id=self.broker_id, topics=[ListOffsetsTopic(name=name.topic, partitions=[asked])]
            ),
            timeout=TIMEOUT_SECONDS,
        )
        found = response.topics[0].partitions[0]
        if found.error_code:
            raise error_of(found.error_code, f"broker {self.leader} does not say where its local log begins")
        return OffsetAndEpoch(found.offset, found.leader_epoch)

    async def _epoch_before(self, channel: Channel, followed: PartitionFetchState, start: OffsetAndEpoch) -> int:
        """The leader epoch of the record before the first local one: an earlier one may end there."""
        if start.epoch <= 0:
            return start.epoch
        name = followed.name
        asked = OffsetForLeaderPartition(
            partition=name.partition, current_leader_epoch=followed.leader_epoch, leader_epoch=start.epoch - 1
        )
        response: OffsetForLeaderEpochResponse = await channel.request(
            OffsetForLeaderEpochRequest(
                replica_id=self.broker_id, topics=[OffsetForLeaderTopic(topic=name.topic, partitions=[asked])]
            ),
            timeout=TIMEOUT_SECONDS,
        )
        found = response.topics[0].partitions[0]
        if found.error_code:
            raise error_of(found.error_code, f"broker {self.leader} does not know the end of epoch {start.epoch - 1}")
        ends_there = found.leader_epoch != NO_EPOCH and found.end_offset >= start.offset
        return found.leader_epoch if ends_there else start.epoch
