"""A producer's transaction for asyncio: ``async with producer.transaction()``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from logbus.client.aio.awaiting import outcome, run
from logbus.client.group_metadata import CommittedOffset, GroupMetadata
from logbus.client.producer import transaction as core
from logbus.model import TopicPartition

if TYPE_CHECKING:
    from logbus.client.aio.consumer import Consumer


class Transaction:
    """
    One transaction, for ``async with``: committed at the end of the block, or aborted if the block is left with an
    error or cancelled. :meth:`~logbus.client.aio.Producer.transaction` makes it.
    """

    def __init__(self, transaction: core.Transaction, check_loop: Callable[[], object]) -> None:
        self._core = transaction
        self._check_loop = check_loop

    async def __aenter__(self) -> Transaction:
        self._check_loop()
        try:
            await run(self._begin())
        except asyncio.CancelledError as e:
            # It may have begun just then.
            await run(self._core.__aexit__(type(e), e, e.__traceback__))
            raise
        return self

    async def _begin(self) -> None:
        await self._core.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await run(self._core.__aexit__(kind, error, traceback))

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | CommittedOffset] | Consumer[Any, Any],
        group: GroupMetadata | str | None = None,
    ) -> None:
        """
        Commit a group's offsets with the transaction.

        :param offsets: a consumer: the offsets after the records that it delivered since the last transaction, by the
            member that it was then. If one of their partitions was revoked since, the transaction is aborted. After an
            abort the consumer goes back to the committed offsets. Or the next offset to read, for each partition.
        :param group: of offsets that are given: the result of :meth:`~logbus.client.aio.Consumer.group_metadata`,
            taken when all records of the transaction had been delivered; so a consumer that lost its
            partitions cannot commit for them. A group id alone skips this check.
        :raises TransactionAborted: the offsets were refused; the message has the cause. If other members may read the
            partitions now, go back with :meth:`~logbus.client.aio.Consumer.seek_to_committed`.
        :raises Fenced: the producer is fenced.
        :raises TransactionError: no transaction is open.
        """
        source: Any = offsets if isinstance(offsets, Mapping) else getattr(offsets, "_core", offsets)
        await outcome(self._core.send_offsets(source, group))
