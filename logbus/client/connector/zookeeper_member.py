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
from logbus.client.connector.gather import gather
from logbus.client.connector.group_registry import GroupRegistry
from logbus.client.connector.owned_partitions import OwnedPartitions
from logbus.client.connector.rebalance import RebalanceFailed, RebalancePhase, RebalanceRounds, plan
from logbus.client.connector.znodes import TopicCount, thread_id
from logbus.errors import LogbusError
from logbus.metastore.imetastore import SessionState, WatchedEvent
from logbus.model import TopicPartition
from logbus.services import Task, Tasks

SHOWN = 5
"""The number of items to list in a log message."""


@define(eq=False)
class ZookeeperMember:
    """
    One consumer's membership, and the partitions that it has claimed.

    :ivar claimed: the partitions that it owns, or may own if a response was lost; by stream.
    :ivar backoff: seconds between rebalance attempts.
    :ivar internal: whether filters include internal topics.
    """

    registry: GroupRegistry
    holding: OwnedPartitions
    subscription: TopicCount
    rounds: RebalanceRounds
    backoff: float
    internal: bool
    clock: Any
    claimed: dict[TopicPartition, int] = field(factory=dict, init=False)
    _tasks: Tasks = field(factory=Tasks, init=False)
    _goodbye: Tasks = field(factory=Tasks, init=False)
    _looking: Task | None = field(default=None, init=False)
    _nap: Deferred[None] | None = field(default=None, init=False)
    _joining: Deferred[None] | None = field(default=None, init=False)
    _unsubscribe: Callable[[], None] | None = field(default=None, init=False)
    _registered_by: int | None = field(default=None, init=False)
    _told: dict[TopicPartition, int] | None = field(default=None, init=False)
    _left: bool = field(default=False, init=False)
    _log = Logger()

    def join(self) -> Deferred[None]:
        """
        Join the group; fires when this member has its partitions.

        :raise RebalanceFailed: (in the Deferred) it did not get its partitions; it stays a member all the same.
        """
        store = self.registry.store
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
        await self.holding.let_go(dict(self.claimed))
        if self._unsubscribe is not None:
            # Only now: a session lost before this takes its partitions with it, which must not be committed then.
            self._unsubscribe()
        claimed, self.claimed = list(self.claimed), {}
        if self._unsubscribe is not None and self.registry.store.state is not SessionState.CLOSED:
            try:
                await self._unregister(claimed)
            except LogbusError as e:
                self._say_later(claimed, e)

    async def _unregister(self, claimed: Iterable[TopicPartition]) -> None:
        await gather(self.registry.release(each) for each in claimed)
        await self.registry.unregister()

    def _say_later(self, claimed: Iterable[TopicPartition], why: object) -> None:
        """Leave when ZooKeeper is back: the session may outlive this member, and keep its nodes."""
        self._log.warn(
            "consumer {name} leaves while ZooKeeper is unreachable; the others notice when it is back, or when the "
            "session expires: {why}",
            name=self.registry.consumer_id,
            why=why,
        )

        def changed(state: SessionState) -> None:
            if state is not SessionState.SUSPENDED:
                unsubscribe()
            if state is SessionState.CONNECTED:
                self._goodbye.start(self._unregister(claimed), "leaving a group")

        unsubscribe = self.registry.store.subscribe(changed)

    # Changes of the session and of watched nodes.

    @property
    def _connected(self) -> bool:
        return bool(self.registry.store.state is SessionState.CONNECTED)

    def _state_changed(self, state: SessionState) -> None:
        name = self.registry.consumer_id
        if state is SessionState.CONNECTED:
            self.rounds.connected()
            self._look()
            return
        self.rounds.away()
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
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
            self.holding.drop()

    def _heard(self, event: WatchedEvent) -> None:
        """A watched node has changed."""
        if not self._left:
            self.rounds.changed()
            self._look()

    def _look(self) -> None:
        """Start a round, now or after the current one."""
        if not self.rounds.is_in(RebalancePhase.DUE):
            return
        if self._nap is not None:
            nap, self._nap = self._nap, None
            nap.callback(None)
        elif self._looking is None or self._looking.done:
            self._looking = self._tasks.start(self._until_settled(), "rebalancing")
            if self.rounds.is_in(RebalancePhase.AWAY):
                self._looking.cancel()

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
        consumer_id = self.registry.consumer_id
        members = await self._members()
        wanted = plan(self.claimed, share(assign(await self._topics(), members), consumer_id))
        if wanted.release:
            await self.holding.let_go(wanted.release)
            await gather(self.registry.release(each) for each in wanted.release)
            self.holding.drop(wanted.release)
            for each in wanted.release:
                del self.claimed[each]
        # Noted before the request, since its response may be lost.
        self.claimed.update(wanted.take)
        owners = await gather(
            self.registry.claim(each, thread_id(consumer_id, stream), self._heard)
            for each, stream in wanted.take.items()
        )
        others = {each: owner for each, owner in zip(wanted.take, owners, strict=True) if owner is not None}
        self._not_ours(others)
        ours = {each: stream for each, stream in wanted.take.items() if each not in others}
        failed = await self.holding.begin(ours)
        return [
            *(f"{each} is still owned by {owner}" for each, owner in others.items()),
            *(f"the start offset of {each} is not known: {error}" for each, error in failed.items()),
        ]

    async def _members(self) -> Mapping[str, TopicCount]:
        session = self.registry.store.session_id
        members = await self.registry.members(self._heard)
        if self.registry.consumer_id not in members or session != self._registered_by:
            await self.registry.register(self.subscription)
            members = await self.registry.members(self._heard)
            self._registered_by = session
        return members

    async def _topics(self) -> dict[str, tuple[int, ...]]:
        await self.registry.brokers(self._heard)
        there = [] if self.subscription.filter is None else await self.registry.topics(self._heard)
        names = wanted_topics(self.subscription, there, internal=self.internal)
        found = await gather(self.registry.partitions(name, self._heard) for name in names)
        return dict(zip(names, found, strict=True))

    def _not_ours(self, others: Mapping[TopicPartition, str]) -> None:
        stolen = [each for each in others if each in self.holding.positions]
        if stolen:
            self._log.error(
                "{partitions}: owned by another consumer now, although this one had not released them",
                partitions=_some(map(str, stolen)),
            )
        self.holding.drop(others)
        for each in others:
            del self.claimed[each]

    async def _pause(self) -> None:
        nap = self._nap = Deferred()
        timer = self.clock.callLater(self.backoff, self._wake)
        try:
            await nap
        finally:
            self._nap = None
            if timer.active():
                timer.cancel()

    def _wake(self) -> None:
        nap, self._nap = self._nap, None
        if nap is not None:
            nap.callback(None)

    def _settled(self) -> None:
        if self.claimed != self._told:
            self._told = dict(self.claimed)
            self._log.info(
                "consumer {name} reads {count} partitions: {partitions}",
                name=self.registry.consumer_id,
                count=len(self.claimed),
                partitions=_some(map(str, sorted(self.claimed))) or "-",
            )
        joining, self._joining = self._joining, None
        if joining is not None:
            joining.callback(None)

    def _failed(self, missing: Iterable[str]) -> None:
        error = RebalanceFailed(
            f"consumer {self.registry.consumer_id} does not get its share after {self.rounds.failures} attempts, "
            f"{self.backoff:g} s apart: {_some(missing)}"
        )
        self._log.error("{error}", error=error)
        joining, self._joining = self._joining, None
        if joining is not None:
            joining.errback(error)


def _some(words: Iterable[str]) -> str:
    found = list(words)
    more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more
