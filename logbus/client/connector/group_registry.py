"""
The registries of a group in ZooKeeper: who is a member, who owns what, and which topics there are to read.

What is read leaves a watch, so that nothing changes unnoticed afterwards. Requests whose connection broke may have been
served or not; each of ours can therefore be made again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from logbus.client.connector.gather import gather
from logbus.client.connector.znodes import (
    GroupPaths,
    TopicCount,
    TopicCountZnode,
    partitions_of,
)
from logbus.errors import ConfigError
from logbus.metastore.imetastore import BadVersion, Create, Delete, MultiFailed, NodeExists, NoNode, Stat, Watcher
from logbus.metastore.znode_json import BadZnode
from logbus.metastore.znodes import BROKER_IDS, TOPICS, TopicZnode
from logbus.model import TopicPartition

_ATTEMPTS = 5
"""How often somebody else may come in between."""


async def create_deep(store: Any, path: str, data: bytes, *, ephemeral: bool = False) -> None:
    """
    Make a node, and its parents if they are missing.

    :raise NodeExists: it is there already.
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
            pass  # Somebody was quicker.
    raise NoNode(path, "somebody removes its parent again and again")


@define(eq=False)
class GroupRegistry:
    """
    One consumer's view.

    :ivar store: an :class:`~logbus.metastore.imetastore.IMetadataStore`.
    :ivar wall_clock: seconds since 1970.
    """

    store: Any
    paths: GroupPaths
    consumer_id: str
    wall_clock: Callable[[], float]
    _strange: set[str] = field(factory=set, init=False)
    _log = Logger()

    async def register(self, subscription: TopicCount) -> None:
        """Say that we are here, and what we read; for as long as this session lasts."""
        path = self.paths.id(self.consumer_id)
        data = TopicCountZnode.encode(subscription, int(self.wall_clock() * 1000))
        for _ in range(_ATTEMPTS):
            try:
                await create_deep(self.store, path, data, ephemeral=True)
                return
            except NodeExists:
                found = await self._get(path)
            if found is not None and found[1].ephemeral_owner == self.store.session_id:
                return  # Made by a request whose answer got lost.
            if found is not None:
                # Of a session of ours before: it would go away under us when that one expires.
                await self._replace(path, found[1], data)

    async def unregister(self) -> None:
        """We are gone."""
        await self._delete(self.paths.id(self.consumer_id))

    async def members(self, watch: Watcher) -> dict[str, TopicCount]:
        """What each consumer of the group reads; one that cannot be understood is left out, and the log says so."""
        names = await self._children(self.paths.ids, watch)
        found = await gather(self._get(self.paths.id(name), watch) for name in names)
        members = {}
        for name, node in zip(names, found, strict=True):
            if node is not None:
                try:
                    members[name] = TopicCountZnode.decode(self.paths.id(name), node[0])
                    self._strange.discard(name)
                except (BadZnode, ConfigError) as e:
                    if name not in self._strange:
                        self._log.warn(
                            "group {group}: what consumer {name} reads is not understood: {error}",
                            group=self.paths.group_id,
                            name=name,
                            error=e,
                        )
                    self._strange.add(name)
        self._strange.intersection_update(names)
        return members

    async def topics(self, watch: Watcher) -> list[str]:
        """The topics there are."""
        return await self._children(TOPICS, watch)

    async def brokers(self, watch: Watcher) -> list[str]:
        """The brokers there are."""
        return await self._children(BROKER_IDS, watch)

    async def partitions(self, topic: str, watch: Watcher) -> tuple[int, ...]:
        """
        The partitions of a topic; nothing while it is not there.

        :raise BadZnode: its node cannot be read.
        """
        found = await self._get(TopicZnode.path(topic), watch)
        return () if found is None else partitions_of(topic, found[0])

    async def claim(self, partition: TopicPartition, thread: str, watch: Watcher) -> str | None:
        """
        Own a partition, if nobody else does.

        :param watch: hears when its owner changes.
        :return: who owns it instead; None: we do.
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
                continue  # Look at it: this leaves the watch, too.
            if found == data and stat.ephemeral_owner == self.store.session_id:
                return None
            owner = str(found.decode("utf-8", "replace"))
            if not self._is_ours(owner):
                return owner
            await self._replace(path, stat, data)
        return owner

    async def release(self, partition: TopicPartition) -> None:
        """Own a partition no more, if we do."""
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
        """A node, or None; the watch is left either way."""
        for _ in range(_ATTEMPTS):
            try:
                found: tuple[bytes, Stat] = await self.store.get(path, watch)
                return found
            except NoNode:
                if watch is None or await self.store.exists(path, watch) is None:
                    return None
        return None

    async def _children(self, path: str, watch: Watcher) -> list[str]:
        """A node's children, none if it is not there; the watch is left either way."""
        for _ in range(_ATTEMPTS):
            try:
                found: list[str] = await self.store.children(path, watch)
                return found
            except NoNode:
                if await self.store.exists(path, watch) is None:
                    return []
        return []
