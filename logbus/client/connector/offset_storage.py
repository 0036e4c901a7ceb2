"""Stores a group's offsets in ZooKeeper, as Kafka 0.8 did, or in Kafka (``offsets.storage``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from attrs import define

from logbus.client.admin.admin_client import AdminClient
from logbus.client.connector.group_registry import create_deep
from logbus.client.connector.znodes import GroupPaths, OffsetZnode
from logbus.client.group_metadata import CommittedOffset
from logbus.coroutines import gather
from logbus.errors import ApiError, LogbusError
from logbus.metastore.operations import NodeError, NodeExists, NoNode
from logbus.model import TopicPartition


class OffsetStorage(Protocol):
    """Stores the next offset to read of each partition."""

    async def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """
        The offsets; None: no offset.

        :raise LogbusError: they cannot be read.
        """

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, LogbusError]:
        """
        Store these.

        :return: errors of partitions that could not be stored.
        :raise LogbusError: the outcome is unknown.
        """


@define(eq=False)
class ZookeeperOffsetStorage:
    """Offsets in ZooKeeper: ``/consumers/G/offsets/T/P``."""

    store: Any
    paths: GroupPaths

    async def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The offsets."""
        wanted = list(partitions)
        return dict(zip(wanted, await gather(self._read(each) for each in wanted), strict=True))

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, LogbusError]:
        """Store these."""
        errors = await gather(self._write(self.paths.offset(each), offset) for each, offset in offsets.items())
        return {each: error for each, error in zip(offsets, errors, strict=True) if error is not None}

    async def _read(self, partition: TopicPartition) -> int | None:
        path = self.paths.offset(partition)
        try:
            data, _ = await self.store.get(path)
        except NoNode:
            return None
        return OffsetZnode.decode(path, data)

    async def _write(self, path: str, offset: int) -> LogbusError | None:
        data = OffsetZnode.encode(offset)
        try:
            try:
                await self.store.set(path, data)
            except NoNode:
                try:
                    await create_deep(self.store, path, data)
                except NodeExists:
                    await self.store.set(path, data)
        except NodeError as e:
            return e
        return None


@define(eq=False)
class KafkaOffsetStorage:
    """Offsets committed to the brokers; other Kafka clients and ``logbus groups`` see them, too."""

    admin: AdminClient
    group_id: str

    async def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The offsets."""
        committed = (await self.admin.list_group_offsets([self.group_id]))[self.group_id]
        if isinstance(committed, ApiError):
            raise committed
        found: dict[TopicPartition, int | None] = {}
        for partition in partitions:
            answer = committed.get(partition)
            if isinstance(answer, ApiError):
                raise answer
            found[partition] = None if answer is None else answer.offset
        return found

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, LogbusError]:
        """Store these."""
        wanted = {partition: CommittedOffset(offset) for partition, offset in offsets.items()}
        answers = await self.admin.alter_group_offsets(self.group_id, wanted)
        return {partition: error for partition, error in answers.items() if error is not None}
