"""
Loads a shard of transactional ids from its log, and waits until everything read is durable (Kafka: CoordinatorLoader).
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from logbus.coordination.transactions.transaction_metadata import TransactionMetadata
from logbus.coordination.transactions.transaction_records import decode_key, decode_value
from logbus.coordination.transactions.transaction_shard import TransactionShard
from logbus.errors import ApiError
from logbus.metrics import metric
from logbus.net.time_slices import TimeSlice

RETRY_SECONDS = 0.5
"""Delay before durability is checked again."""

_log = Logger()


@define
class TransactionCoordinatorMetrics:
    """
    Counters of the transaction coordinator.

    :ivar committed: transactions whose commit was decided; ``aborted``: whose abort was.
    :ivar timed_out: aborted transactions that had exceeded their timeout.
    :ivar expired: transactional ids that have expired.
    :ivar loads: partitions loaded, in ``load_seconds`` in all; ``damaged`` places were skipped.
    """

    committed: int = metric("logbus_transactions_committed_total", "Transactions that this broker decided to commit.")
    aborted: int = metric("logbus_transactions_aborted_total", "Transactions that this broker decided to abort.")
    timed_out: int = metric("logbus_transactions_timed_out_total", "Transactions aborted after their timeout.")
    expired: int = metric("logbus_transactional_ids_expired_total", "Expired transactional ids.")
    loads: int = metric("logbus_transaction_loads_total", "Loaded partitions of __transaction_state.")
    load_seconds: float = metric(
        "logbus_transaction_load_seconds_total", "Time spent loading partitions of __transaction_state."
    )
    damaged: int = metric(
        "logbus_transaction_records_damaged_total", "Damaged records skipped while loading __transaction_state."
    )


async def load(
    shard: TransactionShard,
    slice_bytes: int,
    clock: IReactorTime,
    metrics: TransactionCoordinatorMetrics,
    wanted: Callable[[], bool],
) -> bool:
    """
    Load a shard.

    :param slice_bytes: how much is read at a time.
    :param wanted: called at every turn; False cancels the load.
    :return: whether the load is complete.
    """
    began = clock.seconds()
    found: dict[str, TransactionMetadata] = {}

    def apply(key: bytes | None, value: bytes | None) -> None:
        transactional_id = decode_key(key)
        if value is None:
            found.pop(transactional_id, None)
        else:
            found[transactional_id] = decode_value(transactional_id, value)

    loaded = await shard.log.load(apply, slice_bytes, wanted)
    metrics.damaged += loaded.skipped
    # A former leader may have written records that are not on all in-sync replicas yet. Acting on records that are lost
    # later would be wrong.
    while wanted():
        try:
            await shard.log.durable()
            break
        except ApiError as e:
            _log.warn(
                "{partition}: the load waits for durability: {why}", partition=shard.log.replica.topic_partition, why=e
            )
            await deferLater(clock, RETRY_SECONDS)
    if not wanted():
        return False
    async for transaction in TimeSlice(shard.log.slices).over(found.values()):
        if not wanted():
            return False
        shard.apply(transaction)
    seconds = clock.seconds() - began
    metrics.loads += 1
    metrics.load_seconds += seconds
    if loaded.records or loaded.skipped:
        _log.info(
            "{partition}: loaded {ids} transactional ids, {ongoing} of them with an ongoing transaction, from {records}"
            " records in {seconds:.3f} s",
            partition=shard.log.replica.topic_partition,
            ids=len(shard.entries),
            ongoing=len(shard.ongoing),
            records=loaded.records,
            seconds=seconds,
        )
    return True
