"""
Reads and writes the states of share partitions at their coordinators (Kafka: DefaultStatePersister).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IReactorTime

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.peers import Peers
from logbus.coordination.share_state.persister_queue import PersisterQueue
from logbus.coordination.share_state.recorded_state import StateChange
from logbus.coordination.share_state.share_coordinator import ShareCoordinator
from logbus.coordination.share_state.share_state import LogEpochs, SharePartitionKey, ShareState, StateBatch
from logbus.coordination.share_state.share_state_calls import Call, Delete, Initialize, Read, Summarize, Write
from logbus.errors import ApiError, ErrorCode
from logbus.model import NO_OFFSET, SHARE_GROUP_STATE_TOPIC, TopicPartition

PATIENCE_SECONDS = 30.0
"""How long a call is retried."""

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.05, 1.0
"""Seconds between two attempts; each is twice the one before."""

_NO_COORDINATOR = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)
_NO_ANSWER = frozenset({ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})


@define(eq=False)
class SharePersister:
    """
    The states of share partitions, wherever their coordinators are.

    All methods retry while the coordinator is not found, is loading, or cannot be reached; calls for another broker's
    coordinator are sent together. Their Deferreds fail with ApiError: FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST (also: it is not initialized), or, after :data:`PATIENCE_SECONDS`,
    COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR: then it is unknown whether a change was
    made, and it may be made later.

    :param coordinator: of this broker.
    :param ensure: creates an internal topic if it is missing.
    """

    _broker_id: int
    _metadata: ClusterMetadata
    _coordinator: ShareCoordinator
    _peers: Peers
    _ensure: Callable[[str], Deferred[None]]
    _clock: IReactorTime
    _queues: dict[tuple[int, type[Call], str], PersisterQueue] = field(factory=dict, init=False)
    # The calls that pause, in order.
    _pausing: dict[Deferred[None], None] = field(factory=dict, init=False)
    _stopped: bool = field(default=False, init=False)

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Deferred[None]:
        """
        Create a state, or set one anew with a higher state epoch. With the same epoch the state stays as it is. Until
        a leader has read it, all writes are refused.

        :param start_offset: −1: decided by whoever leads the share partition.
        """
        return self._call(Initialize(key, state_epoch, start_offset))

    def read(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        log_end_offset: int = NO_OFFSET,
        log_epochs: LogEpochs = (),
    ) -> Deferred[ShareState]:
        """
        Read a state; from then on, writes with a lower leader epoch are refused.

        :param leader_epoch: of the partition's leader, which reads it.
        :param log_end_offset: of its log: the first read in its epoch makes the state forget what is behind that, which
            an unclean election has lost. −1: the state stays as it is.
        :param log_epochs: of its log: that read makes the state forget what is behind the records of the leader before,
            too, where others have taken the offsets of lost ones by now.
        :return: the state; its ``delivery_complete_count`` is left out (−1).
        """
        return self._call(Read(key, leader_epoch, log_end_offset, log_epochs))

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> Deferred[None]:
        """
        Change a state. It is durable when the Deferred fires.

        :param leader_epoch: that of the last :meth:`read`.
        :param start_offset: −1: as it is. It never becomes lower, other than by :meth:`read`.
        :param batches: the batches that have changed; see :func:`.merge_batches`.
        """
        change = StateChange(state_epoch, leader_epoch, start_offset, delivery_complete_count, tuple(batches))
        return self._call(Write(key, change))

    def summary(self, key: SharePartitionKey) -> Deferred[ShareState]:
        """
        Read a state without its batches, and without a leader's claim.

        :return: start offset −1 and state epoch 0 if there is none.
        """
        return self._call(Summarize(key))

    def delete(self, key: SharePartitionKey) -> Deferred[None]:
        """Remove a state, if there is one."""
        return self._call(Delete(key))

    def stop(self) -> None:
        """Retry no more: the broker is stopping."""
        self._stopped = True
        for pause in list(self._pausing):
            pause.callback(None)

    # How it works.

    def _call(self, call: Call) -> Deferred[Any]:
        return Deferred.fromCoroutine(self._carry_out(call))

    async def _carry_out(self, call: Call) -> Any:
        end = self._clock.seconds() + PATIENCE_SECONDS
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._ensure(SHARE_GROUP_STATE_TOPIC)
                leader = self._leader(call.key)
                if leader == self._broker_id:
                    return await maybeDeferred(self._coordinator.carry_out, call)
                return await self._queue(leader, call).send(call)
            except ApiError as e:
                if not self._may_pass(e, call.key):
                    raise
                if self._stopped or self._clock.seconds() + pause > end:
                    if e.code in _NO_ANSWER:
                        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, e.message) from e
                    raise
            await self._sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    def _leader(self, key: SharePartitionKey) -> int:
        partition = TopicPartition(SHARE_GROUP_STATE_TOPIC, self._coordinator.partition_of(str(key)))
        image = self._metadata.partition(partition)
        if image is None or image.leader < 0:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{partition} has no leader")
        return image.leader

    def _queue(self, leader: int, call: Call) -> PersisterQueue:
        place = (leader, type(call), call.key.group_id)
        queue = self._queues.get(place)
        if queue is None:
            queue = self._queues[place] = PersisterQueue(leader, self._peers, lambda: self._queues.pop(place))
        return queue

    def _may_pass(self, error: ApiError, key: SharePartitionKey) -> bool:
        """Whether the same call may succeed later."""
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            # The coordinator's broker does not know a new topic or partition yet that this one does.
            topic = self._metadata.topic_by_id(key.topic_id)
            return topic is not None and key.partition < len(topic.partitions)
        return error.code in _NO_COORDINATOR or error.code in _NO_ANSWER

    async def _sleep(self, seconds: float) -> None:
        pause: Deferred[None] = Deferred()
        timer = self._clock.callLater(seconds, pause.callback, None)
        self._pausing[pause] = None
        try:
            await pause
        finally:
            del self._pausing[pause]
            # It was cancelled, or the broker stops.
            if timer.active():
                timer.cancel()
