"""A producer's transaction, as the application uses it: ``async with producer.transaction()``."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.client.group_metadata import CommittedOffset, GroupMetadata
from logbus.client.producer.transaction_errors import ProducerUnusable
from logbus.client.producer.transaction_manager import TransactionManager
from logbus.errors import LogbusError
from logbus.model import TopicPartition


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
