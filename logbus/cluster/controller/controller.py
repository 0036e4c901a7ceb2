"""
The controller (Kafka: KafkaController): every broker runs one, and one of them is elected and processes events.

Watches, requests and changes of the session only put events on a queue (Kafka: ControllerEventManager), so all
decisions and writes happen in one order. An error that leaves the content of the store uncertain (a lost connection, a
transaction that was refused) makes the controller resign: the next election loads everything again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.cluster_metadata import BrokerImage, ClusterMetadata
from logbus.cluster.controller.active_controller import ActiveController
from logbus.cluster.controller.broker_changes import take_offline
from logbus.cluster.controller.broker_channels import BrokerChannels, PendingUpdates
from logbus.cluster.controller.controller_election import ControllerElection, ControllerEpochAndToken
from logbus.cluster.controller.controller_metrics import ControllerMetrics
from logbus.cluster.controller.fence import ControllerMoved, Fence
from logbus.cluster.controller.partition_changes import reapply_topic_rules, start_znode_reassignments
from logbus.cluster.controller.security_changes import take_announced_changes
from logbus.cluster.controller.topic_changes import finish_deletion, send_deletion
from logbus.cluster.controller.topic_rules import RulesFor
from logbus.cluster.icluster import ReceiverFor
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import (
    Check,
    ConnectionLost,
    Delete,
    MetastoreError,
    SessionLost,
    SessionState,
    StoreUnusable,
    WatchedEvent,
)
from logbus.metastore.znodes import CONTROLLER, CONTROLLER_EPOCH
from logbus.metrics import Registry
from logbus.model import TopicPartition
from logbus.net.time_slices import SliceScheduler

T = TypeVar("T")

RETRY_SECONDS = 1.0


@define(eq=False, repr=False)
class Controller:
    """
    One per broker; at most one of a cluster is active.

    Start it after the broker has registered: a controller whose own broker is not alive would elect no leader for that
    broker's partitions.

    :ivar receiver_for: how to reach a broker of that image (itself included).
    :ivar rules_for: the rules of a topic, from its overrides and the defaults.
    :ivar scheduler: gives time slices to work on many partitions; None: all of it runs at once.
    :ivar active: None while another broker is the controller, or none is known.
    :ivar metrics: metrics of its work.
    """

    store: IMetadataStore
    broker_id: int
    incarnation: UUID
    metadata: ClusterMetadata
    receiver_for: ReceiverFor
    rules_for: RulesFor
    clock: IReactorTime
    wall_clock: Callable[[], float]
    scheduler: SliceScheduler | None = None
    active: ActiveController | None = field(default=None, init=False)
    metrics: ControllerMetrics = field(factory=ControllerMetrics, init=False)
    _queue: deque[tuple[float, Callable[[], Awaitable[None]]]] = field(factory=deque, init=False)
    _serving: bool = field(default=False, init=False)
    _connections: int = field(default=0, init=False)
    _running: bool = field(default=False, init=False)
    _retry: IDelayedCall | None = field(default=None, init=False)
    _unsubscribe: Callable[[], None] = field(default=lambda: None, init=False)
    _log = Logger()

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of this broker as the controller."""
        registry.add_fields(self.metrics)
        registry.gauge(
            "logbus_controller_queue",
            "Queued events of this broker as the controller.",
            read=lambda: self.queued,
        )

    def start(self) -> Deferred[None]:
        """
        Take part in the election. Fires once the controller is known; if it is this broker, the state has been loaded,
        the elections are written, and updates are sent (:class:`ClusterMetadata` shows when they were applied).

        :raise MetastoreError: what is stored cannot be read.
        """
        self._running = True
        self._unsubscribe = self.store.subscribe(self._session_changed)
        known: Deferred[None] = Deferred()

        async def first() -> None:
            failure = await self._contend()
            if failure is None or failure.check(ConnectionLost, SessionLost) is not None:
                known.callback(None)
            else:
                known.errback(failure)

        self._put(first)
        return known

    def stop(self) -> Deferred[None]:
        """Resign, so that another broker can be elected at once; events still on the queue are refused."""
        stopped: Deferred[None] = Deferred()

        async def last() -> None:
            self._running = False
            self._unsubscribe()
            if self._retry is not None:
                self._retry.cancel()
                self._retry = None
            active = self._resign_controller()
            if active is not None:
                try:
                    await self.store.multi([Check(CONTROLLER_EPOCH, active.fence.token), Delete(CONTROLLER)])
                except MetastoreError:
                    pass  # It is not ours any more, or goes with the session.
            stopped.callback(None)

        self._put(last)
        return stopped

    def submit(self, run: Callable[[ActiveController], Awaitable[T]]) -> Deferred[T]:
        """
        Run a function as the controller, in its turn on the queue.

        :param run: the Deferred fires with its result (not a Deferred).
        :raise ApiError: NOT_CONTROLLER when another broker is the controller, or took over meanwhile; then the change
            may or may not have been made.
        """
        answer: Deferred[T] = Deferred()

        async def event() -> None:
            active = self.active
            if active is None:
                answer.errback(ApiError(ErrorCode.NOT_CONTROLLER))
                return
            try:
                result = await run(active)
            except ApiError:
                answer.errback()
            except Exception:
                failure = Failure()
                self._give_up(failure)
                answer.errback(_for_client(failure))
            else:
                answer.callback(result)

        self._put(event)
        return answer

    @returns_deferred
    async def end_deletion(self, names: Sequence[str], begun: PendingUpdates) -> None:
        """Remove the nodes of topics once the brokers have deleted their logs; fires when they are gone."""
        await begun.wait()
        await self.submit(lambda active: finish_deletion(active, names))

    def report_failed(self, broker: BrokerImage, names: frozenset[TopicPartition]) -> None:
        """Replicas of a broker went offline with their log directory: move what they led."""

        async def note(active: ActiveController) -> None:
            await take_offline(active, broker, names)

        self._put(lambda: self._as_controller(note))

    def settings_changed(self) -> None:
        """The defaults of topics changed: decide again where that matters."""
        self._put(lambda: self._as_controller(reapply_topic_rules))

    # Events.

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            # Watches were lost, and with them all that happened meanwhile.
            self._connections += 1
            self._put(self._elect_later)
        elif self.active is not None:
            self._log.info("controller work stops: the metadata session is {state}", state=state.value)
            self._resign_controller()

    def _controller_znode_changed(self, _: WatchedEvent) -> None:
        self._put(self._elect_later)

    def _broker_ids_changed(self, _: WatchedEvent) -> None:
        self._put(lambda: self._as_controller(ActiveController.refresh_brokers))

    def _reassignments_znode_changed(self, _: WatchedEvent) -> None:
        self._put(self._take_orders)

    async def _take_orders(self) -> None:
        await self._as_controller(lambda active: start_znode_reassignments(active, self._reassignments_znode_changed))

    def _change_announced(self, _: WatchedEvent) -> None:
        self._put(self._take_announced_changes)

    async def _take_announced_changes(self) -> None:
        await self._as_controller(lambda active: take_announced_changes(active, self._change_announced))

    async def _elect_later(self) -> None:
        if self._running and self.store.state is SessionState.CONNECTED:
            await self._contend()

    async def _contend(self) -> Failure | None:
        """Take part in the election, and become the active controller if we won; failures are retried, and returned."""
        try:
            outcome = await ControllerElection(self.store, self.broker_id, self.incarnation, self.wall_clock).contend(
                self._controller_znode_changed
            )
            if not isinstance(outcome, ControllerEpochAndToken):
                self._resign_controller()
                self._show_controller(outcome.broker_id)
            elif self.active is None or self.active.epoch != outcome.epoch:
                await self._become_active(outcome)
        except Exception:
            failure = Failure()
            self._give_up(failure)
            return failure
        return None

    async def _become_active(self, elected: ControllerEpochAndToken) -> None:
        active = ActiveController(
            self.broker_id,
            elected.epoch,
            Fence(self.store, elected.token),
            BrokerChannels(self.broker_id, elected.epoch, self.receiver_for, self.report_failed),
            self.rules_for,
            self._broker_ids_changed,
            self.metrics,
            self.scheduler,
        )
        connections = self._connections
        began = self.clock.seconds()
        try:
            await active.begin()
            if self.store.state is not SessionState.CONNECTED or self._connections != connections:
                raise ConnectionLost("the session broke while the controller took office")
        except BaseException:
            active.channels.over = True
            raise
        self._resign_controller()
        self.active = active
        self.metrics.became_active(self.clock.seconds() - began)
        self._show_controller(self.broker_id)
        self._put(self._take_orders)
        self._put(self._take_announced_changes)
        unfinished = [name for name, topic in active.state.topics.items() if topic.deleting]
        if unfinished:
            self.end_deletion(unfinished, send_deletion(active, unfinished)).addErrback(
                lambda failure: self._log.info("deletion goes on later: {error}", error=failure.value)
            )

    def _resign_controller(self) -> ActiveController | None:
        """Resign, as far as this broker can tell; return the active controller that ended, if there was one."""
        active, self.active = self.active, None
        if active is not None:
            active.channels.over = True
        return active

    async def _as_controller(self, run: Callable[[ActiveController], Awaitable[None]]) -> None:
        if self.active is not None:
            try:
                await run(self.active)
            except Exception:
                self._give_up(Failure())

    def _give_up(self, failure: Failure) -> None:
        """Resign, and take part in the next election: at once if another broker was elected, later on errors."""
        self._resign_controller()
        if failure.check(ConnectionLost, SessionLost) is not None:
            return  # The next CONNECTED begins anew.
        if failure.check(ControllerMoved) is not None:
            self._log.info("broker {broker} is not the controller any more", broker=self.broker_id)
            self._put(self._elect_later)
            return
        if failure.check(StoreUnusable) is not None:
            # Such as a full disk: a traceback would tell an operator nothing.
            self._log.error(
                "controller work failed; everything will be read again: {error}", error=failure.getErrorMessage()
            )
        else:
            self._log.failure("controller work failed; everything will be read again", failure)
        if self._running and self._retry is None:
            self._retry = self.clock.callLater(RETRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._put(self._elect_later)

    def _show_controller(self, broker_id: int) -> None:
        if self.metadata.controller_id != broker_id:
            with self.metadata.changing() as metadata:
                metadata.set_controller(broker_id)

    # The queue.

    @property
    def queued(self) -> int:
        """The number of events that wait for their turn."""
        return len(self._queue)

    def _put(self, event: Callable[[], Awaitable[None]]) -> None:
        self._queue.append((self.clock.seconds(), event))
        if not self._serving:
            self._serving = True
            Deferred.fromCoroutine(self._serve()).addErrback(
                lambda failure: self._log.failure("the controller's queue broke", failure)
            )

    async def _serve(self) -> None:
        try:
            while self._queue:
                put_at, event = self._queue.popleft()
                began_at = self.clock.seconds()
                elections = self.metrics.elections
                await event()
                self.metrics.served(began_at - put_at, self.clock.seconds() - began_at, elections)
        finally:
            self._serving = False


def _for_client(failure: Failure) -> Failure:
    """The error for a client whose change may or may not have been made."""
    if failure.check(ControllerMoved, ConnectionLost, SessionLost) is not None:
        return Failure(ApiError(ErrorCode.NOT_CONTROLLER, str(failure.value)))
    if failure.check(StoreUnusable) is not None:
        return Failure(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure.value)))
    return Failure(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
