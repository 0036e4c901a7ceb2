"""
Fetches of members of share groups: records are read from where the group has not been, and acquired; one that finds
nothing waits (Kafka: DelayedShareFetch).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import ceil

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IReactorTime

from logbus.cluster.replication.partition_fetch import FetchParams, PartitionFetch, PartitionFetchResult
from logbus.cluster.replication.purgatory import DelayedOperation, Purgatory
from logbus.cluster.replication.replica import Replica
from logbus.cluster.replication.replica_reader import ReplicaReader
from logbus.errors import ApiError, ErrorCode
from logbus.records.file_slice import FileSlice
from logbus.records.header import iter_batches
from logbus.share.led_share_partition import LedSharePartition
from logbus.share.share_partition import AcquiredRecords
from logbus.share.share_partition_manager import SharePartitionManager
from logbus.share.share_sessions import SharedPartition
from logbus.storage.filesystem.cached_only import MOST_LOADS
from logbus.storage.istorage import NotCached
from logbus.storage.segments.transaction_index import AbortedTransactionSet

PARTITION_BYTES = 1 << 20
"""Bytes that are read of a partition at a time, but for its first batch: they are looked at to find its batches."""

_UNCOMMITTED, _COMMITTED = FetchParams(), FetchParams(committed=True)


@frozen
class ShareFetchParams:
    """
    The terms of a member's fetch.

    :ivar min_bytes: to wait for, up to ``max_wait_ms``; ``max_bytes``: of records, but for a first batch.
    :ivar max_records: to acquire, and those up to the end of the last one's batch; with ``strict`` no more.
    """

    group_id: str
    member_id: str
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    strict: bool


@define(eq=False)
class SharePartitionResult:
    """
    What a fetch gives of a partition.

    :ivar records: batches with those that were acquired, and maybe others.
    """

    partition: SharedPartition
    error: ApiError | None = None
    records: FileSlice | None = None
    acquired: list[AcquiredRecords] = field(factory=list)


class _Waiting(DelayedOperation[None]):
    """A fetch that waits for records to come, or to be given back."""

    __slots__ = ("_led", "_woken")

    def __init__(self, purgatory: Purgatory, led: Sequence[LedSharePartition]) -> None:
        super().__init__(purgatory)
        self._led = led
        self._woken = False
        for each in led:
            each.watchers[self] = None
            each.replica.watchers[self] = None

    def moved(self, replica: Replica, size: int) -> None:
        """There are new records."""
        self.available()

    def available(self) -> None:
        """See :class:`.AvailabilityWatcher`."""
        self._woken = True
        self.purgatory.wake(self)

    def is_ready(self) -> bool:
        return self._woken

    def answer(self) -> None:
        return None

    def leave(self) -> None:
        for each in self._led:
            each.watchers.pop(self, None)
            each.replica.watchers.pop(self, None)


@frozen
class _Found:
    """
    What was read of a partition, and where its batches are.

    :ivar count: of records that a member can get.
    """

    led: LedSharePartition
    result: SharePartitionResult
    data: FileSlice
    first: int
    positions: Sequence[int]
    ends: Sequence[int]
    skipped: Sequence[tuple[int, int]]
    count: int


@define(eq=False)
class ShareFetcher:
    """Serves the fetches of members of share groups from this broker's replicas."""

    _manager: SharePartitionManager
    _reader: ReplicaReader
    _purgatory: Purgatory
    _clock: IReactorTime

    async def fetch(
        self, partitions: Sequence[SharedPartition], params: ShareFetchParams
    ) -> list[SharePartitionResult]:
        """
        Acquire records of some partitions, the first ones first; waits for them if there are none.

        :return: a result for each partition.
        """
        deadline = self._clock.seconds() + params.max_wait_ms / 1000
        while True:
            opened = await self._open(partitions, params)
            results = [result for result, _ in opened]
            may_wait = self._clock.seconds() < deadline
            found = await self._read_all(opened, params)
            enough = (
                sum(one.data.length for one in found) >= min(params.min_bytes, params.max_bytes)
                or sum(one.count for one in found) >= params.max_records
            )
            if enough or not may_wait:
                self._take_all(found, params)
            if not may_wait or any(result.acquired or result.error is not None for result in results):
                return results
            if found and enough:
                # All that was read nobody is to get, or somebody else was faster.
                await _later(self._clock)
                continue
            waiting = _Waiting(self._purgatory, [each for _, each in opened if each is not None])
            await self._purgatory.wait(waiting, max(1, ceil(1000 * (deadline - self._clock.seconds()))))

    async def _open(
        self, partitions: Sequence[SharedPartition], params: ShareFetchParams
    ) -> list[tuple[SharePartitionResult, LedSharePartition | None]]:
        opened: list[tuple[SharePartitionResult, LedSharePartition | None]] = []
        for partition in partitions:
            result = SharePartitionResult(partition)
            led = None
            try:
                led = await self._manager.open(params.group_id, *partition)
                led.members.add(params.member_id)
            except ApiError as error:
                result.error = error
            opened.append((result, led))
        return opened

    async def _read_all(
        self, opened: Sequence[tuple[SharePartitionResult, LedSharePartition | None]], params: ShareFetchParams
    ) -> list[_Found]:
        """Read of each partition what is next, as much as fits, until there are as many records as are wanted."""
        found: list[_Found] = []
        size, left = 0, params.max_records
        for result, led in opened:
            if led is not None and size < params.max_bytes and left > 0:
                one = await self._read(result, led, params, size, left)
                if one is not None:
                    found.append(one)
                    size += one.data.length
                    left -= one.count
        return found

    def _take_all(self, found: Sequence[_Found], params: ShareFetchParams) -> None:
        """Acquire what was read, as many records as the member wants."""
        left = params.max_records
        for one in found:
            if left > 0:
                left -= self._take(one, params, left)

    async def _read(
        self, result: SharePartitionResult, led: LedSharePartition, params: ShareFetchParams, size: int, most: int
    ) -> _Found | None:
        """Read from where a group has not been in a partition; skips what nobody gets."""
        terms = _COMMITTED if self._manager.settings(params.group_id).read_committed else _UNCOMMITTED
        for _ in range(MOST_LOADS):
            if led.problem is not None or led.state.is_full:
                result.error = led.problem
                return None
            place = led.replica.topic_partition
            at = led.state.next_fetch_offset
            fetch = PartitionFetch(
                place.topic, place.partition, at, PARTITION_BYTES, led.leader_epoch, topic_id=led.key.topic_id
            )
            cold: list[NotCached] = []
            (read,), _, _ = self._reader.read([fetch], params.max_bytes, terms, size, cold)
            if cold:
                await DeferredList([each.load() for each in cold], consumeErrors=True)
                continue
            if read.error is not None:
                if read.error.code is ErrorCode.OFFSET_OUT_OF_RANGE and self._follows_log(led, at):
                    continue
                result.error = read.error
                return None
            return None if read.data is None else _found(led, result, read, read.data, at, most)
        return None

    @staticmethod
    def _follows_log(led: LedSharePartition, offset: int) -> bool:
        """Take over where the log begins and ends now; whether that is why an offset is not there."""
        log = led.replica.log
        if offset < log.log_start_offset:
            led.log_starts(log.log_start_offset)
        else:
            led.log_ends(log.log_end_offset)
        return led.problem is None and led.state.next_fetch_offset != offset

    @staticmethod
    def _take(found: _Found, params: ShareFetchParams, most: int) -> int:
        """Acquire what was read; how many records."""
        led, result = found.led, found.result
        if led.problem is not None:
            result.error = led.problem
            return 0
        result.acquired = acquired = led.acquire(
            params.member_id, found.first, found.ends, most, strict=params.strict, skipped=found.skipped
        )
        if acquired:
            first, last = acquired[0].first, acquired[-1].last
            begin = found.positions[bisect_left(found.ends, first)]
            end = found.positions[bisect_left(found.ends, last) + 1]
            result.records = found.data.narrow(begin, end - begin)
        return sum(each.last - each.first + 1 for each in acquired)


