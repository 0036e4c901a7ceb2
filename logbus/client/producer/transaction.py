"""
A producer's transaction, and its errors.

There are two kinds of errors (KIP-1050). After a :class:`TransactionAborted`, try another transaction. After a
:class:`ProducerUnusable`, such as :class:`Fenced`, a new producer is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.client.group_metadata import CommittedOffset, GroupMetadata
from logbus.errors import LogbusError
from logbus.model import TopicPartition

if TYPE_CHECKING:
    from logbus.client.producer.transaction_manager import TransactionManager


class TransactionError(LogbusError):
    """Base of errors of transactions."""


class TransactionAborted(TransactionError):
    """The transaction was aborted, or can only be aborted; the message has the cause. Another one may be tried."""


class OutcomeUnknown(TransactionError):
    """The coordinator did not answer in time, so the transaction was committed or aborted. Another one may be tried."""


class ProducerUnusable(TransactionError):
    """This producer can send nothing more; close it."""


class Fenced(ProducerUnusable):
    """Another producer uses the transactional id, or the coordinator timed this one out; close it."""


class Transaction:
    """
    One transaction, for ``async with``: committed at the end of the block, or aborted if the block is left with an
    error or cancelled. :meth:`~logbus.client.producer.producer.Producer.transaction` makes it.
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
                # The error in the block followed from this one.
                raise e from error
            self._log.info("the transaction is left to its timeout: {error}", error=e)

    def _not_aborted(self, failure: Failure) -> None:
        self._log.info("the transaction is left to its timeout: {error}", error=failure.value)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int | CommittedOffset], group: GroupMetadata | str
    ) -> Deferred[None]:
        """
        Commit a group's offsets with the transaction.

        :param offsets: the next offset to read, for each partition.
        :param group: the result of :meth:`.Consumer.group_metadata`, taken when all records of the transaction had been
            delivered; so a consumer that lost its partitions cannot commit for them. A group id alone skips this check.
        :raises TransactionAborted: (in the Deferred, as all of these) the offsets were refused; the message has the
            cause. If other members may read the partitions now, go back with :meth:`.Consumer.seek_to_committed`.
        :raises Fenced: the producer is fenced.
        :raises TransactionError: no transaction is open.
        """
        return Deferred.fromCoroutine(self._manager.send_offsets(offsets, group))
