"""
One partition of ``__transaction_state`` led by this broker, with its transactional ids.

A state takes effect when it is durable. Until then the id is busy, and other requests for it must be retried.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.coordination.coordinator_runtime import CoordinatorShard
from logbus.coordination.transactions.init_producer_id import mark_dead
from logbus.coordination.transactions.transaction_metadata import TransactionMetadata
from logbus.coordination.transactions.transaction_records import encode_key, encode_value
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.coordination.transactions.transition import ENDING
from logbus.errors import ApiError, ErrorCode
from logbus.wire.schema import EncodeError


@define(eq=False)
class TransactionEntry:
    """
    One transactional id.

    :ivar current: its durable state; None: none yet.
    :ivar pending: the state that is being written, if any.
    :ivar waiting: fired when the write has succeeded or failed.
    """

    current: TransactionMetadata | None
    pending: TransactionMetadata | None = None
    waiting: list[Deferred[None]] = field(factory=list)

    @property
    def idle_state(self) -> TransactionMetadata | None:
        """Its durable state, if no write is pending."""
        return self.current if self.pending is None else None

    def settled(self) -> Deferred[None]:
        """Fires when the pending or next write is durable, or has failed; may be cancelled."""
        waiting: Deferred[None] = Deferred(self.waiting.remove)
        self.waiting.append(waiting)
        return waiting


@define(eq=False)
class TransactionShard(CoordinatorShard):
    """
    The transactional ids of one partition.

    :ivar entries: by transactional id.
    :ivar ongoing: the ids with an ongoing transaction.
    :ivar partitions: number of partitions in transactions that are not complete.
    :ivar decided: called for each commit and abort whose decision is durable.
    """

    decided: Callable[[TransactionShard, TransactionMetadata], None]
    entries: dict[str, TransactionEntry] = field(factory=dict, init=False)
    ongoing: dict[str, None] = field(factory=dict, init=False)
    partitions: int = field(default=0, init=False)
    _log = Logger()

    def put(self, transaction: TransactionMetadata) -> Deferred[None]:
        """
        Write a state of an id that is not busy.

        :return: fires when it takes effect; may be cancelled.
        :raise ApiError: see :meth:`.StateLog.append`; it has no effect now, but may be read back by a later load.
        """
        transactional_id = transaction.transactional_id
        try:
            record = (encode_key(transactional_id), encode_value(transaction))
        except EncodeError as e:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(e)) from None
        durable = self.log.append([record], ErrorCode.POLICY_VIOLATION)
        entry = self.entries.get(transactional_id)
        if entry is None:
            entry = self.entries[transactional_id] = TransactionEntry(None)
        entry.pending = transaction
        is_settled = durable.called
        durable.addBoth(self._settle, entry, transaction)
        if is_settled:
            return durable
        answer: Deferred[None] = Deferred()

        def tell(result: Failure | None) -> None:
            # The caller may have cancelled; the state takes effect all the same.
            if not answer.called:
                answer.callback(result)

        durable.addBoth(tell)
        durable.addErrback(lambda failure: self._log.failure("a transaction cannot go on", failure))
        return answer

    def _settle(
        self, result: Failure | None, entry: TransactionEntry, transaction: TransactionMetadata
    ) -> Failure | None:
        failed = isinstance(result, Failure)
        entry.pending = None
        if self.closed:
            failed, result = True, Failure(ApiError(ErrorCode.NOT_COORDINATOR, "another broker took over meanwhile"))
        elif not failed:
            self.apply(transaction, entry)
        elif entry.current is None:
            del self.entries[transaction.transactional_id]
        waiting, entry.waiting = entry.waiting, []
        decision = None if failed or transaction.state not in ENDING else transaction
        if waiting or decision is not None:
            # The callbacks may write to partitions that a caller is just reading, so they get a turn of their own.
            self.log.clock.callLater(0, self._settled, waiting, decision)
        return result

    def _settled(self, waiting: Sequence[Deferred[None]], decision: TransactionMetadata | None) -> None:
        for one in waiting:
            if not one.called:
                one.callback(None)
        if decision is not None and not self.closed:
            self.decided(self, decision)

    def apply(self, transaction: TransactionMetadata, entry: TransactionEntry | None = None) -> None:
        """Apply a durable state."""
        transactional_id = transaction.transactional_id
        if entry is None:
            entry = self.entries.setdefault(transactional_id, TransactionEntry(None))
        before = 0 if entry.current is None else len(entry.current.partitions)
        self.partitions += len(transaction.partitions) - before
        entry.current = transaction
        if transaction.state is TransactionState.ONGOING:
            self.ongoing[transactional_id] = None
        else:
            self.ongoing.pop(transactional_id, None)

    def forget(self, transactional_ids: Collection[str]) -> None:
        """
        Remove idle ids, by tombstones.

        Ids whose tombstones cannot be written stay, with a warning in the log.
        """
        ids: list[str] = []
        records: list[tuple[bytes, bytes | None]] = []
        for transactional_id in transactional_ids:
            entry = self.entries[transactional_id]
            assert entry.current is not None
            entry.pending = mark_dead(entry.current)
            ids.append(transactional_id)
            records.append((encode_key(transactional_id), None))
        done = 0
        try:
            for appended, durable in self.log.append_all(records):
                durable.addBoth(self._gone, ids[done : done + len(appended)])
                durable.addErrback(lambda failure: self._log.failure("transactional ids are not removed", failure))
                done += len(appended)
        except ApiError as e:
            self._gone(Failure(e), ids[done:])

    def _gone(self, result: Failure | None, transactional_ids: Sequence[str]) -> None:
        if isinstance(result, Failure) and not self.closed:
            self._log.warn(
                "{partition}: {count} transactional ids cannot be removed: {why}",
                partition=self.log.replica.topic_partition,
                count=len(transactional_ids),
                why=result.getErrorMessage(),
            )
        for transactional_id in transactional_ids:
            entry = self.entries[transactional_id]
            entry.pending = None
            if not isinstance(result, Failure):
                del self.entries[transactional_id]
            waiting, entry.waiting = entry.waiting, []
            if waiting:
                self.log.clock.callLater(0, self._settled, waiting, None)
