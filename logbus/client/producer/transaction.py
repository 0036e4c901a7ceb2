"""A producer's transaction, as the application uses it: ``async with producer.transaction()``."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.client.group_metadata import CommittedOffset, GroupMetadata
from logbus.client.producer.transaction_errors import ProducerUnusable, TransactionError
from logbus.client.producer.transaction_manager import TransactionManager
from logbus.client.validators import InvalidOption
from logbus.errors import LogbusError
from logbus.model import TopicPartition


class OffsetSource(Protocol):
    """A consumer, as a transaction sees it."""

    def transaction_offsets(self) -> tuple[dict[TopicPartition, CommittedOffset | None], GroupMetadata]:
        """The offsets after the delivered records, and the identity of the member that got them."""

    def seek_to_committed(self) -> Deferred[None]:
        """Go back to the committed offsets."""


class Transaction:
    """
    One transaction, for ``async with``: committed at the end of the block, or aborted if the block is left with an
    error or cancelled. :meth:`~logbus.client.producer.producer.Producer.transaction` makes it.
    """

    _log = Logger()

    def __init__(self, manager: TransactionManager, consumer: OffsetSource | None = None) -> None:
        self._manager = manager
        self._consumers = [] if consumer is None else [consumer]

    async def __aenter__(self) -> Transaction:
        await self._manager.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                await self._manager.end(commit=True)
            except TransactionError:
                await self._go_back()
                raise
            except CancelledError:
                self._go_back_later()
                raise
            return
        if not self._manager.is_open:
            return
        aborting = self._manager.end(commit=False)
        if kind is GeneratorExit:
            # Nobody can wait for it any more.
            aborting.addErrback(self._not_aborted)
            return
        try:
            await aborting
        except LogbusError as e:
            if isinstance(e, ProducerUnusable) and isinstance(error, LogbusError):
                # The error in the block followed from this one.
                raise e from error
            self._log.info("the transaction is left to its timeout: {error}", error=e)
        except CancelledError:
            self._go_back_later()
            raise
        await self._go_back()

    async def _go_back(self) -> None:
        """Have consumers deliver again what is not committed."""
        for each in self._consumers:
            try:
                await self._go_back_of(each)
            except LogbusError as e:
                self._log.warn(
                    "a consumer cannot go back yet after an aborted transaction, and delivers nothing until its "
                    "committed offsets are known: {error}",
                    error=e,
                )

    async def _go_back_of(self, consumer: OffsetSource) -> None:
        # What was delivered does not belong to the next transaction.
        consumer.transaction_offsets()
        await consumer.seek_to_committed()

    def _go_back_later(self) -> None:
        """The same, if nobody waits: consumers deliver nothing until their committed offsets are known."""
        for each in self._consumers:
            going_back = Deferred.fromCoroutine(self._go_back_of(each))
            going_back.cancel()
            going_back.addErrback(lambda failure: failure.trap(LogbusError, CancelledError))

    def _not_aborted(self, failure: Failure) -> None:
        self._log.info("the transaction is left to its timeout: {error}", error=failure.value)

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | CommittedOffset] | OffsetSource,
        group: GroupMetadata | str | None = None,
    ) -> Deferred[None]:
        """
        Commit a group's offsets with the transaction.

        :param offsets: a consumer: the offsets after the records that it delivered since the last transaction, by the
            member that it was then. If one of their partitions was revoked since, the transaction is aborted. After an
            abort the consumer goes back to the committed offsets (as the one given to
            :meth:`~logbus.client.Producer.transaction`).
            Or the next offset to read, for each partition.
        :param group: of offsets that are given: the result of :meth:`~logbus.client.Consumer.group_metadata`,
            taken when all records of the transaction had been delivered; so a consumer that lost its
            partitions cannot commit for them. A group id alone skips this check.
        :raises TransactionAborted: (in the Deferred, as all of these) the offsets were refused; the message has the
            cause. If other members may read the partitions now, go back with
            :meth:`~logbus.client.Consumer.seek_to_committed`.
        :raises Fenced: the producer is fenced.
        :raises TransactionError: no transaction is open.
        """
        if not callable(getattr(offsets, "transaction_offsets", None)):
            return Deferred.fromCoroutine(self._manager.send_offsets(offsets, group))  # type: ignore[arg-type]
        return Deferred.fromCoroutine(self._send_offsets_of(offsets, group))  # type: ignore[arg-type]

    async def _send_offsets_of(self, consumer: OffsetSource, group: object) -> None:
        if group is not None:
            raise InvalidOption("a consumer knows its group: give send_offsets the consumer alone")
        if consumer not in self._consumers:
            self._consumers.append(consumer)
        self._manager.check_open()
        await self._manager.send_offsets(*consumer.transaction_offsets())
