"""
How a shard comes back: its log is read, and nothing is done before what it says is known to last.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from logbus.coordination.transactions.records import decode_key, decode_value
from logbus.coordination.transactions.shard import TransactionShard
from logbus.coordination.transactions.transaction import Transaction
from logbus.errors import ApiError

RETRY_SECONDS = 0.5
"""How long to wait with what is not known to last."""

_log = Logger()


@define
class TransactionMetrics:
    """
    What happened so far.

    :ivar committed: transactions whose commit was decided; ``aborted``: whose abort was.
    :ivar timed_out: those of the latter that took too long.
    :ivar expired: transactional ids forgotten for their age.
    :ivar loads: partitions read back; ``load_seconds`` is what that took, ``damaged`` how much was passed over.
    """

    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    expired: int = 0
    loads: int = 0
    load_seconds: float = 0.0
    damaged: int = 0


async def load(
    shard: TransactionShard,
    slice_bytes: int,
    clock: IReactorTime,
    metrics: TransactionMetrics,
    wanted: Callable[[], bool],
) -> bool:
    """
    Read a shard back.

    :param slice_bytes: how much is read at a time.
    :param wanted: asked at every turn; False calls it off.
    :return: whether it is all there.
    """
    began = clock.seconds()
    found: dict[str, Transaction] = {}

    def take_in(key: bytes | None, value: bytes | None) -> None:
        transactional_id = decode_key(key)
        if value is None:
            found.pop(transactional_id, None)
        else:
            found[transactional_id] = decode_value(transactional_id, value)

    loaded = await shard.log.load(take_in, slice_bytes, wanted)
    metrics.damaged += loaded.skipped
    # A former leader may have written what is not on all in-sync replicas. Acting on it would be wrong if it got lost.
    while wanted():
        try:
            await shard.log.durable()
            break
        except ApiError as e:
            _log.warn("{partition}: loading waits: {why}", partition=shard.log.replica.topic_partition, why=e)
            await deferLater(clock, RETRY_SECONDS)
    if not wanted():
        return False
    for transaction in found.values():
        shard.hold(transaction)
    seconds = clock.seconds() - began
    metrics.loads += 1
    metrics.load_seconds += seconds
    if loaded.records or loaded.skipped:
        _log.info(
            "{partition}: {ids} transactional ids are back, {ongoing} of them with a transaction, of {records} records,"
            " after {seconds:.3f} s",
            partition=shard.log.replica.topic_partition,
            ids=len(shard.entries),
            ongoing=len(shard.ongoing),
            records=loaded.records,
            seconds=seconds,
        )
    return True
