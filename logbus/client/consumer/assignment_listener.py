"""
Applies a group's assignment to a consumer: starts fetching assigned partitions at their committed offsets, and stops
when partitions are revoked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.committer import Committer
from logbus.client.consumer.consumer_options import ConsumerOptions
from logbus.client.consumer.consumer_record import Fetched
from logbus.client.consumer.fetcher import Fetcher
from logbus.client.consumer.partition_position import Position, reset_position
from logbus.client.consumer.record_poller import RecordPoller
from logbus.client.group_metadata import CommittedOffset
from logbus.client.membership import GroupListener
from logbus.client.retry import is_retriable
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import NO_EPOCH, TopicPartition


@define(eq=False)
class AssignmentListener(GroupListener):
    """
    The consumer's own listener of its membership; it calls the application's listener in turn.

    :ivar poller: delivers records to the application.
    :ivar require_stable: wait for open transactions that commit offsets, instead of reading the offsets before them
        (KIP-447).

    :ivar listener: the application's.
    :ivar is_idle: the application has neither subscribed nor assigned anything.
    :ivar failure: the error that stopped the consumer; raised to callers that ask for records.
    """

    _log = Logger()

    _cluster: Cluster
    _fetcher: Fetcher
    _committer: Committer
    _poller: RecordPoller[Any, Any]
    _options: ConsumerOptions[Any, Any]
    _require_stable: bool
    listener: GroupListener = field(factory=GroupListener, init=False)
    is_idle: bool = field(default=True, init=False)
    failure: LogbusError | None = field(default=None, init=False)
    # Partitions whose offsets are being looked up, with an object for each request: results of earlier requests are
    # ignored.
    _wanted: dict[TopicPartition, object] = field(factory=dict, init=False)
    # Partitions without a committed offset and a reset policy: looked up again when the application asks again.
    _unplaced: set[TopicPartition] = field(factory=set, init=False)
    # Whether the failure lasts: the membership has ended.
    _is_over: bool = field(default=False, init=False)
    # Those that are to be paused once their offsets are looked up.
    _paused: set[TopicPartition] = field(factory=set, init=False)
    _beginning: Deferred[None] | None = field(default=None, init=False)
    _waiting: set[Deferred[Fetched]] = field(factory=set, init=False)
    _alive: Any = field(default=None, init=False)

    # Called by the membership.

    @returns_deferred
    async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """Fetch these partitions, too, from their committed offsets."""
        self._committer.forget()
        if partitions:
            await self._begin(partitions)
        await _await_result(self.listener.on_assigned(partitions))

    @returns_deferred
    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """
        Deliver nothing more of these partitions, and remove them once processed records are committed.

        Waits for records that the application is processing, until it asks for more. The Java client does the same: it
        rebalances in poll() only.
        """
        owned = partitions & self._fetcher.assigned.partitions
        self._fetcher.assigned.pause(owned)
        membership = self._committer.membership
        if membership is not None:
            await self._poller.when_done(owned, membership.options.max_poll_interval)
        try:
            await _await_result(self.listener.on_revoked(partitions))
        except Exception:
            self._log.failure("on_revoked failed; the partitions are given up all the same")
        if self._options.enable_auto_commit:
            try:
                await self._committer.commit(done=True)
            except LogbusError as e:
                self._log.warn("offsets were not committed before partitions went: {error}", error=e)
        self._drop(partitions)

    @returns_deferred
    async def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """Remove these at once: another member may have them."""
        self._drop(partitions)
        await _await_result(self.listener.on_lost(partitions))

    @returns_deferred
    async def on_failed(self, error: LogbusError) -> None:
        """Fail callers that wait for records, and later ones."""
        self._is_over = True
        self._fail(error)
        await _await_result(self.listener.on_failed(error))

    # Called by the consumer.

    def begin(self, partitions: frozenset[TopicPartition]) -> None:
        """Fetch assigned partitions from their committed offsets, once these are looked up."""
        self._start(partitions)

    async def seek_to_committed(self, partitions: Sequence[TopicPartition]) -> None:
        """See :meth:`.Consumer.seek_to_committed`."""
        reading = {each: self._fetcher.assigned.reading(each) for each in partitions}
        try:
            found = await self.committed(partitions) if partitions else {}
        except (LogbusError, CancelledError):
            self._begin_anew(each for each, since in reading.items() if self._fetcher.assigned.is_reading(since))
            raise
        # A partition that was removed and assigned again meanwhile starts at the offset of the other member.
        still = [each for each, since in reading.items() if self._fetcher.assigned.is_reading(since)]
        positions, epochs, error = self._positions(still, found)
        for each, position in positions.items():
            self._fetcher.seek(each, position, epochs.get(each, NO_EPOCH))
        self._poller.drop(positions)
        if error is not None:
            raise error

    async def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, CommittedOffset | None]:
        """
        Look up the group's committed offsets.

        :raises LogbusError: there is no group; or the broker refuses.
        """
        membership, group = self._committer.membership, self._committer.group
        if group is None:
            raise LogbusError("nothing is committed without a group; give the consumer a group_id")
        if membership is not None:
            return await membership.committed(partitions)
        return await group.fetch(partitions, require_stable=self._require_stable)

    def polled(self) -> None:
        """Tell the membership that the application asks for records."""
        membership = self._committer.membership
        if membership is not None:
            membership.polled()

    def check(self) -> None:
        """
        See that there is something to wait for.

        :raises LogbusError: the membership ended, offsets could not be looked up, or nothing was ever to be read.
        """
        if self.is_idle:
            raise LogbusError("the consumer reads nothing: subscribe to topics or assign partitions before you read")
        if self.failure is not None:
            failure = self.failure
            if not self._is_over:
                self.failure = None
            raise failure
        unplaced, self._unplaced = self._unplaced, set()
        self._start(unplaced)

    def waiting(self, records: Deferred[Fetched]) -> Deferred[Fetched]:
        """Have a wait for records end when there will be none, and count it as a sign of life."""
        self._waiting.add(records)
        self._keep_alive()

        def ended(result: Fetched | Failure) -> Fetched | Failure:
            self._waiting.discard(records)
            if not self._waiting and self._alive is not None and self._alive.active():
                self._alive.cancel()
            if isinstance(result, Failure) and result.check(CancelledError) and self.failure is not None:
                return Failure(self.failure)
            return result

        records.addBoth(ended)
        return records

    def end(self) -> None:
        """Begin nothing more."""
        self._wanted = {}
        self._unplaced.clear()
        self._paused.clear()
        self.failure, self._is_over = None, False
        if self._beginning is not None:
            self._beginning.cancel()

    # How it works.

    def _keep_alive(self) -> None:
        membership = self._committer.membership
        if membership is None or not self._waiting or (self._alive is not None and self._alive.active()):
            return
        interval = membership.options.max_poll_interval / 3

        def alive() -> None:
            self.polled()
            self._keep_alive()

        self._alive = self._cluster.reactor.callLater(interval, alive)

    def _begin_anew(self, partitions: Iterable[TopicPartition]) -> None:
        """
        Fetch these from their committed offsets, once these are looked up, and deliver nothing of them before: where
        they are now may be behind records that were not processed.
        """
        anew = list(partitions)
        self._paused |= self._fetcher.assigned.paused().intersection(anew)
        self._poller.drop(anew)
        self._fetcher.remove(anew)
        self._start(anew)

    async def _begin(self, partitions: frozenset[TopicPartition]) -> None:
        """Look up offsets, and fetch. If the lookup fails now, retry without holding up the rebalance."""
        try:
            self._add(partitions, await self.committed(tuple(partitions)))
        except LogbusError as e:
            self._log.warn("committed offsets cannot be looked up: {error}", error=e)
            self._start(partitions)

    def _start(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch these, too, as soon as their offsets are looked up."""
        self._wanted |= {each: object() for each in partitions}
        if self._beginning is None and self._wanted:
            self._beginning = beginning = Deferred.fromCoroutine(self._keep_trying())

            def ended(result: object) -> None:
                self._beginning = None
                if isinstance(result, Failure) and not result.check(CancelledError):
                    error = result.value
                    self._fail(error if isinstance(error, LogbusError) else LogbusError(repr(error)))

            beginning.addBoth(ended)

    async def _keep_trying(self) -> None:
        attempts = self._cluster.attempts()
        while self._wanted:
            wanted = dict(self._wanted)
            try:
                found = await self.committed(tuple(wanted))
            except LogbusError as e:
                if not is_retriable(e):
                    raise
                self._log.debug("{error}; retrying", error=e)
                await attempts.again()
                continue
            still = [each for each, request in wanted.items() if self._wanted.get(each) is request]
            for each in still:
                del self._wanted[each]
            self._add(still, found)

    def _add(self, partitions: Iterable[TopicPartition], found: dict[TopicPartition, CommittedOffset | None]) -> None:
        partitions = list(partitions)
        positions, epochs, error = self._positions(partitions, found)
        if error is not None:
            self._unplaced.update(each for each in partitions if each not in positions)
            self._fail(error)
        self._fetcher.add(positions, epochs)
        paused = self._paused & positions.keys()
        self._fetcher.assigned.pause(paused)
        self._paused -= paused

    def _positions(
        self, partitions: Iterable[TopicPartition], found: Mapping[TopicPartition, CommittedOffset | None]
    ) -> tuple[dict[TopicPartition, Position], dict[TopicPartition, int], ApiError | None]:
        """
        Start positions of partitions, the leader epochs before them, and an error if a partition has no committed
        offset and there is no reset policy.
        """
        error = None
        positions: dict[TopicPartition, Position] = {}
        epochs: dict[TopicPartition, int] = {}
        for each in sorted(partitions):
            committed = found.get(each)
            if committed is not None and committed.offset >= 0:
                positions[each], epochs[each] = committed.offset, committed.leader_epoch
            elif self._options.auto_offset_reset == "none":
                error = ApiError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{each}: no offset was committed; commit one, or set auto_offset_reset to earliest or latest",
                )
            else:
                positions[each] = reset_position(self._options.auto_offset_reset)
        return positions, epochs, error

    def _drop(self, partitions: frozenset[TopicPartition]) -> None:
        for each in partitions:
            self._wanted.pop(each, None)
        self._unplaced -= partitions
        self._paused -= partitions
        self._committer.given_up(partitions)
        self._poller.give_up(partitions)
        self._fetcher.remove(partitions)

    def _fail(self, error: LogbusError) -> None:
        """Raise an error to those who wait, else to the next who asks; to all, if it is that of the membership."""
        self.failure = error
        waiting = list(self._waiting)
        for each in waiting:
            each.cancel()
        if waiting and not self._is_over:
            self.failure = None


async def _await_result(answer: Any) -> None:
    if answer is not None:
        await answer
