"""
Registers this broker in the metadata store, and creates the cluster's id and base nodes.

The registration is an ephemeral node; its czxid is the broker's epoch, which grows with every registration. A node that
another session owns is never deleted, only waited for: it may be of this broker's earlier process, about to expire, or
of another broker with the same id.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, ConfigError, ErrorCode
from logbus.metastore.cluster_znodes import ClusterIdZnode, FeatureLevelZnode
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import (
    ConnectionLost,
    Create,
    DatabaseFull,
    Delete,
    MetastoreError,
    NodeExists,
    NoNode,
    SessionLost,
    SessionState,
)
from logbus.metastore.znode_json import uuid_text
from logbus.metastore.znodes import CLUSTER_ID, FEATURES, PERSISTENT_PATHS, BrokerIdZnode, Registration

RETRY_SECONDS = 1.0
"""Before the next attempt when the store has no room for a registration."""

CLOCK_SECONDS = 60
"""
Between the clocks of a broker and of the metadata store, when they are said to differ: more than a registration takes.
"""


async def ensure_paths(store: IMetadataStore) -> None:
    """Create the persistent base nodes that are missing."""
    # All at once: they are served in order, parents first, and share a commit.
    failures: list[Failure] = []
    for made in [store.create(path) for path in PERSISTENT_PATHS]:
        made.addErrback(failures.append)
    await store.sync()
    for failure in failures:
        if not failure.check(NodeExists):
            failure.raiseException()


async def ensure_cluster_id(store: IMetadataStore, new_uuid: Callable[[], UUID]) -> str:
    """The cluster's id; the first broker creates it."""
    while True:
        try:
            data, _ = await store.get(CLUSTER_ID)
        except NoNode:
            pass
        else:
            return ClusterIdZnode.decode(data)
        try:
            await store.create(CLUSTER_ID, ClusterIdZnode.encode(uuid_text(new_uuid())))
        except NodeExists:
            pass  # Another broker was first; read its id.


async def ensure_cluster(store: IMetadataStore, new_uuid: Callable[[], UUID]) -> str:
    """Create the missing nodes, with retries when the connection breaks; return the cluster's id."""
    while True:
        try:
            await ensure_paths(store)
            return await ensure_cluster_id(store, new_uuid)
        except (ConnectionLost, SessionLost):
            await connected_again(store)


async def connected_again(store: IMetadataStore) -> None:
    """
    Returns once the store is connected.

    :raise SessionLost: it was closed.
    """
    while store.state is not SessionState.CONNECTED:
        if store.state is SessionState.CLOSED:
            raise SessionLost("the metadata store is closed")
        changed: Deferred[None] = Deferred()
        unsubscribe = store.subscribe(lambda _, changed=changed: changed.called or changed.callback(None))  # type: ignore[misc]
        try:
            await changed
        finally:
            unsubscribe()


