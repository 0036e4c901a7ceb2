"""
Sends metadata updates from the controller to another broker (Kafka: RequestSendThread).

Updates are sent in order, one at a time. One that cannot be delivered is not kept: the full state replaces all updates
that the broker has missed. It is sent again until the broker has it, is gone, or another controller is elected. A
broker that is cut off therefore costs no memory.

A request without an answer may still arrive, on its old connection, after later ones. So all are numbered, and the
broker refuses one that is late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import count

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.cluster.icluster import FullUpdate, IMetadataUpdateReceiver, PartitionErrors
from logbus.cluster.images import BrokerImage
from logbus.cluster.metadata_update import MetadataUpdate
from logbus.cluster.metadata_update_codec import update_request
from logbus.cluster.peers import METADATA_UPDATES, Peers
from logbus.errors import ApiError, ErrorCode, error_of
from logbus.model import TopicPartition
from logbus.net.time_slices import SliceScheduler, TimeSlice
from logbus.wire.codegen import ELEMENTS_PER_STEP
from logbus.wire.messages.inter_broker import MetadataUpdateResponse

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.05, 1.0
"""Seconds between two attempts."""

MAX_QUEUED_UPDATES = 64
"""Updates that wait to be sent; with more of them the full state is sent instead."""
MAX_WAITING = 1000
"""Callers that may wait for a broker that is out of reach; the first ones then fail with a timeout."""

_ENDS = (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH)


@implementer(IMetadataUpdateReceiver)
@define(eq=False)
class MetadataUpdateSender:
    """
    Sends metadata updates to one registration of a broker.

    :ivar full_update: see :data:`.FullUpdate`.
    :ivar timeout: seconds that the broker may take to apply an update.
    :ivar scheduler: gives time slices to encode updates of many partitions; None: all of it runs at once.
    :ivar numbers: of the requests. This broker may be elected twice in one controller epoch, so all its senders share
        them.
    """

    broker: BrokerImage
    full_update: FullUpdate
    peers: Peers
    clock: IReactorTime
    timeout: float
    scheduler: SliceScheduler | None = None
    numbers: Iterator[int] = field(factory=lambda: count(1))
    _queue: deque[tuple[MetadataUpdate, Deferred[PartitionErrors]]] = field(factory=deque, init=False)
    _waiting: deque[Deferred[PartitionErrors]] = field(factory=deque, init=False)
    _behind: bool = field(default=False, init=False)
    _serving: bool = field(default=False, init=False)
    _end: ApiError | None = field(default=None, init=False)
    _pause: float = field(default=FIRST_RETRY_SECONDS, init=False)
    _log = Logger()

    def apply(self, update: MetadataUpdate) -> Deferred[PartitionErrors]:
        """See :meth:`IMetadataUpdateReceiver.apply`."""
        answer: Deferred[PartitionErrors] = Deferred()
        if self._end is not None:
            answer.errback(self._end)
            return answer
        if self._behind:
            self._wait(answer)
        else:
            self._queue.append((update, answer))
            if len(self._queue) > MAX_QUEUED_UPDATES:
                self._schedule_full_update()
        if not self._serving:
            self._serving = True
            Deferred.fromCoroutine(self._serve()).addErrback(self._broken)
        return answer

    async def _serve(self) -> None:
        while self._end is None and (self._queue or self._waiting):
            update: MetadataUpdate | None
            if self._behind:
                update = self.full_update()
                if update is None:
                    self._finish(ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "the broker, or the controller, is gone"))
                    break
                answers, self._waiting = list(self._waiting), deque()
                self._behind = False
            else:
                update, answer = self._queue.popleft()
                answers = [answer]
            await self._deliver(update, answers)
        self._serving = False

    async def _deliver(self, update: MetadataUpdate, answers: list[Deferred[PartitionErrors]]) -> None:
        try:
            numbered = evolve(update, number=next(self.numbers))
            request = await TimeSlice(self.scheduler).finish(update_request(numbered), ELEMENTS_PER_STEP)
            response: MetadataUpdateResponse = await self.peers.request(
                self.broker, request, METADATA_UPDATES, self.timeout
            )
            if response.error_code:
                raise error_of(response.error_code, response.error_message)
        except ApiError as error:
            self._waiting.extendleft(reversed(answers))
            if error.code in _ENDS:
                self._finish(error)
                return
            self._log.warn(
                "broker {broker} has not applied a metadata update yet: {error}",
                broker=self.broker.broker_id,
                error=error.message,
            )
            self._schedule_full_update()
            pause, self._pause = self._pause, min(MAX_RETRY_SECONDS, 2 * self._pause)
            await deferLater(self.clock, pause)
            return
        self._pause = FIRST_RETRY_SECONDS
        errors = {
            TopicPartition(one.topic, one.partition): error_of(one.error_code, one.error_message)
            for one in response.failed
        }
        for answer in answers:
            answer.callback(errors)

    def _schedule_full_update(self) -> None:
        self._behind = True
        queue, self._queue = self._queue, deque()
        for _, answer in queue:
            self._wait(answer)

    def _wait(self, answer: Deferred[PartitionErrors]) -> None:
        self._waiting.append(answer)
        if len(self._waiting) > MAX_WAITING:
            late = f"broker {self.broker.broker_id} has not heard of it yet"
            self._waiting.popleft().errback(ApiError(ErrorCode.REQUEST_TIMED_OUT, late))

    def _finish(self, error: ApiError) -> None:
        self._end = error
        self._schedule_full_update()
        self.peers.forget(self.broker, METADATA_UPDATES)
        waiting, self._waiting = self._waiting, deque()
        for answer in waiting:
            answer.errback(error)

    def _broken(self, failure: Failure) -> None:
        self._log.failure("sending metadata updates to broker {broker} failed", failure, broker=self.broker.broker_id)
        self._serving = False
        self._finish(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))


def update_receivers(
    local: IMetadataUpdateReceiver,
    broker_id: int,
    peers: Peers,
    clock: IReactorTime,
    timeout: float,
    scheduler: SliceScheduler | None = None,
) -> Callable[[BrokerImage, FullUpdate], IMetadataUpdateReceiver]:
    """A factory of receivers: this broker is called directly, the others over the network."""
    numbers = count(1)

    def receiver_for(broker: BrokerImage, full_update: FullUpdate) -> IMetadataUpdateReceiver:
        if broker.broker_id == broker_id:
            return local
        return MetadataUpdateSender(broker, full_update, peers, clock, timeout, scheduler, numbers)

    return receiver_for
