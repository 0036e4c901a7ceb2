"""
The batches that a mirror has sent to the target within a transaction, and what the target answered about them.

They are written, and it is known where their records lie; or the transaction is given up: for another attempt, without
a record that the target does not take, or without a partition to which nothing can be written.
"""

from __future__ import annotations

from typing import NoReturn

from attrs import define, field, frozen

from logbus.client.cluster.cluster import Cluster
from logbus.client.producer.partition_queue import BatchWritten, ProducerBatch
from logbus.client.producer.transaction_errors import TransactionAborted
from logbus.errors import ApiError, ErrorCode
from logbus.mirror.batch_copy import BatchCopy
from logbus.mirror.copied_range import CopiedRange
from logbus.mirror.mirror_options import MirrorOptions
from logbus.mirror.missing_rights import lacks
from logbus.mirror.skipped_records import SkippedRecords
from logbus.mirror.source_reader import ADVICE, CopyFailed, SourceReader
from logbus.model import TopicPartition

_LASTING = frozenset(
    {
        *ADVICE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
)
"""Errors of a partition that trying again does not help."""
_LIMITS = {ErrorCode.MESSAGE_TOO_LARGE: "max.message.bytes", ErrorCode.RECORD_LIST_TOO_LARGE: "segment.bytes"}
"""Settings of the target's topic that limit the size of a batch, by the errors about them."""
_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""Errors of a copy that was deleted: topics are looked at again before the next transaction."""


class RecordTooLarge(CopyFailed):
    """The target does not take a record: the next transaction leaves it out, or ends before it."""


@frozen
class SentBatch:
    """
    A batch in the open transaction.

    :ivar partition: of the source.
    :ivar batch: in the producer; it has the outcome.
    """

    partition: TopicPartition
    copy: BatchCopy
    batch: ProducerBatch


@define(eq=False)
class SentBatches:
    """
    The batches of one transaction.

    :ivar reader: what is read; partitions to which nothing can be written are halted there.
    :ivar skipped: gets the records that the target does not take.
    """

    target: Cluster
    options: MirrorOptions
    reader: SourceReader
    skipped: SkippedRecords
    _batches: list[SentBatch] = field(factory=list, init=False)

    def add(self, sent: SentBatch) -> None:
        """Add a batch that was given to the producer."""
        self._batches.append(sent)

    async def ranges(self) -> dict[TopicPartition, list[CopiedRange]]:
        """
        The offsets of their records on both sides, once all have been answered.

        :raises RecordTooLarge: one was not written, and the next transaction goes on without a record of it.
        :raises CopyFailed: some were not written.
        """
        ranges: dict[TopicPartition, list[CopiedRange]] = {}
        for each in self._batches:
            outcome = each.batch.outcome
            if isinstance(outcome, BatchWritten) and outcome.base_offset >= 0:
                known = ranges.setdefault(each.partition, [])
                downstream = outcome.base_offset
                for upstream, count in each.copy.upstream:
                    one = CopiedRange(each.partition, upstream, downstream, count, upstream + count)
                    whole = known[-1].joined(one) if known else None
                    known[-1:] = [whole] if whole is not None else [*known[-1:], one]
                    downstream += count
                continue
            if isinstance(outcome, ApiError) and outcome.code in _LIMITS:
                await self._refuse(each, outcome)
            if isinstance(outcome, ApiError) and outcome.code in _LASTING:
                self.reader.halt(each.partition, f"{self._refusal(each, outcome)}; the others go on")
                raise CopyFailed(str(outcome)) from outcome
        outcomes = [(each.partition, each.batch.outcome) for each in self._batches]
        failed = [(partition, outcome) for partition, outcome in outcomes if not isinstance(outcome, BatchWritten)]
        # The first failure has the others dropped.
        for partition, outcome in sorted(failed, key=lambda each: isinstance(each[1], TransactionAborted)):
            if isinstance(outcome, ApiError) and outcome.code in _GONE:
                self.reader.refresh_at = 0.0
            raise CopyFailed(f"{partition}: {outcome}")
        if any(isinstance(outcome, BatchWritten) and outcome.base_offset < 0 for _, outcome in outcomes):
            raise CopyFailed("the target does not say at which offsets records are")
        return ranges

    async def _refuse(self, sent: SentBatch, error: ApiError) -> NoReturn:
        """
        Leave out a record that is too large, or stop its partition.

        :raises CopyFailed: always.
        """
        partition, (index, part) = sent.partition, sent.batch.failed_part
        if part.builder.count > 1:
            # It may have been written before; then it was not split.
            raise CopyFailed(f"{partition}: {error}") from error
        offset, size, setting = sent.copy.offset_of(index), len(part.builder.build()), _LIMITS[error.code]
        copy = self.reader.topics[partition.topic].copy
        limit = await self.reader.topic_sync.number_of_copy(copy, setting)
        if self.options.on_too_large == "skip":
            self.skipped.refuse(partition, offset, size, limit)
            raise RecordTooLarge(f"{partition} offset {offset}: {error}")
        why = f"a record of {size} bytes, of which {copy} at the target {self.options.target} takes " + (
            "fewer" if limit is None else f"{limit}"
        )
        reason = (
            f"{partition} offset {offset}: {why}; raise {setting} of {copy} to {size}, or have such records left out "
            f"by {self.options.said('on-too-large', 'skip')}; the others go on"
        )
        if not self.reader.has_reached(partition, offset):
            self.skipped.stop_before(partition, offset, reason)
            raise RecordTooLarge(reason)
        self.reader.halt(partition, reason)
        raise CopyFailed(str(error)) from error

    def _refusal(self, sent: SentBatch, error: ApiError) -> str:
        """The reason why the target does not take a batch, and what would be right."""
        what = f"{sent.partition} offset {sent.copy.upstream[0][0]}"
        if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            copy, where = self.reader.topics[sent.partition.topic].copy, f"the target {self.options.target}"
            return f"{what}: it cannot be written: {lacks(self.target, 'WRITE', f'topic {copy}', where)}"
        return f"{what}: {error}{ADVICE.get(error.code, '')}"
