"""
Fetches of members of share groups: records are read from where the group has not been, and acquired; one that finds
nothing waits (Kafka: DelayedShareFetch).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import cast

from attrs import define, field, frozen
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from logbus.cluster.replication.partition_fetch import FetchParams, PartitionFetch, PartitionFetchResult
from logbus.cluster.replication.purgatory import Purgatory
from logbus.cluster.replication.replica_reader import UNITS_TO_READ, ReplicaReader
from logbus.errors import ApiError, ErrorCode
from logbus.net.time_slices import TimeSlice
from logbus.records.file_slice import FileSlice
from logbus.records.header import iter_batches
from logbus.share.delayed_share_fetch import DelayedShareFetch, later
from logbus.share.led_share_partition import LedSharePartition, error_of_state
from logbus.share.share_partition import AcquiredRecords
from logbus.share.share_partition_manager import SharePartitionManager
from logbus.share.share_sessions import SharedPartition
from logbus.storage.istorage import MayBeCold, NotCached
from logbus.storage.segments.transaction_index import AbortedTransactionSet

PARTITION_BYTES = 1 << 20
"""Bytes that are read of a partition at a time, but for its first batch: they are looked at to find its batches."""

UNITS_TO_OPEN = 1
"""Units of a time slice for looking up a partition."""

PREPARATION_SECONDS = 1.0
"""How long a fetch waits for partitions that are being opened or loaded, if it does not wait longer for records."""

_UNCOMMITTED, _COMMITTED = FetchParams(), FetchParams(committed=True)


@frozen
class ShareFetchParams:
    """
    The terms of a member's fetch.

    :ivar min_bytes: to wait for, up to ``max_wait_ms``; ``max_bytes``: of records, but for a first batch.
    :ivar max_records: to acquire, and those up to the end of the last one's batch; with ``strict`` no more.
    :ivar is_wanted: whether its session has not ended: afterwards nobody would acknowledge what it acquires.
    :ivar waiting: what its session calls when it ends.
    """

    group_id: str
    member_id: str
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    strict: bool
    is_wanted: Callable[[], bool]
    waiting: dict[Callable[[], object], None]


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
        self, partitions: Sequence[SharedPartition], params: ShareFetchParams, time_slice: TimeSlice
    ) -> list[SharePartitionResult]:
        """
        Acquire records of some partitions, the first ones first; waits for them if there are none.

        Partitions that are being opened or loaded hold up no others.

        :return: a result for each partition; none if the session has ended meanwhile.
        """
        began = self._clock.seconds()
        deadline = began + params.max_wait_ms / 1000
        watcher = DelayedShareFetch(self._purgatory)
        opening: dict[SharedPartition, ApiError | None] = {}
        params.waiting[watcher.available] = None
        try:
            while params.is_wanted():
                watcher.begin()
                opened = await self._open(partitions, params, opening, watcher, time_slice)
                results = [result for result, _ in opened]
                led = [each for _, each in opened if each is not None]
                watcher.watch(led)
                is_late = self._clock.seconds() >= deadline
                found = await self._read_all(opened, params, time_slice)
                enough = (
                    sum(one.data.length for one in found) >= min(params.min_bytes, params.max_bytes)
                    or sum(one.count for one in found) >= params.max_records
                )
                if not params.is_wanted():
                    break
                if enough or is_late:
                    self._take_all(found, params)
                if any(result.acquired or result.error is not None for result in results):
                    return results
                patience = deadline
                if None in opening.values() or any(each.is_loading for each in led):
                    patience = max(deadline, began + PREPARATION_SECONDS)
                if self._clock.seconds() >= patience:
                    return results
                watcher.looked()
                if found and (enough or is_late):
                    # All that was read nobody is to get, or somebody else was faster.
                    await later(self._clock)
                else:
                    await watcher.wait(self._clock, patience - self._clock.seconds())
            return []
        finally:
            del params.waiting[watcher.available]
            watcher.leave()

    async def _open(
        self,
        partitions: Sequence[SharedPartition],
        params: ShareFetchParams,
        opening: dict[SharedPartition, ApiError | None],
        watcher: DelayedShareFetch,
        time_slice: TimeSlice,
    ) -> list[tuple[SharePartitionResult, LedSharePartition | None]]:
        """
        The partitions that are open; begins to open the others.

        :param opening: those that are not open: None, or why they could not be opened.
        """

        opened: list[tuple[SharePartitionResult, LedSharePartition | None]] = []
        async for partition in time_slice.over(partitions, UNITS_TO_OPEN):
            if not params.is_wanted():
                # What is opened now for its member it would never leave.
                break
            result = SharePartitionResult(partition)
            led = None
            try:
                led = self._open_one(partition, params, opening, watcher)
            except ApiError as error:
                result.error = error.without_frames()
            opened.append((result, led))
        return opened

    def _open_one(
        self,
        partition: SharedPartition,
        params: ShareFetchParams,
        opening: dict[SharedPartition, ApiError | None],
        watcher: DelayedShareFetch,
    ) -> LedSharePartition | None:
        def done(result: LedSharePartition | Failure) -> LedSharePartition | None:
            watcher.available()
            if isinstance(result, Failure):
                opening[partition] = error_of_state(result)
                return None
            del opening[partition]
            return result

        if partition not in opening:
            found = self._manager.open(params.group_id, *partition, params.member_id)
            if isinstance(found, LedSharePartition):
                return found
            opening[partition] = None
            found.addBoth(done)
            if partition not in opening:
                # It took no time.
                return cast(LedSharePartition, found.result)
        error = opening[partition]
        if error is not None:
            raise error
        return None

    async def _read_all(
        self,
        opened: Sequence[tuple[SharePartitionResult, LedSharePartition | None]],
        params: ShareFetchParams,
        time_slice: TimeSlice,
    ) -> list[_Found]:
        """Read of each partition what is next, as much as fits, until there are as many records as are wanted."""
        found: list[_Found] = []
        size, left = 0, params.max_records
        for result, led in opened:
            if size >= params.max_bytes or left <= 0:
                break
            if led is not None:
                one = self._read(result, led, params, size, left)
                if one is not None:
                    found.append(one)
                    size += one.data.length
                    left -= one.count
                if time_slice.used(UNITS_TO_READ):
                    await time_slice.next()
        return found

    def _take_all(self, found: Sequence[_Found], params: ShareFetchParams) -> None:
        """Acquire what was read, as many records as the member wants."""
        left = params.max_records
        for one in found:
            if left > 0:
                left -= self._take(one, params, left)

    def _read(
        self, result: SharePartitionResult, led: LedSharePartition, params: ShareFetchParams, size: int, most: int
    ) -> _Found | None:
        """Read from where a group has not been in a partition; skips what nobody gets."""
        if led.is_loading:
            return None
        terms = _COMMITTED if self._manager.settings(params.group_id).read_committed else _UNCOMMITTED
        place = led.replica.topic_partition
        for _ in range(2):
            if led.problem is not None or led.state.is_full:
                result.error = led.problem
                return None
            at = led.state.next_fetch_offset
            fetch = PartitionFetch(
                place.topic, place.partition, at, PARTITION_BYTES, led.leader_epoch, topic_id=led.key.topic_id
            )
            cold: list[NotCached] = []
            (read,), _, _ = self._reader.read([fetch], params.max_bytes, terms, size, cold)
            if cold:
                led.load(cold[0].load())
                return None
            if read.error is None:
                if read.data is None or self._is_cold(led, read.data):
                    return None
                return _found(led, result, read, read.data, at, most)
            if read.error.code is not ErrorCode.OFFSET_OUT_OF_RANGE or not self._follows_log(led, at):
                result.error = read.error
                return None
        return None

    @staticmethod
    def _is_cold(led: LedSharePartition, data: FileSlice) -> bool:
        """Whether data are known not to be in memory: then they are loaded."""
        file = data.file
        if data.data is not None or not isinstance(file, MayBeCold) or not file.is_cold(data.position, data.length):
            return False
        loading = file.read_ahead(data.position, data.length)
        if loading is not None:
            led.load(loading)
        return led.is_loading

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
        if count >= most or (room <= 0 and header.last_offset + 1 >= end):
            break
    if not ends:
        return None
    positions.append(position)
    return _Found(led, result, data, first, positions, ends, skipped, count)
