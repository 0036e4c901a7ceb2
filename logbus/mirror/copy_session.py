"""
Copies records in transactions at the target, from where the last committed one ended.

A transaction has the records, and the offset syncs that say where they lie on both sides; so each record is copied
exactly once. If a transaction is aborted, the session reads again from where it began. If its outcome is not known, or
the producer cannot go on, the session fails, and another one looks into the target.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.defer import TimeoutError as DeferredTimeout

from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer_record import Fetched
from logbus.client.producer.producer import Producer
from logbus.client.producer.transaction_errors import Fenced, TransactionAborted
from logbus.coroutines import sleep
from logbus.errors import ApiError, DecodeError
from logbus.mirror.batch_copy import batch_copies
from logbus.mirror.copied_range import CopiedRange
from logbus.mirror.mirror_options import MirrorOptions, Taken, nobody
from logbus.mirror.mirror_status import MirrorState, MirrorStatus
from logbus.mirror.missing_rights import what_session_lacks
from logbus.mirror.position_store import CopiedPartition, read_positions, read_skipped
from logbus.mirror.sent_batches import RecordTooLarge, SentBatch, SentBatches
from logbus.mirror.session_start import begin_session
from logbus.mirror.skipped_records import SkippedRecord, SkippedRecords, left_out_lines
from logbus.mirror.source_reader import READ_AHEAD, CopyFailed, SourceReader
from logbus.mirror.start_positions import Begun
from logbus.mirror.target_state import TargetSetBack, is_set_back
from logbus.mirror.topic_sync import TopicSync
from logbus.model import NO_EPOCH, TopicPartition
from logbus.records.batch import BatchBuilder

_SYNCS = 16
"""The most ranges of a partition in one transaction whose offset syncs are written: the last ones."""
_IDLE = 0.01
"""Seconds that an open transaction waits for more records when all that there was is copied."""

_SLOW = 10.0
"""Seconds beyond its time after which it is said that a transaction does not end."""


@define(eq=False)
class CopySession:
    """
    One producer's life.

    :ivar begun: as of :class:`.SourceReader`.
    :ivar reader: what is read, and how far.
    :ivar stopping: it ends after the open transaction.
    """

    source: Cluster
    target: Cluster
    options: MirrorOptions
    status: MirrorStatus
    wall_clock: Callable[[], float] = time.time
    taken: Taken = nobody
    begun: Begun = field(factory=dict)
    reader: SourceReader = field(init=False)
    stopping: bool = field(default=False, init=False)
    _producer: Producer = field(init=False)
    _skipped: SkippedRecords = field(factory=SkippedRecords, init=False)
    _failures: int = field(default=0, init=False)
    _waiting: Deferred[Any] | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        topic_sync = TopicSync(self.source, self.target, self.options, self.status)
        self.reader = SourceReader(self.source, self.options, self.status, topic_sync, self.taken, self.begun)

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
            buffer_bytes=2 * options.transaction_bytes + READ_AHEAD,
        )
        reader = self.reader
        try:
            # The first transaction fences a mirror of this name, and waits for the end of its last transaction.
            async with self._producer.transaction():
                pass
            syncs = options.policy.offset_syncs_topic
            await reader.topic_sync.create_internal(syncs)
            begun = await begin_session(
                self.target, self._producer, syncs, self.status, self.wall_clock, lambda: self.stopping
            )
            self.status.solved("session")
            reader.copied.update(await read_positions(self.target, syncs, begun))
            if options.on_too_large == "skip":
                await reader.topic_sync.create_internal(options.policy.skipped_records_topic)
            self._skipped = await read_skipped(self.target, options.policy.skipped_records_topic)
            await reader.refresh()
            self.status.state = MirrorState.RUNNING
            while not self.stopping and not reader.is_at_end():
                await self._step()
        except Fenced as e:
            if await is_set_back(self.target, options.transactional_id, self._producer.producer_id):
                what = f"the target {options.target} was set back to an older state, or has lost its transactions"
                raise TargetSetBack(what) from e
            raise
        finally:
            reader.close()
            self._producer.abort()

    def stop(self) -> None:
        """End after the open transaction."""
        self.stopping = True
        if self._waiting is not None:
            self._waiting.cancel()

    # Copying.

    async def _step(self) -> None:
        """One transaction, or nothing for a while."""
        clock = self.source.reactor
        await self.reader.find_places()
        if clock.seconds() >= self.reader.refresh_at:
            await self.reader.refresh()
        if not await self._data_within(self.reader.refresh_at - clock.seconds()):
            return
        began = clock.seconds()
        fetched = self.reader.take()
        while fetched is not None and not fetched.batches:
            self.reader.advance(fetched)
            fetched = self.reader.take()
        if fetched is None:
            return
        passed: dict[TopicPartition, int] = {}
        watching = clock.callLater(self.options.interval + _SLOW, self._say_slow)
        try:
            size = await self._transact(fetched, began, passed)
        except RecordTooLarge:
            # The next transaction goes on without the record.
            self.status.aborted += 1
            self.reader.go_back(passed)
            return
        except (CopyFailed, TransactionAborted) as e:
            self.status.aborted += 1
            self._failures += 1
            self.reader.go_back(passed)
            if not self.reader.halted and self.reader.refresh_at:
                why = what_session_lacks(e, self.options, self.target)
                self.status.problem("transactions", f"a transaction was aborted, and is tried again: {why or e}")
            await sleep(clock, self.target.backoff.before(self._failures))
            return
        finally:
            if watching.active():
                watching.cancel()
        self._failures = 0
        self.status.solved("transactions")
        self.status.solved("session")
        if self.options.rate is not None:
            await self._pause(began + size / self.options.rate - clock.seconds())

    def _say_slow(self) -> None:
        self.status.problem(
            "transactions",
            f"the target {self.options.target} has not taken the records of a transaction for {_SLOW:g} s: it is away, "
            "full, or slow; still trying",
        )

    async def _transact(self, fetched: Fetched | None, began: float, passed: dict[TopicPartition, int]) -> int:
        """
        Copy what is fetched within a transaction; returns its bytes.

        :param passed: gets the next offset of each partition of which something was taken.
        """
        clock, size = self.source.reactor, 0
        sent = SentBatches(self.target, self.options, self.reader, self._skipped)
        skipped: list[SkippedRecord] = []
        most = self.options.transaction_bytes
        if self.options.rate is not None:
            most = min(most, max(1, self.options.rate))
        async with self._producer.transaction():
            while True:
                if fetched is not None:
                    skipped += self._copy(fetched, sent)
                    passed[fetched.partition] = self._skipped.capped(fetched.partition, fetched.next_offset)
                    if fetched.epoch >= 0:
                        self.reader.epochs[fetched.partition] = fetched.epoch
                    size += fetched.size
                    self.status.ends[fetched.partition] = fetched.high_watermark
                if self.stopping or size >= most or clock.seconds() - began >= self.options.interval:
                    break
                # What the source has is on its way; at its end there is no use in waiting.
                rest = began + self.options.interval - clock.seconds()
                if not await self._data_within(rest if self.reader.is_behind(passed) else _IDLE):
                    break
                fetched = self.reader.take()
            await self._producer.flush()
            ranges = await sent.ranges()
            await self.reader.check_origins({each.topic for each in ranges})
            await self._write_syncs(ranges)
            await self._write_skipped(skipped)
        self._committed(ranges, passed)
        self._note_skipped(skipped)
        for partition, reason in self._skipped.reached(passed):
            self.reader.halt(partition, reason)
        self.status.size += size
        counts = {partition: sum(each.count for each in theirs) for partition, theirs in ranges.items()}
        self.status.rates.add(clock.seconds(), counts, size)
        return size

    def _copy(self, fetched: Fetched, sent: SentBatches) -> list[SkippedRecord]:
        """Send what was fetched; returns what is left out of it."""
        partition = fetched.partition
        topic = self.reader.topics[partition.topic]
        copy_of, sieve = TopicPartition(topic.copy, partition.partition), self._skipped.sieve(partition, topic.ids)
        try:
            for copy in batch_copies(fetched.batches, sieve):
                self.status.encoded_again += isinstance(copy.builder, BatchBuilder)
                sent.add(SentBatch(partition, copy, self._producer.put_batch(copy_of, copy.builder)))
        except (DecodeError, ApiError) as e:
            self.reader.halt(partition, f"{partition}: a batch cannot be read: {e}")
            raise CopyFailed(str(e)) from e
        found = {} if sieve is None else sieve.found
        limit = self._skipped.limit(partition)
        return [SkippedRecord(partition, offset, size, limit, topic.ids) for offset, size in found.items()]

    async def _write_syncs(self, ranges: Mapping[TopicPartition, list[CopiedRange]]) -> None:
        topic = await self.target.topic(self.options.policy.offset_syncs_topic)
        now_ms = int(self.wall_clock() * 1000)
        for partition, theirs in ranges.items():
            ids, epoch = self.reader.topics[partition.topic].ids, self.reader.epochs.get(partition, NO_EPOCH)
            origins = self.reader.origins.of(ids.source)
            for each in theirs[-_SYNCS:]:
                sync = each.sync()
                self._producer.put(
                    topic,
                    sync.value,
                    sync.key,
                    timestamp=now_ms,
                    partition=0,
                    headers=each.headers(ids, origins, epoch),
                )

    async def _write_skipped(self, skipped: Sequence[SkippedRecord]) -> None:
        if not skipped:
            return
        topic = await self.target.topic(self.options.policy.skipped_records_topic)
        now_ms = int(self.wall_clock() * 1000)
        for each in skipped:
            self._producer.put(topic, each.value, each.key, timestamp=now_ms, partition=0)

    def _note_skipped(self, skipped: Sequence[SkippedRecord]) -> None:
        self.status.skipped += len(skipped)
        for each in skipped:
            self._skipped.add(each)
        for line in left_out_lines(skipped, {name: each.copy for name, each in self.reader.topics.items()}):
            self.status.warn(line)

    def _committed(
        self, ranges: Mapping[TopicPartition, list[CopiedRange]], passed: Mapping[TopicPartition, int]
    ) -> None:
        status = self.status
        status.transactions += 1
        for partition, theirs in ranges.items():
            ids = self.reader.topics[partition.topic].ids
            known = self.reader.copied.setdefault(partition, CopiedPartition(0, ids))
            for each in theirs:
                known.add(each, ids, self.reader.epochs.get(partition, NO_EPOCH))
                status.records += each.count
            if partition not in self.reader.halted:
                status.solved(partition)
        self.reader.note_copied(passed)

    # Time.

    async def _data_within(self, seconds: float) -> bool:
        """Whether something can be taken within a time."""
        if self.reader.has_data:
            return True
        if self.stopping or seconds <= 0:
            return False
        return await self._wait(self.reader.wait(), seconds)

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
