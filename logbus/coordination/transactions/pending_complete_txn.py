"""
A transaction whose markers are being sent (Kafka: PendingCompleteTxn).
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from logbus.coordination.transactions.end_transaction_marker import EndTransactionMarker
from logbus.coordination.transactions.transaction_metadata import TransactionMetadata
from logbus.coordination.transactions.transaction_shard import TransactionShard
from logbus.model import TopicPartition
from logbus.timers import Timer, Timers

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.05, 1.0
"""Seconds before failed markers are sent again; the pause doubles up to the longest."""


@define(eq=False)
class PendingCompleteTxn:
    """
    Its decision is durable; the completion is not written yet.

    :ivar left: the partitions without a marker.
    :ivar waiting: the partitions that are tried again when :attr:`timer` fires.
    :ivar over: nothing more is sent.
    """

    shard: TransactionShard
    transaction: TransactionMetadata
    end_marker: EndTransactionMarker
    left: set[TopicPartition]
    waiting: set[TopicPartition] = field(factory=set)
    timer: Timer | None = None
    pause: float = FIRST_RETRY_SECONDS
    over: bool = False

    def try_later(self, timers: Timers, try_again: Callable[[], None]) -> None:
        """Set the timer, unless it is set."""
        if self.timer is None:
            self.timer = timers.call_later(self.pause, try_again)
            self.pause = min(2 * self.pause, MAX_RETRY_SECONDS)

    def end(self) -> None:
        """Send nothing more."""
        self.over = True
        if self.timer is not None:
            self.timer.cancel()
