"""
Waits until the batches of a Produce with ``acks=all`` are durable on all in-sync replicas (Kafka: DelayedProduce).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from logbus.cluster.replication.replica_manager import Replica
from logbus.errors import ApiError, StorageError
from logbus.handlers.produce_errors import api_error, not_durable_in_time
from logbus.net.time_slices import TimeSlice
from logbus.wire.messages.records import PartitionProduceResponse

UNITS_TO_APPEND = 4
"""Cost of appending, refusing or waiting for a batch, in units of a time slice."""

Written = tuple[str, PartitionProduceResponse, Replica]
"""An appended batch: its topic, its response, and the replica that has it."""

Waiting = tuple[str, list[PartitionProduceResponse], Deferred[None]]
"""The batches of a replica that are not durable yet: their topic, their responses, and when they are."""


def not_durable_yet(written: Iterable[Written]) -> list[Waiting]:
    """The batches among some that must be waited for, by replica."""
    by_replica: dict[Replica, list[PartitionProduceResponse]] = {}
    for _, answer, replica in written:
        by_replica.setdefault(replica, []).append(answer)
    waiting: list[Waiting] = []
    for replica, answers in by_replica.items():
        durable = replica.durable()
        if durable is not None:
            waiting.append((replica.topic_partition.topic, answers, durable))
    return waiting


async def wait_until_durable(
    waiting: Sequence[Waiting],
    clock: IReactorTime,
    timeout_ms: int,
    refuse: Callable[[PartitionProduceResponse, str, ApiError], None],
    time_slice: TimeSlice | None,
) -> None:
    """
    Wait until all batches are durable, or have failed.

    :param timeout_ms: after this time, those that are not durable fail with REQUEST_TIMED_OUT.
    :param refuse: sets the error of a batch's response, given the response, the topic and the error.
    :param time_slice: the time slice of a request of many batches.
    """
    seconds = max(timeout_ms, 0) / 1000
    all_durable: Deferred[None] = Deferred()
    left, is_late = len(waiting), False

    def ended(_: object) -> None:
        nonlocal left
        left -= 1
        if not left and not all_durable.called:
            all_durable.callback(None)

    def failed(failure: Failure, topic: str, answers: list[PartitionProduceResponse]) -> None:
        error: Any = failure.value
        if is_late and failure.check(CancelledError):
            error = not_durable_in_time(seconds)
        if isinstance(error, (ApiError, StorageError)):
            for answer in answers:
                answer.base_offset = answer.log_start_offset = -1
                refuse(answer, topic, api_error(error))
        elif not all_durable.called:
            all_durable.errback(failure)

    def late() -> None:
        nonlocal is_late
        is_late = True
        for _, _, durable in waiting:
            durable.cancel()

    # One for all, which are mostly acknowledged together, by the same fetch of a follower.
    timer = clock.callLater(seconds, late)
    try:
        for topic, answers, durable in waiting:
            durable.addErrback(failed, topic, answers).addCallback(ended)
            if time_slice is not None and time_slice.used(UNITS_TO_APPEND):
                await time_slice.next()
        await all_durable
    except Exception:
        # The client has disconnected. (This must not run when the coroutine is garbage-collected, since the
        # cancellation would resume it.)
        for each in (all_durable, *(durable for _, _, durable in waiting)):
            each.addErrback(lambda _: None)
            each.cancel()
        raise
    finally:
        if timer.active():
            timer.cancel()
