"""
The first record of a session: marks the end of what mirrors of this name have written before it.

A leader that has been replaced, and does not know that yet, may answer where a partition ends, without the last offset
syncs; a session that begins before these copies records twice. So a session writes a record of its own, which only
the true leader takes, and reads up to that.
"""

from __future__ import annotations

from collections.abc import Callable

from logbus.client.cluster.cluster import Cluster
from logbus.client.producer.producer import Producer
from logbus.client.producer.producer_record import DeliveryFailed
from logbus.client.producer.transaction_errors import ProducerUnusable, TransactionAborted
from logbus.client.retry import is_retriable
from logbus.coroutines import sleep
from logbus.errors import LogbusError
from logbus.mirror.mirror_records import BEGUN
from logbus.mirror.mirror_status import MirrorStatus


async def begin_session(
    target: Cluster,
    producer: Producer,
    topic: str,
    status: MirrorStatus,
    wall_clock: Callable[[], float],
    is_stopping: Callable[[], bool],
) -> int:
    """
    Write the record; returns its offset.

    :param producer: which has fenced the mirrors before.
    :param topic: that of the offset syncs.
    :param is_stopping: whether to try no more.
    :raises LogbusError: the target does not take it, and will not.
    """
    failures = 0
    while True:
        try:
            async with producer.transaction():
                now_ms = int(wall_clock() * 1000)
                sent = await producer.send(topic, BEGUN.value, BEGUN.key, partition=0, timestamp=now_ms)
        except LogbusError as e:
            cause = e.__cause__ if isinstance(e, TransactionAborted) else e
            lasts = cause is None or not (is_retriable(cause) or isinstance(cause, DeliveryFailed))
            if isinstance(e, ProducerUnusable) or lasts or is_stopping():
                raise
            status.problem("session", f"the target does not take what a mirror begins with: {cause}; still trying")
        else:
            # Of a record that was written by an earlier attempt the offset is not known.
            if sent.offset >= 0:
                return sent.offset
        failures += 1
        await sleep(target.reactor, target.backoff.before(failures))
