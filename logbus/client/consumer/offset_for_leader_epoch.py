"""Looks up where leader epochs ended (OffsetForLeaderEpoch), to detect truncated logs (KIP-320)."""

from __future__ import annotations

from collections.abc import Mapping

from logbus.client.retry import api_error
from logbus.errors import ApiError
from logbus.model import OffsetAndEpoch, TopicPartition, group_by_topic
from logbus.net.channel import Channel
from logbus.wire.messages.records import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

OFFSET_FOR_LEADER_EPOCH = 23
_SAYS_EPOCH = 1
"""The first version whose response names the epoch."""


async def epoch_ends(
    channel: Channel, wanted: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, OffsetAndEpoch | ApiError]:
    """
    The end of the largest epoch that is not beyond the given one.

    :param wanted: the leader's current epoch, and the epoch to look up.
    :returns: a result for each partition in the response; offset −1: the leader knows no such epoch. Empty if the
        broker does not support this.
    :raises Disconnected: the connection was lost.
    """
    known = channel.versions.get(OFFSET_FOR_LEADER_EPOCH)
    if not wanted or known is None or known.max < _SAYS_EPOCH:
        return {}
    by_topic = group_by_topic(
        (each, OffsetForLeaderPartition(partition=each.partition, current_leader_epoch=current, leader_epoch=epoch))
        for each, (current, epoch) in wanted.items()
    )
    topics = [OffsetForLeaderTopic(topic=name, partitions=each) for name, each in by_topic.items()]
    response: OffsetForLeaderEpochResponse = await channel.request(
        OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
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