def _found(
    led: LedSharePartition,
    result: SharePartitionResult,
    read: PartitionFetchResult,
    data: FileSlice,
    first: int,
    most: int,
) -> _Found | None:
    """
    Look at the batches that were read: control batches, and those of aborted transactions, nobody gets.

    :param most: records that are wanted; the batches behind them are left out.
    """
    content = data.read()
    aborted = AbortedTransactionSet(read.aborted or ())
    positions, ends, skipped = [], [], []
    position = count = 0
    # Asked for once: the group's settings are looked up for it.
    room, end = led.state.room, led.state.end_offset
    for position, header in iter_batches(content):
        positions.append(position)
        ends.append(header.last_offset)
        if header.control or aborted.of(header) is not None:
            skipped.append((header.base_offset, header.last_offset))
        else:
            count += led.state.acquirable_count(max(first, header.base_offset), header.last_offset, room)
        room -= max(0, header.last_offset + 1 - max(header.base_offset, end))
        position += header.size
        if count >= most:
            break
    if not ends:
        return None
    positions.append(position)
    return _Found(led, result, data, first, positions, ends, skipped, count)


async def _later(clock: IReactorTime) -> None:
    """Let others have a turn."""
    turn: Deferred[None] = Deferred()
    clock.callLater(0, turn.callback, None)
    await turn
