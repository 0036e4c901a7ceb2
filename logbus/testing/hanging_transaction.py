"""Transactions that hang: begun, written to, and given up by their producer without an end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logbus.client import Cluster


async def hang_transaction(
    cluster: Cluster, topic: str, partition: int, transactional_id: str, transaction_timeout: float, value: bytes
) -> None:
    """
    Begin a transaction, write a record in it, and leave it open.

    :param transaction_timeout: seconds after which the coordinator aborts it.
    """
    from logbus.client.producer.producer import Producer

    producer = Producer(cluster, transactional_id=transactional_id, transaction_timeout=transaction_timeout, linger=0.0)
    try:
        await producer.transaction().__aenter__()
        await producer.send(topic, value, partition=partition)
    finally:
        producer.abort()
