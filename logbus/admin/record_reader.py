"""
Reads pages of records for clients of HTTP, by Fetch and ListOffsets.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen
from twisted.internet.interfaces import IReactorTime

from logbus.admin.authorization import HttpAccess
from logbus.admin.kafka_requests import KafkaRequests
from logbus.admin.record_scan import EVERYTHING, SHOWN_BYTES, Found, RecordFilter, scan
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.errors import ApiError, ErrorCode, error_of
from logbus.model import TopicPartition
from logbus.records.file_slice import FileSlice
from logbus.wire.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    PartitionData,
)

FETCH_VERSION = 12
LIST_OFFSETS_VERSION = 7
LATEST, EARLIEST = -1, -2
SCAN_SECONDS = 2.0
"""For how long a request goes through records at most."""

SCAN_UNITS = 8
"""Cost of a step of a scan, in units of a time slice."""


@frozen
class PageQuery:
    """
    Which records to read.

    :ivar offset: from here on; ``timestamp``: from the first record on that is not older (ms since 1970); ``newest``:
        this many before the end; None of them: from the beginning.
    :ivar end: the offset before which to stop; None: the partition's end.
    :ivar limit: of the records; ``max_bytes``: of what is fetched at a time.
    :ivar shown: bytes of a key, value or header that are shown.
    :ivar room: bytes of JSON after which a page ends.
    :ivar committed: whether to hide records of transactions that are open or aborted.
    """

    offset: int | None = None
    timestamp: int | None = None
    newest: int | None = None
    end: int | None = None
    limit: int = 100
    max_bytes: int = 1 << 20
    shown: int = 16_384
    room: int = SHOWN_BYTES
    committed: bool = False
    wanted: RecordFilter = EVERYTHING


@frozen
class RecordPage:
    """
    Records of a partition.

    :ivar found: the records, and where to continue.
    :ivar log_start_offset: the first offset; ``high_watermark``, ``last_stable_offset``: as of the partition.
    :ivar end: the first offset that the client may not read.
    """

    found: Found
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    end: int


@frozen
class RecordReader:
    """Reads records of the partitions that this broker has."""

    requests: KafkaRequests
    metadata: ClusterMetadata
    clock: IReactorTime

    async def page(self, access: HttpAccess, topic: str, partition: int, query: PageQuery) -> RecordPage:
        """
        Read a page.

        :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE,
            TOPIC_AUTHORIZATION_FAILED, …, with a text for the client.
        """
        start = await self._start(access, topic, partition, query)
        fetched = await self._fetch(access, topic, partition, query, start)
        data = await _loaded(fetched.records)
        aborted = [(one.producer_id, one.first_offset) for one in fetched.aborted_transactions or ()]
        deadline = self.clock.seconds() + SCAN_SECONDS
        found = await self.requests.time_slice(access).finish(
            scan(
                data,
                partition,
                start,
                limit=query.limit,
                shown=query.shown,
                room=query.room,
                wanted=query.wanted,
                aborted=aborted if query.committed else None,
                end=query.end,
                is_over=lambda: self.clock.seconds() >= deadline,
            ),
            SCAN_UNITS,
        )
        end = fetched.last_stable_offset if query.committed else fetched.high_watermark
        return RecordPage(found, fetched.log_start_offset, fetched.high_watermark, fetched.last_stable_offset, end)

    async def _start(self, access: HttpAccess, topic: str, partition: int, query: PageQuery) -> int:
        if query.offset is not None:
            return query.offset
        if query.newest is not None:
            end = await self.offset(access, topic, partition, LATEST, query.committed)
            first = await self.offset(access, topic, partition, EARLIEST, query.committed)
            return max(first, end - query.newest)
        if query.timestamp is not None:
            offset = await self.offset(access, topic, partition, query.timestamp, query.committed)
            return offset if offset >= 0 else await self.offset(access, topic, partition, LATEST, query.committed)
        return await self.offset(access, topic, partition, EARLIEST, query.committed)

    async def offset(self, access: HttpAccess, topic: str, partition: int, timestamp: int, committed: bool) -> int:
        """
        Look up an offset (ListOffsets); -1: no record is so new.

        :param timestamp: ms since 1970; -1: the end; -2: the beginning.
        :raise ApiError: as :meth:`page`.
        """
        asked = ListOffsetsTopic(
            name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]
        )
        request = ListOffsetsRequest(isolation_level=int(committed), topics=[asked])
        response: ListOffsetsResponse = await self.requests.send(access, request, LIST_OFFSETS_VERSION)
        ((answer,),) = (one.partitions for one in response.topics)
        if answer.error_code:
            raise self._error(topic, partition, answer.error_code)
        return answer.offset

    async def _fetch(
        self, access: HttpAccess, topic: str, partition: int, query: PageQuery, start: int
    ) -> PartitionData:
        asked = FetchPartition(partition=partition, fetch_offset=start, partition_max_bytes=query.max_bytes)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=query.max_bytes,
            isolation_level=int(query.committed),
            topics=[FetchTopic(topic=topic, partitions=[asked])],
        )
        response: FetchResponse = await self.requests.send(access, request, FETCH_VERSION)
        if response.error_code:
            raise self._error(topic, partition, response.error_code)
        if not response.responses:
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"{access.principal} has read as much as its quota consumer_byte_rate allows; try again later.",
            )
        ((fetched,),) = (one.partitions for one in response.responses)
        if fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            first = await self.offset(access, topic, partition, EARLIEST, False)
            end = await self.offset(access, topic, partition, LATEST, False)
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Partition {partition} of {topic} has the offsets from {first} to below {end}, and not {start}.",
            )
        if fetched.error_code:
            raise self._error(topic, partition, fetched.error_code)
        return fetched

    def _error(self, topic: str, partition: int, code: int) -> ApiError:
        """Return an error that names the partition, and who leads it."""
        if code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            error = error_of(code)
            return ApiError(error.code, f"Partition {partition} of {topic}: {error.message}")
        known = self.metadata.partition(TopicPartition(topic, partition))
        leader = -1 if known is None else known.leader
        if leader < 0:
            return ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"Partition {partition} of {topic} has no leader.")
        return ApiError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Partition {partition} of {topic} is led by broker {leader}; ask it."
        )


async def _loaded(records: Any) -> bytes:
    """Return the bytes of fetched records, once reading them does not wait for the device."""
    parts = records if isinstance(records, list) else [] if records is None else [records]
    loaded = []
    for part in parts:
        if isinstance(part, FileSlice):
            read_ahead = getattr(part.file, "read_ahead", None)
            waiting = None if read_ahead is None else read_ahead(part.position, part.length)
            if waiting is not None:
                await waiting
            loaded.append(part.read())
        else:
            loaded.append(bytes(part))
    return b"".join(loaded)
