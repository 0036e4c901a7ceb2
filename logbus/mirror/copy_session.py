"""
Copies records in transactions at the target, from where the last committed one ended.

A transaction has the records, and the offset syncs that say where they lie on both sides; so each record is copied
exactly once. If a transaction is aborted, the session reads again from where it began. If its outcome is not known, or
the producer cannot go on, the session fails, and another one looks into the target.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.defer import TimeoutError as DeferredTimeout

from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer_record import Fetched
from logbus.client.consumer.fetch_options import FetchOptions
from logbus.client.consumer.fetcher import Fetcher
from logbus.client.consumer.partition_position import Position, reset_position
from logbus.client.list_offsets import EARLIEST, LATEST, list_offsets_with_retries
from logbus.client.producer.partition_queue import BatchWritten, ProducerBatch
from logbus.client.producer.producer import Producer
from logbus.client.producer.transaction_errors import TransactionAborted
from logbus.coroutines import sleep
from logbus.errors import ApiError, DecodeError, ErrorCode, LogbusError
from logbus.mirror.batch_copy import BatchCopy, batch_copies
from logbus.mirror.copied_range import CopiedRange
from logbus.mirror.mirror_options import MirrorOptions
from logbus.mirror.mirror_status import MirrorStatus
from logbus.mirror.position_store import CopiedPartition, read_positions
from logbus.mirror.topic_sync import MirroredTopic, TopicSync
from logbus.model import TopicPartition
from logbus.records.batch import BatchBuilder

_FETCHED = 64 * 1024 * 1024
"""Bytes of the source that are read ahead."""
_SYNCS = 16
"""The most ranges of a partition in one transaction whose offset syncs are written: the last ones."""
_IDLE = 0.01
"""Seconds that an open transaction waits for more records when all that was fetched is copied."""

_ADVICE = {
    ErrorCode.MESSAGE_TOO_LARGE: "; raise max.message.bytes of the target's topic",
    ErrorCode.RECORD_LIST_TOO_LARGE: "; raise max.message.bytes of the target's topic",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "; the mirror needs READ at the source, and WRITE at the target",
    ErrorCode.INVALID_RECORD: "; the target's topic asks for what these records do not have, such as keys if it is "
    "compacted",
    ErrorCode.INVALID_TIMESTAMP: "; raise message.timestamp.before.max.ms and message.timestamp.after.max.ms of the "
    "target's topic",
}


_LASTING = frozenset(
    {*_ADVICE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.POLICY_VIOLATION, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}
)
"""Errors of a partition that trying again does not help."""
_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class _CopyFailed(LogbusError):
    """A batch was not written; the transaction has to be aborted."""


@define
class _Sent:
    """A batch in the open transaction."""

    partition: TopicPartition
    copy: BatchCopy
    batch: ProducerBatch


@define(eq=False)
class CopySession:
    """
    One producer's life.

    :ivar copied: what the target has, by partition of the source; as of the last committed transaction.
    """

    source: Cluster
    target: Cluster
    options: MirrorOptions
    status: MirrorStatus
    wall_clock: Callable[[], float] = time.time
    copied: dict[TopicPartition, CopiedPartition] = field(factory=dict, init=False)
    topics: dict[str, MirroredTopic] = field(factory=dict, init=False)
    stopping: bool = field(default=False, init=False)
    _fetcher: Fetcher = field(init=False)
    _producer: Producer = field(init=False)
    _halted: dict[TopicPartition, str] = field(factory=dict, init=False)
    _ends: dict[TopicPartition, int] = field(factory=dict, init=False)
    _reached: dict[TopicPartition, int] = field(factory=dict, init=False)
    _refresh_at: float = field(default=0.0, init=False)
    _failures: int = field(default=0, init=False)
    _waiting: Deferred[Any] | None = field(default=None, init=False)

    async def run(self) -> None:
        """
        Copy until :meth:`stop`, or the end.

        :raises Fenced: another mirror of this name has begun.
        :raises LogbusError: something has to begin anew.
        """
        options = self.options
        self._producer = Producer(
            self.target,
            transactional_id=options.transactional_id,
            linger=0.0,
            buffer_bytes=2 * options.transaction_bytes + _FETCHED,
        )
        self._fetcher = Fetcher(
            self.source, FetchOptions(isolation="read_committed", reset="none", encoded=True, queue_bytes=_FETCHED)
        )
        try:
            # The first transaction fences a mirror of this name, and waits for the end of its last transaction.
            async with self._producer.transaction():
                pass
            syncs = options.policy.offset_syncs_topic
            await self._topic_sync.create_internal(syncs)
            self.copied = await read_positions(self.target, syncs)
            await self._refresh()
            while not self.stopping and not self._is_at_end():
                await self._step()
        finally:
            self._fetcher.close()
            self._producer.abort()

    def stop(self) -> None:
        """End after the open transaction."""
        self.stopping = True
        if self._waiting is not None:
            self._waiting.cancel()

    # Topics and positions.

    @property
    def _topic_sync(self) -> TopicSync:
        return TopicSync(self.source, self.target, self.options, self.status)

    async def _refresh(self) -> None:
        """Look up topics, and begin with their new partitions and with those that were halted."""
        self._refresh_at = self.source.reactor.seconds() + self.options.refresh_interval
        is_first = not self.topics
        self.topics = await self._topic_sync.refresh()
        partitions = [TopicPartition(each.name, n) for each in self.topics.values() for n in range(each.partitions)]
        present = self._fetcher.assigned.partitions
        new: dict[TopicPartition, Position] = {}
        for each in partitions:
            if each in present and self._is_same(each):
                continue
            position = self._beginning(each)
            if position is not None:
                new[each] = position
        gone = present - set(partitions)
        self._fetcher.remove(gone)
        for each in gone:
            self.status.ends.pop(each, None)
        if self.options.until_end and is_first:
            self._ends = await self._offsets(partitions, LATEST)
            new.update(await self._offsets([each for each in partitions if new.get(each) == EARLIEST], EARLIEST))
            new.update({each: self._ends[each] for each in partitions if new.get(each) == LATEST})
        self._halted = {each: reason for each, reason in self._halted.items() if each not in new}
        for each, where in new.items():
            if isinstance(where, int) and where >= 0:
                self._reached[each] = self.status.positions[each] = where
        self._fetcher.add(new)

    def _beginning(self, partition: TopicPartition) -> Position | None:
        """Where to begin in a partition; None: nowhere."""
        topic, known = self.topics[partition.topic], self.copied.get(partition)
        if known is not None and known.ids.target != topic.ids.target and known.ids.target.int:
            self.status.say(f"{partition}: {topic.copy} was created anew at the target; copying from the beginning")
            del self.copied[partition]
            known = None
        if known is None:
            self.status.solved(f"{topic.name} at the source")
            return reset_position(self.options.start)
        if known.ids.source != topic.ids.source and known.ids.source.int:
            what = f"topic {topic.name}: it was deleted and created anew at the source"
            if self.options.on_recreated == "stop":
                self.status.problem(
                    f"{topic.name} at the source",
                    f"{what}; delete {topic.copy} at the target to have it copied from the beginning, or say "
                    "--on-recreated continue to have the new records behind the old ones",
                )
                return None
            self.status.say(f"{what}; its records come behind those that were copied")
            return EARLIEST
        self.status.solved(f"{topic.name} at the source")
        return known.next_offset

    def _is_same(self, partition: TopicPartition) -> bool:
        """Whether a partition that is read is still that of which records were copied."""
        known = self.copied.get(partition)
        return known is None or known.ids == self.topics[partition.topic].ids

    async def _offsets(self, partitions: list[TopicPartition], when: int) -> dict[TopicPartition, int]:
        found = await list_offsets_with_retries(self.source, dict.fromkeys(partitions, when), committed=True)
        return {partition: answer.offset for partition, answer in found.items()}

    def _is_at_end(self) -> bool:
        if not self.options.until_end:
            return False
        return all(self._reached.get(each, 0) >= end or each in self._halted for each, end in self._ends.items())

    # Copying.

    async def _step(self) -> None:
        """One transaction, or nothing for a while."""
        clock = self.source.reactor
        if clock.seconds() >= self._refresh_at:
            await self._refresh()
        if not await self._data_within(self._refresh_at - clock.seconds()):
            return
        began = clock.seconds()
        fetched = self._take()
        while fetched is not None and not fetched.batches:
            self._advance(fetched)
            fetched = self._take()
        if fetched is None:
            return
        passed: dict[TopicPartition, int] = {}
        try:
            size = await self._transact(fetched, began, passed)
        except (_CopyFailed, TransactionAborted) as e:
            self.status.aborted += 1
            self._failures += 1
            self._go_back(passed)
            if not self._halted:
                self.status.problem("transactions", f"a transaction was aborted, and is tried again: {e}")
            await sleep(clock, self.target.backoff.before(self._failures))
            return
        self._failures = 0
        self.status.solved("transactions")
        if self.options.rate is not None:
            await self._pause(began + size / self.options.rate - clock.seconds())

    async def _transact(self, fetched: Fetched | None, began: float, passed: dict[TopicPartition, int]) -> int:
        """
        Copy what is fetched within a transaction; returns its bytes.

        :param passed: gets the next offset of each partition of which something was taken.
        """
        clock, sent, size = self.source.reactor, list[_Sent](), 0
        most = self.options.transaction_bytes
        if self.options.rate is not None:
            most = min(most, max(1, self.options.rate))
        async with self._producer.transaction():
            while True:
                if fetched is not None:
                    self._copy(fetched, sent)
                    passed[fetched.partition] = fetched.next_offset
                    size += fetched.size
                    self.status.ends[fetched.partition] = fetched.high_watermark
                if self.stopping or size >= most or clock.seconds() - began >= self.options.interval:
                    break
                if not await self._data_within(_IDLE):
                    break
                fetched = self._take()
            await self._producer.flush()
            ranges = self._written(sent)
            await self._write_syncs(ranges)
        self._committed(ranges, passed)
        self.status.size += size
        return size

    def _copy(self, fetched: Fetched, sent: list[_Sent]) -> None:
        partition = fetched.partition
        copy_of = TopicPartition(self.topics[partition.topic].copy, partition.partition)
        try:
            for copy in batch_copies(fetched.batches):
                self.status.encoded_again += isinstance(copy.builder, BatchBuilder)
                sent.append(_Sent(partition, copy, self._producer.put_batch(copy_of, copy.builder)))
        except (DecodeError, ApiError) as e:
            self._halt(partition, f"{partition}: a batch cannot be read: {e}")
            raise _CopyFailed(str(e)) from e

    def _written(self, sent: list[_Sent]) -> dict[TopicPartition, list[CopiedRange]]:
        """
        Where the records of a transaction lie.

        :raises _CopyFailed: some were not written.
        """
        ranges: dict[TopicPartition, list[CopiedRange]] = {}
        for each in sent:
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
            if isinstance(outcome, ApiError) and outcome.code in _LASTING:
                first = each.copy.upstream[0][0]
                advice = _ADVICE.get(outcome.code, "")
                self._halt(each.partition, f"{each.partition} offset {first}: {outcome}{advice}; the others go on")
                raise _CopyFailed(str(outcome)) from outcome
        failed = [each for each in sent if not isinstance(each.batch.outcome, BatchWritten)]
        # The first failure has the others dropped.
        for each in sorted(failed, key=lambda each: isinstance(each.batch.outcome, TransactionAborted)):
            if isinstance(each.batch.outcome, ApiError) and each.batch.outcome.code in _GONE:
                self._refresh_at = 0.0
            raise _CopyFailed(f"{each.partition}: {each.batch.outcome}")
        if any(isinstance(each.batch.outcome, BatchWritten) and each.batch.outcome.base_offset < 0 for each in sent):
            raise _CopyFailed("the target does not say at which offsets records are")
        return ranges

    async def _write_syncs(self, ranges: Mapping[TopicPartition, list[CopiedRange]]) -> None:
        topic = await self.target.topic(self.options.policy.offset_syncs_topic)
        now_ms = int(self.wall_clock() * 1000)
        for partition, theirs in ranges.items():
            ids = self.topics[partition.topic].ids
            for each in theirs[-_SYNCS:]:
                sync = each.sync()
                self._producer.put(
                    topic, sync.value, sync.key, timestamp=now_ms, partition=0, headers=each.headers(ids)
                )

    def _committed(
        self, ranges: Mapping[TopicPartition, list[CopiedRange]], passed: Mapping[TopicPartition, int]
    ) -> None:
        status = self.status
        status.transactions += 1
        for partition, theirs in ranges.items():
            ids = self.topics[partition.topic].ids
            known = self.copied.setdefault(partition, CopiedPartition(0, ids))
            for each in theirs:
                known.add(each, ids)
                status.records += each.count
            if partition not in self._halted:
                status.solved(partition)
        for partition, offset in passed.items():
            self._reached[partition] = status.positions[partition] = offset

    # What was fetched.

    def _take(self) -> Fetched | None:
        """What was fetched of some partition; None: nothing that can be copied."""
        assigned = self._fetcher.assigned
        while assigned.has_data:
            partition = assigned.next.partition
            topic, known = self.topics.get(partition.topic), self.source.known(partition.topic)
            if topic is None or (known is not None and known.topic_id != topic.ids.source):
                # It was created anew since: what to do about that is found out with the topics.
                self._fetcher.remove([partition])
                self._refresh_at = 0.0
                continue
            if (position := assigned.position(partition)) is not None:
                self._reached.setdefault(partition, position)
            try:
                return self._fetcher.take()
            except ApiError as e:
                self._handle_error(partition, e)
        return None

    def _advance(self, fetched: Fetched) -> None:
        """Note that offsets without records were passed."""
        partition = fetched.partition
        self._reached[partition] = self.status.positions[partition] = fetched.next_offset
        self.status.ends[partition] = fetched.high_watermark

    def _handle_error(self, partition: TopicPartition, error: ApiError) -> None:
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._fetcher.remove([partition])
            Deferred.fromCoroutine(self._find_place(partition)).addErrback(
                lambda failure: self._halt(partition, f"{partition}: {failure.getErrorMessage()}")
            )
            return
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._fetcher.remove([partition])
            self._refresh_at = 0.0
            self.status.say(f"{partition}: it is not at the source any more")
            return
        advice = _ADVICE.get(error.code, "")
        self._halt(partition, f"{partition}: it cannot be read: {error}{advice}; the others go on")

    async def _find_place(self, partition: TopicPartition) -> None:
        """Go on where the source still has records."""
        position = self._reached.get(partition, 0)
        first = (await self._offsets([partition], EARLIEST))[partition]
        end = (await self._offsets([partition], LATEST))[partition]
        if position < first:
            lost = f"offsets {position} to {first - 1} were deleted at the source before they were copied"
            place = first
        else:
            lost = f"the source ends at offset {end}, and {position} were copied: it has lost some of these"
            place = end
        self.status.say(f"{partition}: {lost}; going on at {place}")
        self._reached[partition] = self.status.positions[partition] = place
        self._fetcher.add({partition: place})

    def _halt(self, partition: TopicPartition, reason: str) -> None:
        """Copy nothing of a partition until topics are looked up again."""
        self._halted[partition] = reason
        self._fetcher.remove([partition])
        self.status.problem(partition, reason)

    def _go_back(self, passed: Mapping[TopicPartition, int]) -> None:
        """Read again what an aborted transaction had."""
        present = self._fetcher.assigned.partitions
        self._fetcher.add({each: self._reached[each] for each in passed if each in present})

    # Time.

    async def _data_within(self, seconds: float) -> bool:
        """Whether something can be taken within a time."""
        if self._fetcher.assigned.has_data:
            return True
        if self.stopping or seconds <= 0:
            return False
        return await self._wait(self._fetcher.wait(), seconds)

    async def _pause(self, seconds: float) -> None:
        if seconds > 0 and not self.stopping:
            await self._wait(sleep(self.source.reactor, seconds), seconds + 1)

    async def _wait(self, event: Deferred[None], seconds: float) -> bool:
        """Wait for an event; False if time is over, or the session is to stop."""
        self._waiting = event.addTimeout(seconds, self.source.reactor)
        try:
            await self._waiting
        except DeferredTimeout:
            return False
        except CancelledError:
            if not self.stopping:
                raise
            return False
        finally:
            self._waiting = None
        return True
