"""
A group's registries in ZooKeeper: members, owners, and the topics to read.

Reads leave a watch, so that no later change is missed. A request whose connection broke may or may not have been
served; so all requests here can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from logbus.client.connector.znodes import (
    GroupPaths,
    TopicCount,
    TopicCountZnode,
    partitions_of,
)
from logbus.coroutines import gather
from logbus.errors import ConfigError
from logbus.metastore.operations import BadVersion, Create, Delete, MultiFailed, NodeExists, NoNode, Stat, Watcher
from logbus.metastore.znode_json import BadZnode
from logbus.metastore.znodes import BROKER_IDS, TOPICS, TopicZnode
from logbus.model import TopicPartition

_ATTEMPTS = 5
"""How often to retry after a concurrent change."""


async def create_deep(store: Any, path: str, data: bytes, *, ephemeral: bool = False) -> None:
    """
    Create a node, and missing parents.

    :raise NodeExists: the node exists.
    """
    for _ in range(_ATTEMPTS):
        try:
            await store.create(path, data, ephemeral=ephemeral)
            return
        except NoNode:
            parent = path.rpartition("/")[0]
            if not parent:
                raise
        try:
            await create_deep(store, parent, b"")
        except NodeExists:
            pass  # Created concurrently.
    raise NoNode(path, "somebody removes its parent again and again")


@define(eq=False)
class GroupRegistry:
    """
    One consumer's requests.

    :ivar store: an :class:`~logbus.metastore.imetastore.IMetadataStore`.
    :ivar wall_clock: seconds since 1970.
    """

    store: Any
    paths: GroupPaths
    consumer_id: str
    wall_clock: Callable[[], float]
    _unreadable: set[str] = field(factory=set, init=False)
    _log = Logger()

    async def register(self, subscription: TopicCount) -> None:
        """Register this consumer and its subscription, for as long as the session lasts."""
        path = self.paths.id(self.consumer_id)
        data = TopicCountZnode.encode(subscription, int(self.wall_clock() * 1000))
        for _ in range(_ATTEMPTS):
            try:
                await create_deep(self.store, path, data, ephemeral=True)
                return
            except NodeExists:
                found = await self._get(path)
            if found is not None and found[1].ephemeral_owner == self.store.session_id:
                return  # Created by a request whose response was lost.
            if found is not None:
                # Of an earlier session of this consumer: it would vanish when that session expires.
                await self._replace(path, found[1], data)

    async def unregister(self) -> None:
        """Remove this consumer's registration."""
        await self._delete(self.paths.id(self.consumer_id))

    async def members(self, watch: Watcher) -> dict[str, TopicCount]:
        """The subscriptions of the group's consumers, by id; those that cannot be read are left out and logged."""
        names = await self._children(self.paths.ids, watch)
        found = await gather(self._get(self.paths.id(name), watch) for name in names)
        members = {}
        for name, node in zip(names, found, strict=True):
            if node is not None:
                try:
                    members[name] = TopicCountZnode.decode(self.paths.id(name), node[0])
                    self._unreadable.discard(name)
                except (BadZnode, ConfigError) as e:
                    if name not in self._unreadable:
                        self._log.warn(
                            "group {group}: the subscription of consumer {name} cannot be read: {error}",
                            group=self.paths.group_id,
                            name=name,
                            error=e,
                        )
                    self._unreadable.add(name)
        self._unreadable.intersection_update(names)
        return members

    async def topics(self, watch: Watcher) -> list[str]:
        """All topics."""
        return await self._children(TOPICS, watch)

    async def brokers(self, watch: Watcher) -> list[str]:
        """All brokers."""
        return await self._children(BROKER_IDS, watch)

    async def partitions(self, topic: str, watch: Watcher) -> tuple[int, ...]:
        """
        The partitions of a topic; empty if it does not exist.

        :raise BadZnode: its node cannot be read.
        """
        found = await self._get(TopicZnode.path(topic), watch)
        return () if found is None else partitions_of(topic, found[0])

    async def claim(self, partition: TopicPartition, thread: str, watch: Watcher) -> str | None:
        """
        Become the owner of a partition that has none.

        :param watch: called when its owner changes.
        :return: the current owner; None: this consumer.
        """
        path = self.paths.owner(partition)
        data = thread.encode()
        owner: str = "somebody"
        for _ in range(_ATTEMPTS):
            try:
                found, stat = await self.store.get(path, watch)
            except NoNode:
                try:
                    await create_deep(self.store, path, data, ephemeral=True)
                except NodeExists:
                    pass
                continue  # Read it, which also sets the watch.
            if found == data and stat.ephemeral_owner == self.store.session_id:
                return None
            owner = str(found.decode("utf-8", "replace"))
            if not self._is_ours(owner):
                return owner
            await self._replace(path, stat, data)
        return owner

    async def release(self, partition: TopicPartition) -> None:
        """Remove this consumer as the owner of a partition."""
        path = self.paths.owner(partition)
        found = await self._get(path)
        if found is not None and self._is_ours(found[0].decode("utf-8", "replace")):
            await self._delete(path)

    def _is_ours(self, thread: str) -> bool:
        return thread.rpartition("-")[0] == self.consumer_id

    async def _replace(self, path: str, stat: Stat, data: bytes) -> None:
        try:
            await self.store.multi([Delete(path, stat.version), Create(path, data, ephemeral=True)])
        except MultiFailed as failed:
            if not isinstance(failed.error, NoNode | BadVersion):
                raise

    async def _delete(self, path: str) -> None:
        try:
            await self.store.delete(path)
        except NoNode:
            pass

    async def _get(self, path: str, watch: Watcher | None = None) -> tuple[bytes, Stat] | None:
        """A node, or None; sets the watch in both cases."""
        for _ in range(_ATTEMPTS):
            try:
                found: tuple[bytes, Stat] = await self.store.get(path, watch)
                return found
            except NoNode:
                if watch is None or await self.store.exists(path, watch) is None:
                    return None
        return None

    async def _children(self, path: str, watch: Watcher) -> list[str]:
        """A node's children, or none if it does not exist; sets the watch in both cases."""
        for _ in range(_ATTEMPTS):
            try:
                found: list[str] = await self.store.children(path, watch)
                return found
            except NoNode:
                if await self.store.exists(path, watch) is None:
                    return []
        return []
