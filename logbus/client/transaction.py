"""
A transaction as its user has it, and what may go wrong with it.

Errors are of two kinds (KIP-1050): after a :class:`TransactionAborted` another transaction may be tried; after a
:class:`ProducerUnusable`, a :class:`Fenced` among them, only another producer.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.client.groups import CommittedOffset, GroupMetadata
from logbus.errors import LogbusError
from logbus.model import TopicPartition

if TYPE_CHECKING:
    from logbus.client.transactional import TransactionManager


class TransactionError(LogbusError):
    """A transaction, or what was to be part of one, came to nothing."""


class TransactionAborted(TransactionError):
    """The transaction was aborted, or can only be; the cause is said. Another one may be tried."""


class OutcomeUnknown(TransactionError):
    """Nobody said in time whether the transaction was committed. It was, or was aborted; another one may be tried."""


class ProducerUnusable(TransactionError):
    """This producer can do nothing more; close it."""


class Fenced(ProducerUnusable):
    """Another producer has the transactional id now, or the coordinator took this one for dead; close it."""


class Transaction:
    """
    One transaction, for ``async with``: committed at the end of the block, or aborted if an error leaves the block, be
    it a cancellation. :meth:`~logbus.client.producer.Producer.transaction` makes it.
    """

    _log = Logger()

    def __init__(self, manager: TransactionManager) -> None:
        self._manager = manager

    async def __aenter__(self) -> Transaction:
        await self._manager.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            await self._manager.end(commit=True)
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
                # What was met in the block came of that.
                raise e from error
            self._log.info("the transaction is left to its timeout: {error}", error=e)

    def _not_aborted(self, failure: Failure) -> None:
        self._log.info("the transaction is left to its timeout: {error}", error=failure.value)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int | CommittedOffset], group: GroupMetadata | str
    ) -> Deferred[None]:
        """
        Have offsets of a group committed with the transaction.

        :param offsets: of the next record to read, for each partition.
        :param group: what :meth:`.Consumer.group_metadata` returned when all records of the transaction had been handed
            out, so that a consumer that lost its partitions cannot commit for them. A group's name alone leaves that
            out.
        :raises TransactionAborted: (in the Deferred, as all of these) they were not taken; the cause is said. For
            instance others may read the partitions now: go back with :meth:`.Consumer.seek_to_committed`.
        :raises Fenced: the producer is fenced.
        :raises TransactionError: no transaction is open.
        """
        return Deferred.fromCoroutine(self._manager.send_offsets(offsets, group))
