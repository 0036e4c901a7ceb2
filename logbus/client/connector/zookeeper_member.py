"""
A member of a group in ZooKeeper: registers, watches, and rebalances (Kafka 0.8: ZKRebalancerListener).

All members read the same registries and compute the same assignment. Each releases partitions that it should not have,
and claims its own as soon as their last owners have released them. Partitions that it keeps are read on meanwhile. The
owner of a partition is an ephemeral node, so no two members own it at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from logbus.client.connector.assignment import assign, share, wanted_topics
from logbus.client.connector.connector_options import ConnectorOptions
from logbus.client.connector.group_registry import GroupRegistry
from logbus.client.connector.owned_partitions import OwnedPartitions
from logbus.client.connector.rebalance import RebalanceFailed, RebalancePhase, RebalanceRounds, to_release
from logbus.client.connector.znodes import TopicCount, thread_id
from logbus.coroutines import gather
from logbus.errors import LogbusError
from logbus.metastore.operations import SessionState, WatchedEvent
from logbus.model import TopicPartition
from logbus.services import Task, Tasks

SHOWN = 5
"""The number of items to list in a log message."""


@define(eq=False)
class ZookeeperMember:
    """
    One consumer's membership, and the partitions that it has claimed.

    :ivar claimed: the partitions that it owns, or may own if a response was lost; by stream.
    """

    group_registry: GroupRegistry
    owned_partitions: OwnedPartitions
    subscription: TopicCount
    rounds: RebalanceRounds
    options: ConnectorOptions
    clock: Any
    claimed: dict[TopicPartition, int] = field(factory=dict, init=False)
    _tasks: Tasks = field(factory=Tasks, init=False)
    _leaving_tasks: Tasks = field(factory=Tasks, init=False)
    _rebalancing: Task | None = field(default=None, init=False)
    _pausing: Deferred[None] | None = field(default=None, init=False)
    _joining: Deferred[None] | None = field(default=None, init=False)
    _unsubscribe: Callable[[], None] | None = field(default=None, init=False)
    _registered_by: int | None = field(default=None, init=False)
    _logged: dict[TopicPartition, int] | None = field(default=None, init=False)
    _left: bool = field(default=False, init=False)
    _log = Logger()

    def join(self) -> Deferred[None]:
        """
        Join the group; fires when this member has its partitions.

        :raise RebalanceFailed: (in the Deferred) it did not get its partitions; it stays a member all the same.
        """
        store = self.group_registry.store
        joined = self._joining = Deferred()
        if store.state is SessionState.CLOSED:
            joined.errback(LogbusError("the connection to ZooKeeper is closed"))
            return joined
        self._unsubscribe = store.subscribe(self._state_changed)
        if self._connected:
            self._state_changed(store.state)
        return joined

    async def leave(self) -> None:
        """Release all partitions, and leave the group."""
        self._left = True
        joining, self._joining = self._joining, None
        if joining is not None and not joining.called:
            joining.errback(LogbusError("the connector was shut down before it had its share"))
        await self._tasks.stop()
        await self.owned_partitions.release_gracefully(dict(self.claimed))
        if self._unsubscribe is not None:
            # Only now: a session lost before this takes its partitions with it, which must not be committed then.
            self._unsubscribe()
        claimed, self.claimed = list(self.claimed), {}
        if self._unsubscribe is not None and self.group_registry.store.state is not SessionState.CLOSED:
            try:
                await self._unregister(claimed)
            except LogbusError as e:
                self._unregister_later(claimed, e)

    async def _unregister(self, claimed: Iterable[TopicPartition]) -> None:
        await gather(self.group_registry.release(each) for each in claimed)
        await self.group_registry.unregister()

    def _unregister_later(self, claimed: Iterable[TopicPartition], why: object) -> None:
        """Leave when ZooKeeper is back: the session may outlive this member, and keep its nodes."""
        self._log.warn(
            "consumer {name} leaves while ZooKeeper is unreachable; the others notice when it is back, or when the "
            "session expires: {why}",
            name=self.group_registry.consumer_id,
            why=why,
        )

        def changed(state: SessionState) -> None:
            if state is not SessionState.SUSPENDED:
                unsubscribe()
            if state is SessionState.CONNECTED:
                self._leaving_tasks.start(self._unregister(claimed), "leaving a group")

        unsubscribe = self.group_registry.store.subscribe(changed)

    # Changes of the session and of watched nodes.

    @property
    def _connected(self) -> bool:
        return bool(self.group_registry.store.state is SessionState.CONNECTED)

    def _state_changed(self, state: SessionState) -> None:
        name = self.group_registry.consumer_id
        if state is SessionState.CONNECTED:
            self.rounds.connected()
            self._start_round()
            return
        self.rounds.away()
        rebalancing, self._rebalancing = self._rebalancing, None
        if rebalancing is not None:
            rebalancing.cancel()
        if state is SessionState.SUSPENDED:
            self._log.warn(
                "ZooKeeper is unreachable: consumer {name} reads on, but cannot commit until it is back", name=name
            )
        else:
            self._log.warn(
                "the session of consumer {name} has expired: it has lost its {count} partitions",
                name=name,
                count=len(self.claimed),
            )
            self.claimed.clear()
            self.owned_partitions.drop()

    def _node_changed(self, event: WatchedEvent) -> None:
        """A watched node has changed."""
        if not self._left:
            self.rounds.changed()
            self._start_round()

    def _start_round(self) -> None:
        """Start a round, now or after the current one."""
        if not self.rounds.is_in(RebalancePhase.DUE):
            return
        if self._pausing is not None:
            pausing, self._pausing = self._pausing, None
            pausing.callback(None)
        elif self._rebalancing is None or self._rebalancing.done:
            self._rebalancing = self._tasks.start(self._until_settled(), "rebalancing")
            if self.rounds.is_in(RebalancePhase.AWAY):
                self._rebalancing.cancel()

    # Rebalance rounds.

    async def _until_settled(self) -> None:
        while self.rounds.is_in(RebalancePhase.DUE) and not self._left:
            self.rounds.begin()
            missing = await self._rebalance_with_reasons()
            if self.rounds.ended(bool(missing)):
                self._failed(missing)
            if self.rounds.is_in(RebalancePhase.SETTLED):
                self._settled()
            elif self.rounds.is_in(RebalancePhase.WAITING):
                await self._pause()
                self.rounds.time_is_up()

    async def _rebalance_with_reasons(self) -> list[str]:
        try:
            return await self._round()
        except CancelledError:
            raise
        except LogbusError as e:
            return [str(e)]
        except Exception as e:
            # A bug; keep trying to get the partitions.
            self._log.failure("rebalancing failed")
            return [repr(e)]

    async def _round(self) -> list[str]:
        """Compute the assignment, release and claim partitions; returns reasons for those still missing."""
        consumer_id = self.group_registry.consumer_id
        members = await self._members()
        wanted = share(assign(await self._topics(), members), consumer_id)
        released = to_release(self.claimed, wanted)
        if released:
            await self.owned_partitions.release_gracefully(released)
            await gather(self.group_registry.release(each) for each in released)
            self.owned_partitions.drop(released)
            for each in released:
                del self.claimed[each]
        # Noted before the request, since its response may be lost.
        self.claimed.update(wanted)
        owners = await gather(
            self.group_registry.claim(each, thread_id(consumer_id, stream), self._node_changed)
            for each, stream in wanted.items()
        )
        others = {each: owner for each, owner in zip(wanted, owners, strict=True) if owner is not None}
        self._drop_others(others)
        ours = {each: stream for each, stream in wanted.items() if each not in others}
        failed = await self.owned_partitions.begin(ours)
        return [
            *(f"{each} is still owned by {owner}" for each, owner in others.items()),
            *(f"the start offset of {each} is not known: {error}" for each, error in failed.items()),
        ]

    async def _members(self) -> Mapping[str, TopicCount]:
        session = self.group_registry.store.session_id
        members = await self.group_registry.members(self._node_changed)
        if self.group_registry.consumer_id not in members or session != self._registered_by:
            await self.group_registry.register(self.subscription)
            members = await self.group_registry.members(self._node_changed)
            self._registered_by = session
        return members

    async def _topics(self) -> dict[str, tuple[int, ...]]:
        await self.group_registry.brokers(self._node_changed)
        there = [] if self.subscription.filter is None else await self.group_registry.topics(self._node_changed)
        names = wanted_topics(self.subscription, there, internal=not self.options.exclude_internal_topics)
        found = await gather(self.group_registry.partitions(name, self._node_changed) for name in names)
        return dict(zip(names, found, strict=True))

    def _drop_others(self, others: Mapping[TopicPartition, str]) -> None:
        stolen = [each for each in others if each in self.owned_partitions.positions]
        if stolen:
            self._log.error(
                "{partitions}: owned by another consumer now, although this one had not released them",
                partitions=_some(map(str, stolen)),
            )
        self.owned_partitions.drop(others)
        for each in others:
            del self.claimed[each]

    async def _pause(self) -> None:
        pausing = self._pausing = Deferred()
        timer = self.clock.callLater(self.options.rebalance_backoff, self._wake)
        try:
            await pausing
        finally:
            self._pausing = None
            if timer.active():
                timer.cancel()

    def _wake(self) -> None:
        pausing, self._pausing = self._pausing, None
        if pausing is not None:
            pausing.callback(None)

    def _settled(self) -> None:
        if self.claimed != self._logged:
            self._logged = dict(self.claimed)
            self._log.info(
                "consumer {name} reads {count} partitions: {partitions}",
                name=self.group_registry.consumer_id,
                count=len(self.claimed),
                partitions=_some(map(str, sorted(self.claimed))) or "-",
            )
        joining, self._joining = self._joining, None
        if joining is not None:
            joining.callback(None)

    def _failed(self, missing: Iterable[str]) -> None:
        error = RebalanceFailed(
            f"consumer {self.group_registry.consumer_id} does not get its share after {self.rounds.failures} attempts, "
            f"{self.options.rebalance_backoff:g} s apart: {_some(missing)}"
        )
        self._log.error("{error}", error=error)
        joining, self._joining = self._joining, None
        if joining is not None:
            joining.errback(error)


def _some(words: Iterable[str]) -> str:
    found = list(words)
    more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more