@define(eq=False)
class Membership:
    """
    Registers this broker, and again whenever its session was replaced.

    :ivar registration: the node's content; the timestamp is set at each registration.
    :ivar session_timeout: of the store's sessions, in seconds; a node of another session is waited for twice as long.
    :ivar gave_up: called when registering again failed for good: the broker must stop.
    :ivar epoch: the broker's epoch; −1 while it is not registered.
    """

    store: IMetadataStore
    registration: Registration
    clock: IReactorTime
    wall_clock: Callable[[], float]
    session_timeout: float
    gave_up: Callable[[Failure], object]
    epoch: int = field(default=-1, init=False)
    _attempt: int = field(default=0, init=False)
    _first: Deferred[int] | None = field(default=None, init=False)
    _retry: IDelayedCall | None = field(default=None, init=False)
    _unsubscribe: Callable[[], None] = field(default=lambda: None, init=False)
    _log = Logger()

    @property
    def path(self) -> str:
        """The path of this broker's node."""
        return BrokerIdZnode.path(self.registration.broker_id)

    def register(self) -> Deferred[int]:
        """
        Register; fires with the broker's epoch, after as many attempts as the connection to the store and its disk
        take.

        :raise ApiError: DUPLICATE_BROKER_REGISTRATION when another live broker has this id.
        """
        first = self._first = Deferred()
        self._unsubscribe = self.store.subscribe(self._session_changed)
        self._try()
        return first

    @returns_deferred
    async def unregister(self) -> None:
        """Remove the registration, so that the others learn at once that this broker has stopped."""
        self._unsubscribe()
        self._supersede()
        registered, self.epoch = self.epoch >= 0, -1
        if registered:
            try:
                await self.store.delete(self.path)
            except (NoNode, ConnectionLost, SessionLost, DatabaseFull):
                pass  # Gone already, or goes with the session.

    @returns_deferred
    async def renew(self) -> None:
        """
        Register anew, as a younger broker: the controller forgets what was reported of this one, and tells it
        everything once more. Nothing is done while there is no registration: another one comes anyway.
        """
        epoch = self.epoch
        try:
            while 0 <= self.epoch == epoch:
                try:
                    await self.store.delete(self.path)
                except ConnectionLost:
                    await connected_again(self.store)
                    continue
                except DatabaseFull:
                    await deferLater(self.clock, RETRY_SECONDS)
                    continue
                except NoNode:
                    pass  # The answer was lost.
                if self.epoch == epoch:
                    self.epoch = -1
                    self._try()
        except SessionLost:
            pass

    def _session_changed(self, state: SessionState) -> None:
        if state in (SessionState.LOST, SessionState.CLOSED):
            self.epoch = -1
        elif state is SessionState.CONNECTED and self.epoch < 0:
            self._try()

    def _supersede(self) -> None:
        # The earlier attempt may still wait for a watch that went with its connection.
        self._attempt += 1
        if self._retry is not None and self._retry.active():
            self._retry.cancel()
        self._retry = None

    def _try(self) -> None:
        self._supersede()
        number = (self._attempt,)
        Deferred.fromCoroutine(self._register()).addCallbacks(self._succeeded, self._failed, number, {}, number)

    def _succeeded(self, epoch: int, attempt: int) -> None:
        if attempt != self._attempt or self.store.state is not SessionState.CONNECTED:
            return
        self.epoch = epoch
        self._log.info("broker {broker} registered, epoch {epoch}", broker=self.registration.broker_id, epoch=epoch)
        first, self._first = self._first, None
        if first is not None:
            first.callback(epoch)

    def _failed(self, failure: Failure, attempt: int) -> None:
        if attempt != self._attempt:
            return
        broken = failure.check(ConnectionLost, SessionLost) is not None
        if (broken and self.store.state is not SessionState.CLOSED) or self.store.state in (
            SessionState.SUSPENDED,
            SessionState.LOST,
        ):
            # The next CONNECTED tries again. While disconnected, a wait for another session's node cannot end.
            return
        if failure.check(DatabaseFull):
            self._log.warn(
                "broker {broker} cannot register yet: {error}",
                broker=self.registration.broker_id,
                error=failure.value,
            )
            self._retry = self.clock.callLater(RETRY_SECONDS, self._try)
            return
        self._unsubscribe()
        first, self._first = self._first, None
        if first is not None:
            first.errback(failure)
            return
        if not broken:
            # Else the store was closed meanwhile, of which its owner tells.
            self._log.failure("broker {broker} could not register again", failure, broker=self.registration.broker_id)
        self.gave_up(failure)

    async def _register(self) -> int:
        value = evolve(self.registration, timestamp=int(self.wall_clock() * 1000))
        deadline = self.clock.seconds() + 2 * self.session_timeout
        while True:
            await self._check_level()
            try:
                await self.store.create(self.path, BrokerIdZnode.encode(value), ephemeral=True)
            except NodeExists:
                pass  # Perhaps ours: the answer may have been lost after the node was created.
            gone: Deferred[None] = Deferred()
            try:
                data, stat = await self.store.get(self.path, lambda _, gone=gone: gone.callback(None))  # type: ignore[misc]
            except NoNode:
                continue
            if stat.ephemeral_owner == self.store.session_id:
                if stat.ctime:  # Stores in memory have no clock.
                    self._compare_clocks(BrokerIdZnode.decode(value.broker_id, data).timestamp - stat.ctime)
                return stat.czxid
            await self._wait(gone, deadline, BrokerIdZnode.decode(value.broker_id, data))

    def _compare_clocks(self, ahead_ms: int) -> None:
        """Warn of a clock that differs from the store's, which stands for those of the other brokers."""
        if abs(ahead_ms) >= CLOCK_SECONDS * 1000:
            self._log.warn(
                "this machine's clock is {seconds:.0f} s {side} that of the metadata store: timestamps of records, "
                "retention by time, tokens and certificates go by the clock of each broker; see which is wrong, and "
                "keep all by NTP",
                seconds=abs(ahead_ms) / 1000,
                side="ahead of" if ahead_ms > 0 else "behind",
            )

    async def _check_level(self) -> None:
        """
        Check this release's feature level against the cluster's; the controller ignores us if it rises meanwhile.

        :raise ConfigError: this release is too old.
        """
        try:
            data, _ = await self.store.get(FEATURES)
        except NoNode:
            return
        level = FeatureLevelZnode.decode(data)
        if self.registration.feature_level < level:
            raise ConfigError(
                f"the cluster is at feature level {level}; this release knows {self.registration.feature_level}: "
                "a cluster that all brokers were upgraded in cannot go back, so run a newer release here"
            )

    async def _wait(self, gone: Deferred[None], deadline: float, other: Registration) -> None:
        left = deadline - self.clock.seconds()
        if left <= 0:
            # A store without room cannot end the session of a broker that is gone.
            await self._find_room()
            raise ApiError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                f"broker.id {other.broker_id} is taken by a broker at "
                f"{', '.join(f'{one.host}:{one.port}' for one in other.endpoints.values()) or 'an unknown address'}; "
                "stop it, or give this broker another id",
            )
        self._log.warn(
            "broker.id {broker} is registered by another session; waiting up to {left:.0f} s for it to end",
            broker=other.broker_id,
            left=left,
        )
        # If it is still there after that, it is looked at once more.
        await gone.addTimeout(left, self.clock, lambda _, __: None)

    async def _find_room(self) -> None:
        """
        Write to the store, without leaving anything.

        :raise DatabaseFull: it has no room.
        """
        path = f"/room-for-{self.registration.broker_id}"
        try:
            await self.store.multi([Create(path, b""), Delete(path)])
        except (DatabaseFull, ConnectionLost, SessionLost):
            raise
        except MetastoreError:
            pass  # Whatever it is, it is not that.
