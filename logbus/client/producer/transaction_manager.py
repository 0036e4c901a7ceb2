"""
The state of a transactional producer (KIP-98; Kafka: TransactionManager).

With transaction version 1, the producer adds partitions and groups to a transaction before it writes, and keeps its
epoch unless an error leaves doubt. With version 2 (KIP-890) the first write adds a partition, and the end of each
transaction returns the epoch of the next one. The cluster's feature ``transaction.version`` tells which one applies.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from enum import Enum
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from logbus.client import validators as check
from logbus.client.cluster.cluster import Cluster
from logbus.client.cluster.coordinators import GROUPS, TRANSACTIONS
from logbus.client.group_metadata import MOVED_ON, CommittedOffset, GroupMetadata
from logbus.client.producer.coordinator_requests import CoordinatorRequests
from logbus.client.producer.idempotence import ProducerId
from logbus.client.producer.producer_identity import ProducerIdentity
from logbus.client.producer.producer_options import ProducerOptions
from logbus.client.producer.transaction_errors import (
    Fenced,
    OutcomeUnknown,
    ProducerUnusable,
    TransactionAborted,
    TransactionError,
)
from logbus.client.producer.transaction_messages import (
    add_group,
    add_partitions,
    commit_offsets,
    end_transaction,
    error_code_of,
    init_producer_id,
    worst_of_offsets,
    worst_of_partitions,
)
from logbus.client.retry import is_retriable
from logbus.coroutines import shield
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.wire.messages.transactions import EndTxnResponse, InitProducerIdResponse

_FEATURE = "transaction.version"
_LAST_PRODUCE_BY_V1 = 11
_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_FATAL = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


class _State(Enum):
    NEW = "it has no producer id, or needs the next epoch"
    READY = "no transaction is open"
    BEGINNING = "a transaction is about to be opened"
    OPEN = "a transaction is open"
    ENDING = "a transaction is being ended"


class TransactionManager(ProducerIdentity):
    """
    The producer id and epoch of a transactional producer, and the state of its transaction.

    :param options: has the ``transactional_id``; a transaction may take ``transaction_timeout``.
    :param flush: sends unsent records; fires when all outcomes are known.
    :param on_abort_only: called with the reason when the transaction can only be aborted.
    """

    _log = Logger()

    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions,
        flush: Callable[[], Deferred[None]],
        on_abort_only: Callable[[Exception], object],
    ) -> None:
        super().__init__(cluster, True)
        assert options.transactional_id is not None
        self.transactional_id: str = options.transactional_id
        self._flush = flush
        self._on_abort_only = on_abort_only
        self._timeout = options.transaction_timeout
        self._is_deciding = False
        self._state = _State.NEW
        self._is_version_2 = False
        self._abort_reason: Exception | None = None
        self._deadline = 0.0
        self._partitions: set[TopicPartition] = set()
        self._to_add: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._is_at_coordinator = False
        self._coordinator = CoordinatorRequests(cluster, TRANSACTIONS)
        self._group_coordinators = CoordinatorRequests(cluster, GROUPS)
        self._tasks: set[Deferred[Any]] = set()
        self._adding: Deferred[Any] | None = None
        self._sending: set[Deferred[None]] = set()
        self._ending: Deferred[Any] | None = None

    # Called by the sender.

    @property
    def is_ready(self) -> bool:
        return self._state in (_State.OPEN, _State.ENDING) and self.refusal is None

    @property
    def refusal(self) -> Exception | None:
        return self.error or self._abort_reason

    def prepare(self) -> None:
        """Nothing to do: only the user can begin a transaction."""

    def admits(self, partition: TopicPartition) -> bool:
        if self._is_version_2:
            self._partitions.add(partition)
            self._is_at_coordinator = True
            return True
        if partition in self._partitions:
            return True
        if not self._to_add:
            self._to_add.add(partition)
            adding = self._start(self._add_partitions()).addErrback(lambda failure: failure.trap(CancelledError))
            self._adding = None if adding.called else adding
        self._to_add.add(partition)
        return False

    def produce_version(self, version: int) -> int:
        return version if self._is_version_2 else min(version, _LAST_PRODUCE_BY_V1)

    def failed(self, error: Exception) -> None:
        if self.is_ready:
            if not isinstance(error, TransactionAborted):
                reason = TransactionAborted(f"the transaction has to be aborted: {error}")
                reason.__cause__ = error
                error = reason
            self._abort_reason = error
            self._on_abort_only(error)

    def close(self) -> None:
        super().close()
        self._cancel_requests()
        for task in list(self._tasks):
            task.cancel()

    def check_open(self) -> None:
        """
        Check that a record or offset can join the transaction.

        :raises TransactionError: no transaction is open, or it can only be aborted.
        """
        if self.error is not None:
            raise self.error
        if self._state is not _State.OPEN:
            raise TransactionError("no transaction is open: send in the block of transaction()")
        if self._abort_reason is not None:
            raise self._abort_reason

    # Called by Transaction.

    async def begin(self) -> None:
        """
        Begin a transaction. The first one gets the producer id, and fences the producer that used the transactional id
        before.

        :raises TransactionError: one is open already.
        :raises ProducerUnusable: the producer cannot be used any more.
        :raises LogbusError: no coordinator answered within the transaction timeout.
        """
        while self._ending is not None:
            await shield(self._ending)
        if self.error is not None:
            raise self.error
        if self._state not in (_State.NEW, _State.READY):
            raise TransactionError("a transaction is open already: a producer has one at a time")
        before, self._state = self._state, _State.BEGINNING
        try:
            deadline = self._cluster.reactor.seconds() + self._timeout
            channel = await self._coordinator.channel(self.transactional_id, deadline)
            self._is_version_2 = channel.features.get(_FEATURE, 0) >= 2
            if before is _State.NEW:
                await self._get_epoch(deadline)
                before = _State.READY
        finally:
            self._state = before
        self._deadline = self._cluster.reactor.seconds() + self._timeout
        self._abort_reason, self._is_at_coordinator = None, False
        for each in (self._partitions, self._to_add, self._groups):
            each.clear()
        self._state = _State.OPEN
        self.changed()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int | CommittedOffset | None], group: GroupMetadata | str
    ) -> None:
        """
        See :meth:`Transaction.send_offsets`.

        :param offsets: None for a partition that was revoked since its records were delivered.
        """
        check.mapping_of_offsets(offsets)
        known = {each: at for each, at in offsets.items() if at is not None}
        check.offsets(known)
        if not isinstance(group, GroupMetadata) and (not isinstance(group, str) or not group):
            raise check.InvalidOption(
                f"group is {check.shown(group)}; give consumer.group_metadata(), or the name of a group"
            )
        self.check_open()
        group = GroupMetadata(group) if isinstance(group, str) else group
        if not offsets:
            # A transaction that sends nothing but an empty set of offsets needs no EndTxn.
            return
        try:
            owned = set(known) if group.assignment is None else known.keys() & group.assignment
            foreign = sorted(offsets.keys() - owned)
            if foreign:
                code = ErrorCode.ILLEGAL_GENERATION
                raise ApiError(code, f"{foreign[0]} is not assigned to this member of group {group.group_id!r}")
            await self._sent(self._start(self._send_offsets(known, group)))
        except TransactionError:
            raise
        except LogbusError as e:
            if isinstance(e, ApiError) and e.code in MOVED_ON:
                e = ApiError(
                    e.code,
                    f"{e}: the group has gone on without this member, and others may read these partitions. Go back "
                    "with the consumer's seek_to_committed(), and process fewer records between polls, or raise "
                    "max_poll_interval",
                )
            raise self._record_error(e) from e

    def end(self, *, commit: bool) -> Deferred[None]:
        """
        End the transaction.

        Cancelling the Deferred of a commit turns it into an abort, unless EndTxn was sent already. In that case the
        outcome is not reported, and the next transaction waits for it.
        """
        if self._state is not _State.OPEN:
            raise self.error or TransactionError("no transaction is open")
        self._state, self._is_deciding = _State.ENDING, False
        ending = self._start(self._end(commit))
        if not ending.called:
            self._ending = ending
        return shield(ending, self._mark_aborted)

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction to end."""
        return self._state is _State.OPEN and self.error is None

    async def finish(self) -> None:
        """Abort the open transaction, or wait for the one that is being ended."""
        if self.is_open:
            try:
                await self.end(commit=False)
            except LogbusError as e:
                self._log.info("the transaction is left to its timeout: {error}", error=e)
        elif self._ending is not None:
            await shield(self._ending)

    # Internals.

    async def _get_epoch(self, deadline: float) -> None:
        request = init_producer_id(self.transactional_id, self._timeout, self.producer)
        try:
            answer: InitProducerIdResponse = await self._coordinator.ask(
                self.transactional_id, request, 5 if self._is_version_2 else 4, error_code_of, deadline
            )
        except LogbusError as e:
            raise self._record_error(e) from e
        self.producer = ProducerId(answer.producer_id, answer.producer_epoch)

    async def _add_partitions(self) -> None:
        """Version 1: add partitions to the transaction before anything is written to them."""
        while self._to_add:
            adding = sorted(self._to_add)
            assert self.producer is not None
            self._is_at_coordinator = True
            request = add_partitions(self.transactional_id, self.producer, adding)
            try:
                await self._coordinator.ask(self.transactional_id, request, 3, worst_of_partitions, self._deadline)
            except LogbusError as e:
                self._to_add.clear()
                self._record_error(e)
                return
            self._partitions.update(adding)
            self._to_add.difference_update(adding)
            self.changed()

    async def _send_offsets(
        self, offsets: Mapping[TopicPartition, int | CommittedOffset], group: GroupMetadata
    ) -> None:
        assert self.producer is not None
        self._is_at_coordinator = True
        if not self._is_version_2 and group.group_id not in self._groups:
            adding = add_group(self.transactional_id, self.producer, group.group_id)
            await self._coordinator.ask(self.transactional_id, adding, 3, error_code_of, self._deadline)
            self._groups.add(group.group_id)
        request = commit_offsets(self.transactional_id, self.producer, offsets, group)
        highest = 5 if self._is_version_2 else 4
        await self._group_coordinators.ask(group.group_id, request, highest, worst_of_offsets, self._deadline)

    async def _sent(self, offsets: Deferred[None]) -> None:
        """Wait until offsets are sent, or an abort makes that useless."""
        self._sending.add(offsets)
        try:
            await offsets
        except CancelledError:
            if offsets in self._sending or self.refusal is None:
                raise  # The caller has cancelled.
            raise self.refusal from None
        finally:
            self._sending.discard(offsets)

    async def _end(self, commit: bool) -> None:
        """Commit or abort, and set the state for the next transaction."""
        try:
            if not commit:
                self._mark_aborted()
            # Wait for batches in flight, before an abort, too: they must not arrive after EndTxn.
            await self._flush()
            # Offsets, too, if the caller did not wait for them.
            for sending in list(self._sending):
                await shield(sending)
            if self._abort_reason is None and await self._send_end_txn(commit=True):
                return
            abort_reason = self._abort_reason
            self._cancel_requests()
            try:
                await self._send_end_txn(commit=False)
            except OutcomeUnknown as e:
                self._log.info("the transaction is left to its timeout: {error}", error=e)
            if commit and abort_reason is not None:
                raise abort_reason
        finally:
            if self._state is _State.ENDING:
                self._state = _State.NEW
            self._ending = None

    def _mark_aborted(self) -> None:
        """Mark the transaction as aborted, so that unsent records are dropped."""
        if not self._is_deciding:
            self.failed(TransactionAborted("the transaction is aborted"))
            self._cancel_requests()

    def _cancel_requests(self) -> None:
        """
        Send no more of the transaction: what is repeated after its end would begin another one, or be that of a
        producer whose epoch is fenced.
        """
        sending, self._sending = self._sending, set()
        for each in (self._adding, *sending):
            if each is not None:
                each.cancel()

    async def _send_end_txn(self, *, commit: bool) -> bool:
        """Send EndTxn; returns False if the transaction has to be aborted instead."""
        is_certain = self._abort_reason is None
        if self.error is not None:
            raise self.error
        if not self._is_at_coordinator:
            self._state = _State.READY if is_certain else _State.NEW
            return True
        assert self.producer is not None
        self._is_deciding = True
        request = end_transaction(self.transactional_id, self.producer, commit=commit)
        deadline = self._cluster.reactor.seconds() + self._timeout
        try:
            answer: EndTxnResponse = await self._coordinator.ask(
                self.transactional_id, request, 5 if self._is_version_2 else 3, error_code_of, deadline
            )
        except ApiError as e:
            if e.code is ErrorCode.INVALID_TXN_STATE and not commit:
                # The coordinator has no such transaction: none of its records arrived.
                return True
            if e.code is ErrorCode.INVALID_TXN_STATE:
                raise TransactionAborted(f"the transaction was aborted meanwhile: {e}") from e
            recorded = self._record_error(e)
            if isinstance(recorded, ProducerUnusable):
                raise recorded from e
            if is_retriable(e):
                raise OutcomeUnknown(f"the transaction's end was not answered in {self._timeout:g} s: {e}") from e
            return False
        except LogbusError as e:
            raise OutcomeUnknown(f"the transaction's end was not answered in {self._timeout:g} s: {e}") from e
        if self._is_version_2 and answer.producer_epoch >= 0:
            self.producer = ProducerId(answer.producer_id, answer.producer_epoch)
            self._state = _State.READY
        else:
            # With a new epoch, late batches cannot become part of the next transaction (KIP-360).
            self._state = _State.READY if is_certain else _State.NEW
        return True

    def _record_error(self, error: LogbusError) -> Exception:
        """Record an error of a coordinator; returns the error to raise."""
        if isinstance(error, TransactionError):
            return error
        code = error.code if isinstance(error, ApiError) else None
        if code in _FENCED:
            self.error = Fenced(f"transactional id {self.transactional_id!r}: this producer is fenced: {error}")
        elif code in _FATAL:
            self.error = ProducerUnusable(f"transactional id {self.transactional_id!r}: {error}")
        else:
            self.failed(error)
            return self._abort_reason or error
        self.error.__cause__ = error
        self._on_abort_only(self.error)
        return self.error

    def _start(self, coroutine: Coroutine[Deferred[Any], Any, None]) -> Deferred[None]:
        task = Deferred.fromCoroutine(coroutine)
        self._tasks.add(task)

        def ended(result: Any) -> Any:
            self._tasks.discard(task)
            return result

        return task.addBoth(ended)
