"""Up to where a mirror has copied: what its offset syncs at the target say."""

from __future__ import annotations

from attrs import frozen
from twisted.logger import Logger

from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.errors import DecodeError
from logbus.mirror.copied_range import HEADER, TopicIds, decode_range
from logbus.mirror.position_store import read_partition
from logbus.model import TopicPartition

_log = Logger()


@frozen
class MirrorPosition:
    """
    The end of the last copied range of a partition.

    :ivar upstream: the offset at the source behind its last record.
    :ivar downstream: the offset behind it in the copy.
    :ivar ids: of both topics.
    """

    upstream: int
    downstream: int
    ids: TopicIds


async def read_mirror_positions(target: Cluster, topic: str) -> dict[TopicPartition, MirrorPosition]:
    """
    The positions by partition of the source; none for a mirror of another kind, whose offset syncs do not say it.

    :param topic: the topic of offset syncs.
    :raises LogbusError: it cannot be read.
    """
    found: dict[TopicPartition, MirrorPosition] = {}
    if topic not in {each.name for each in await target.topics()}:
        return found

    def read(record: ConsumerRecord) -> None:
        if all(name != HEADER for name, _ in record.headers):
            return
        try:
            copied, ids = decode_range(record.key, record.value, record.headers)
        except DecodeError as e:
            _log.warn("{topic} offset {offset}: {error}", topic=topic, offset=record.offset, error=e)
            return
        found[copied.partition] = MirrorPosition(copied.next_offset, copied.last_downstream + 1, ids)

    await read_partition(target, TopicPartition(topic, 0), read)
    return found
