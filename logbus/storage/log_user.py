"""The user of a broker's logs, which the log manager asks and tells what concerns them."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from logbus.model import TopicPartition
from logbus.storage.log import Log
from logbus.storage.log_mover import Swap


class LogUser(Protocol):
    """The user of a broker's logs: its replicas (:class:`.ReplicaManager`)."""

    def high_watermark_of(self, log: Log) -> int:
        """A log's high watermark now; called before retention, compaction and checkpoints."""

    def swap_log(self, name: TopicPartition, swap: Swap) -> Awaitable[None]:
        """Run ``swap`` while the partition can get no other log or role."""

    def directory_failed(self, topic_partitions: Sequence[TopicPartition], reason: str) -> None:
        """A log directory went offline, and these partitions with it."""


class NoLogUser(LogUser):
    """The default: logs that nothing else uses, with the high watermarks of their checkpoints."""

    def high_watermark_of(self, log: Log) -> int:
        return log.high_watermark

    async def swap_log(self, name: TopicPartition, swap: Swap) -> None:
        await swap()
