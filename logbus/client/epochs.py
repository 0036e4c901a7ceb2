"""
Where leader epochs ended, asked of a partition's leader: how a consumer finds out that what it read is gone (KIP-320).
"""

from __future__ import annotations

from collections.abc import Mapping

from logbus.client.retry import api_error
from logbus.errors import ApiError
from logbus.model import OffsetAndEpoch, TopicPartition
from logbus.net.channel import Channel
from logbus.wire.messages.records import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

OFFSET_FOR_LEADER_EPOCH = 23
_SAYS_EPOCH = 1
"""The version from which the answer says which epoch it is about."""


async def epoch_ends(
    channel: Channel, wanted: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, OffsetAndEpoch | ApiError]:
    """
    Where the largest epoch ends that is not beyond the one asked for.

    :param wanted: the epoch that the leader must be in, and the one to ask for.
    :returns: an answer for each partition that the broker speaks of; offset −1: it knows none. Empty if the broker is
        too old to tell.
    :raises Disconnected: the connection ended first.
    """
    known = channel.versions.get(OFFSET_FOR_LEADER_EPOCH)
    if not wanted or known is None or known.max < _SAYS_EPOCH:
        return {}
    topics: dict[str, OffsetForLeaderTopic] = {}
    for (name, index), (current, epoch) in wanted.items():
        topics.setdefault(name, OffsetForLeaderTopic(topic=name, partitions=[])).partitions.append(
            OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
        )
    response: OffsetForLeaderEpochResponse = await channel.request(
        OffsetForLeaderEpochRequest(replica_id=-1, topics=list(topics.values()))
    )
    found: dict[TopicPartition, OffsetAndEpoch | ApiError] = {}
    for topic in response.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.topic, each.partition)
            if each.error_code:
                found[partition] = api_error(each.error_code, str(partition))
            else:
                found[partition] = OffsetAndEpoch(each.end_offset, each.leader_epoch)
    return found
