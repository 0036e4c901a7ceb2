"""
The clusters that a source's topics come from, found in the offset syncs of the mirrors that write to it. For the policy
``identity``, whose names do not say it.
"""

from __future__ import annotations

from uuid import UUID

from attrs import define, field
from twisted.logger import Logger

from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.errors import DecodeError
from logbus.mirror.copied_range import CopiedRange, decode_origins, decode_range
from logbus.mirror.mirror_records import BEGUN
from logbus.mirror.offset_map import OffsetMap
from logbus.mirror.position_store import read_partition
from logbus.model import TopicPartition

_PREFIX, _SUFFIX = "mm2-offset-syncs.", ".internal"


@define(eq=False)
class Origins:
    """
    The copies among a source's topics, by their ids.

    :ivar moving: topics into which a mirror has copied since the first look, with the aliases of its source.
    """

    source: Cluster
    moving: set[tuple[UUID, str]] = field(factory=set, init=False)
    _aliases: dict[UUID, set[str]] = field(factory=dict, init=False)
    _direct: dict[tuple[UUID, str, int], OffsetMap] = field(factory=dict, init=False)
    _read_to: dict[str, int] = field(factory=dict, init=False)
    _is_read: bool = field(default=False, init=False)
    _log = Logger()

    async def refresh(self) -> None:
        """
        Read what was written since the last time.

        :raises LogbusError: a topic cannot be read.
        """
        is_first, self._is_read = not self._is_read, True
        for topic in await self.source.topics():
            name = topic.name
            if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
                await self._read(name, name[len(_PREFIX) : -len(_SUFFIX)], is_first)

    def of(self, topic_id: UUID) -> set[str]:
        """The aliases of the clusters whose records a topic has."""
        return self._aliases.get(topic_id, set())

    def copied(self, topic_id: UUID, alias: str, partition: int) -> OffsetMap | None:
        """
        What a partition has of another cluster: the "upstream" offsets are those of the copy, at the source, and the
        "downstream" ones those of its original. None: nothing.
        """
        return self._direct.get((topic_id, alias, partition))

    async def _read(self, name: str, alias: str, is_first: bool) -> None:
        def read(record: ConsumerRecord) -> None:
            if record.key == BEGUN.key:
                return
            try:
                copied, ids = decode_range(record.key, record.value, record.headers)
            except DecodeError as e:
                self._log.warn("{topic} offset {offset}: {error}", topic=name, offset=record.offset, error=e)
                return
            self._aliases.setdefault(ids.target, set()).update({alias, *decode_origins(record.headers)})
            if not is_first:
                self.moving.add((ids.target, alias))
            number = copied.partition.partition
            back = CopiedRange(
                copied.partition, copied.downstream, copied.upstream, copied.count, copied.last_downstream + 1
            )
            self._direct.setdefault((ids.target, alias, number), OffsetMap()).add(back)

        start = self._read_to.get(name)
        self._read_to[name] = await read_partition(self.source, TopicPartition(name, 0), read, start)
