"""Writes to the metadata store that only the current controller can make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import frozen

from logbus.errors import LogbusError
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import Check, Create, MultiFailed, Op, Set
from logbus.metastore.znodes import CONTROLLER_EPOCH

BATCH_BYTES = 512 * 1024
"""Of one transaction; ZooKeeper refuses more than 1 MB."""

BATCH_OPERATIONS = 1200
"""Of one transaction, unless one group has more: an embedded store applies them all in one turn of the reactor."""


class ControllerMoved(LogbusError):
    """Another broker is the controller now: nothing was written (Kafka: ControllerMovedException)."""


@frozen
class Fence:
    """
    The write access of one active controller.

    :ivar token: the version of ``/controller_epoch`` at its election; every transaction checks it.
    """

    store: IMetadataStore
    token: int

    async def write(self, groups: Iterable[Sequence[Op]]) -> None:
        """
        Apply operations, in as few transactions as their sizes allow; a group is never split.

        Groups are applied in order: after a failure those of the first transactions may have been.

        :raise ControllerMoved: at the first transaction that finds another controller epoch.
        :raise MultiFailed: an operation was refused: the state in memory is not that of the store.
        """
        batch: list[Op] = []
        size = 0
        for group in groups:
            bytes_more = sum(_size(op) for op in group)
            if batch and (size + bytes_more > BATCH_BYTES or len(batch) + len(group) > BATCH_OPERATIONS):
                await self._commit(batch)
                batch, size = [], 0
            batch.extend(group)
            size += bytes_more
        if batch:
            await self._commit(batch)

    async def _commit(self, ops: Sequence[Op]) -> None:
        try:
            await self.store.multi([Check(CONTROLLER_EPOCH, self.token), *ops])
        except MultiFailed as failed:
            if failed.index == 0:
                raise ControllerMoved(f"the controller epoch is another one: {failed.error}") from None
            raise


def _size(op: Op) -> int:
    return 64 + len(op.path) + (len(op.data) if isinstance(op, Create | Set) else 0)
