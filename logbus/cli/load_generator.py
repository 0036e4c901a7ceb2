"""
Generates the loads of ``logbus bench`` on the client's channels.

A batch is encoded once and sent unchanged, and fetched records are counted from batch headers, so that the figures
measure the broker rather than the client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, gatherResults

from logbus.client.cluster.cluster import Cluster, TopicMetadata
from logbus.client.list_offsets import EARLIEST, LATEST, list_offsets
from logbus.client.retry import api_error
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.net.channel import Channel
from logbus.records.batch import BatchBuilder, iter_batches
from logbus.records.compression import Codec
from logbus.wire.messages.api_versions import ApiVersionsRequest
from logbus.wire.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from logbus.wire.schema import ZERO_UUID

_PRODUCE, _FETCH, _LAST_VERSION_BY_NAME = 0, 1, 12
PERCENTILES = (50.0, 90.0, 99.0, 99.9)


@define
class LoadResult:
    """
    Totals of a load.

    :ivar latencies: seconds from request to response.
    """

    requests: int = 0
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(factory=list)


@frozen
class BatchTemplate:
    """
    An encoded batch that is sent repeatedly.

    :ivar size: bytes of its records' values.
    """

    data: bytes
    records: int
    size: int


def batch_template(record_size: int, records: int, codec: Codec) -> BatchTemplate:
    """A batch of records with random letters in them, which compress to about two thirds."""
    random = Random(1)
    builder = BatchBuilder(codec)
    now = int(time.time() * 1000)
    letters = bytes(random.choices(b"abcdefghijklmnopqrstuvwxyz012345", k=record_size * 7 + 1))
    for i in range(records):
        start = i * 37 % (record_size * 6 + 1)
        builder.append(now, None, letters[start : start + record_size])
    return BatchTemplate(builder.build(), records, record_size * records)


@define
class LoadGenerator:
    """
    Generates loads on one topic.

    :ivar connections: connections to each leader.
    :ivar depth: requests in flight per connection.
    :ivar progress: called now and then with the totals so far.
    """

    cluster: Cluster
    topic: TopicMetadata
    connections: int
    depth: int
    progress: Callable[[LoadResult], None]

    async def ready(self) -> None:
        """Wait until the leaders of all partitions respond; a topic just created may take a moment."""
        await self._offsets(LATEST)

    async def produce(self, load: BatchTemplate, acks: int, seconds: float, most: int | None = None) -> LoadResult:
        """
        Send batches as fast as the broker answers.

        :param most: stop also after this many bytes of values.
        """
        tally = LoadResult()

        async def work(worker: int, channel: Channel, partitions: list[int], deadline: float) -> None:
            turn = worker
            while time.perf_counter() < deadline and (most is None or tally.bytes < most):
                index = partitions[turn % len(partitions)]
                turn += 1
                request, version = self._produce_request(channel, index, load.data, acks)
                if acks == 0:
                    # acks=0 has no response: a request sent behind these shows when they were processed.
                    for _ in range(self.depth):
                        channel.send(request, version)
                    count = self.depth
                    await channel.request(ApiVersionsRequest(), 0)
                else:
                    count = 1
                    begun = time.perf_counter()
                    response: ProduceResponse = await channel.request(request, version)
                    tally.latencies.append(time.perf_counter() - begun)
                    answer = response.responses[0].partition_responses[0]
                    if answer.error_code:
                        raise api_error(answer.error_code, f"{self.topic.name}-{index}", answer.error_message)
                self._count(tally, count, load.records * count, load.size * count)

        return await self._run(tally, seconds, 1 if acks == 0 else self.depth, work)

    async def fetch(self, max_bytes: int, seconds: float) -> LoadResult:
        """
        Read all partitions from the beginning, repeatedly.

        :param max_bytes: of one response.
        """
        tally = LoadResult()
        starts, ends = await self._offsets(EARLIEST), await self._offsets(LATEST)
        filled = [index for index in self.topic.partitions if ends[index] > starts[index]]
        if not filled:
            raise LogbusError(f"topic {self.topic.name!r} has no records to fetch")

        async def work(worker: int, channel: Channel, partitions: list[int], deadline: float) -> None:
            mine = [index for index in partitions if index in filled]
            positions = {index: starts[index] for index in mine}
            turn = worker
            while mine and time.perf_counter() < deadline:
                index = mine[turn % len(mine)]
                begun = time.perf_counter()
                data = await self._fetch(channel, index, positions[index], max_bytes, 0)
                tally.latencies.append(time.perf_counter() - begun)
                records = 0
                for _, header in iter_batches(data):
                    records += header.record_count
                    positions[index] = header.next_offset
                self._count(tally, 1, records, len(data))
                if positions[index] >= ends[index] or not data:
                    positions[index] = starts[index]
                    turn += 1

        return await self._run(tally, seconds, self.depth, work)

    async def latency(self, load: BatchTemplate, acks: int, count: int) -> tuple[LoadResult, list[float]]:
        """
        Send one batch at a time to the first partition while a reader waits with a long poll.

        :returns: the totals of the responses, and for each batch the seconds until the reader had it.
        """
        index = next(iter(self.topic.partitions))
        leader = self._leader(index)
        writer = await self.cluster.channel(leader, "bench-write")
        reader = await self.cluster.channel(leader, "bench-read")
        position = (await self._offsets(LATEST))[index]
        tally, read = LoadResult(), []
        started = time.perf_counter()
        for _ in range(count):
            waiting = Deferred.fromCoroutine(self._fetch(reader, index, position, 1 << 20, 10_000))
            request, version = self._produce_request(writer, index, load.data, acks)
            begun = time.perf_counter()
            if acks == 0:
                writer.send(request, version)
            else:
                response: ProduceResponse = await writer.request(request, version)
                tally.latencies.append(time.perf_counter() - begun)
                answer = response.responses[0].partition_responses[0]
                if answer.error_code:
                    raise api_error(answer.error_code, f"{self.topic.name}-{index}", answer.error_message)
            arrived: list[float] = []
            waiting.addBoth(_record_latency(arrived))
            data = await waiting
            read.append(arrived[0] - begun)
            for _, header in iter_batches(data):
                position = header.next_offset
            self._count(tally, 1, load.records, load.size)
        tally.seconds = time.perf_counter() - started
        return tally, read

    # Internals.

    async def _run(
        self,
        tally: LoadResult,
        seconds: float,
        depth: int,
        work: Callable[[int, Channel, list[int], float], Coroutine[Deferred[Any], Any, None]],
    ) -> LoadResult:
        by_leader: dict[int, list[int]] = {}
        for index in self.topic.partitions:
            by_leader.setdefault(self._leader(index), []).append(index)
        channels = [
            (await self.cluster.channel(leader, f"bench-{i}"), partitions)
            for leader, partitions in by_leader.items()
            for i in range(self.connections)
        ]
        started = time.perf_counter()
        deadline = started + seconds
        tasks: list[Deferred[None]] = []
        for channel, partitions in channels:
            for _ in range(depth):
                tasks.append(Deferred.fromCoroutine(work(len(tasks), channel, partitions, deadline)))
        everything = gatherResults(tasks, consumeErrors=True)
        try:
            await everything
        except Exception as e:
            for task in tasks:
                task.cancel()
            first: Any = getattr(e, "subFailure", None)
            if first is not None:
                first.raiseException()
            raise
        tally.seconds = time.perf_counter() - started
        return tally

    def _count(self, tally: LoadResult, requests: int, records: int, size: int) -> None:
        tally.requests += requests
        tally.records += records
        tally.bytes += size
        if tally.requests & 0xFF == 0:
            self.progress(tally)

    def _leader(self, index: int) -> int:
        leader = self.cluster.leader(TopicPartition(self.topic.name, index))
        if leader is None:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{self.topic.name}-{index} has no leader")
        return leader

    async def _offsets(self, time: int) -> dict[int, int]:
        wanted = {TopicPartition(self.topic.name, index): time for index in self.topic.partitions}
        found = {}
        for partition, answer in (await list_offsets(self.cluster, wanted, patience=10.0)).items():
            if isinstance(answer, ApiError):
                raise answer
            found[partition.partition] = answer.offset
        return found

    def _version(self, channel: Channel, api_key: int) -> int:
        version = channel.version(api_key)
        return version if self.topic.topic_id.bytes != ZERO_UUID else min(version, _LAST_VERSION_BY_NAME)

    def _produce_request(self, channel: Channel, index: int, data: bytes, acks: int) -> tuple[ProduceRequest, int]:
        topic = TopicProduceData(
            name=self.topic.name,
            topic_id=self.topic.topic_id.bytes,
            partition_data=[PartitionProduceData(index=index, records=data)],
        )
        request = ProduceRequest(acks=acks, timeout_ms=int(self.cluster.timeout * 1000), topic_data=[topic])
        return request, self._version(channel, _PRODUCE)

    async def _fetch(
        self, channel: Channel, index: int, offset: int, max_bytes: int, wait_ms: int
    ) -> bytes | memoryview:
        partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            topics=[FetchTopic(topic=self.topic.name, topic_id=self.topic.topic_id.bytes, partitions=[partition])],
        )
        response: FetchResponse = await channel.request(request, self._version(channel, _FETCH))
        answer = response.responses[0].partitions[0] if response.responses else None
        code = response.error_code or (0 if answer is None else answer.error_code)
        if code:
            raise api_error(code, f"{self.topic.name}-{index}")
        raw = None if answer is None else answer.records
        return raw if isinstance(raw, (bytes, memoryview)) else b""


def _record_latency(times: list[float]) -> Callable[[Any], Any]:
    def note(result: Any) -> Any:
        times.append(time.perf_counter())
        return result

    return note


def percentiles(latencies: list[float]) -> dict[str, float]:
    """Return milliseconds by name (``p50``, ``p90``, ``p99``, ``p99.9``, ``max``); empty if there are no latencies."""
    ordered = sorted(latencies)
    if not ordered:
        return {}
    last = len(ordered) - 1
    found = {f"p{each:g}": ordered[min(last, int(len(ordered) * each / 100))] for each in PERCENTILES}
    return {name: round(value * 1000, 3) for name, value in {**found, "max": ordered[-1]}.items()}
