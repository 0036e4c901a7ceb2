"""
Reads partitions from where one says, without a group.

.. code-block:: python

    consumer = Fetcher(cluster)
    consumer.assign({TopicPartition("orders", 0): EARLIEST})
    async for record in consumer:
        print(record.offset, record.value)

One fetch at a time is under way to each leader, on a connection of its own, and goes on while records of the one before
are taken out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine, Mapping
from typing import Any, Literal

from attrs import define, frozen
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.client.cluster import Cluster
from logbus.client.fetched import ConsumerRecord, Fetched, read_answer
from logbus.client.offsets import EARLIEST, LATEST, list_offsets
from logbus.client.retry import api_error, is_retriable
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.wire.messages.records import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from logbus.wire.schema import ZERO_UUID

_FETCH = 1
_LAST_VERSION_BY_NAME = 12
Reset = Literal["earliest", "latest", "none"]
Isolation = Literal["read_uncommitted", "read_committed"]


@frozen
class AtTime:
    """The first record at or after a time, or the end if there is none; milliseconds since 1970."""

    ms: int


Position = int | AtTime
"""An offset, :data:`~logbus.client.offsets.EARLIEST`, :data:`~logbus.client.offsets.LATEST`, or a time."""


@define(eq=False)
class _Source:
    """
    A partition that is read.

    :ivar offset: the next to fetch.
    :ivar wanted: where to go instead, once it is found out.
    :ivar turn: grows with every seek; answers to questions of an earlier one are void.
    """

    partition: TopicPartition
    wanted: Position | None
    offset: int = -1
    turn: int = 0
    lost: bool = False


class Fetcher:
    """
    :param cluster: where from; closed by its owner, not by the consumer.
    :param reset: where to go on when an offset is not kept any more, or not yet there: ``none`` makes it an error.
    :param max_wait: seconds a broker holds a fetch that finds fewer than ``min_bytes``.
    :param max_bytes: of one answer.
    :param partition_max_bytes: of one partition in it.
    :param queue_bytes: from so many bytes read and not taken on, nothing more is fetched.
    :param isolation: whether records of transactions are read only once they are committed.
    """

    _log = Logger()

    def __init__(
        self,
        cluster: Cluster,
        *,
        reset: Reset = "latest",
        max_wait: float = 0.5,
        min_bytes: int = 1,
        max_bytes: int = 16 * 1024 * 1024,
        partition_max_bytes: int = 4 * 1024 * 1024,
        queue_bytes: int = 16 * 1024 * 1024,
        isolation: Isolation = "read_uncommitted",
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.reactor
        self._lane = cluster.lane("fetch")
        self._reset = reset
        self._max_wait = max_wait
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes
        self._queue_bytes = queue_bytes
        self._committed = isolation == "read_committed"
        self._sources: dict[TopicPartition, _Source] = {}
        self._queue: deque[tuple[_Source, int, Fetched]] = deque()
        self._queued = 0
        self._current: deque[ConsumerRecord] = deque()
        self._fetching: set[int] = set()
        self._resolving = False
        self._attempt = 0
        self._waiting: list[Deferred[Fetched]] = []
        self._tasks: set[Deferred[None]] = set()
        self._error: Exception | None = None
        self._closed = False

    def assign(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Read these partitions from these positions on, and no others."""
        self._sources = {partition: _Source(partition, position) for partition, position in positions.items()}
        self._queue.clear()
        self._current.clear()
        self._queued = 0

    def seek(self, partition: TopicPartition, position: Position) -> None:
        """
        Go on elsewhere in a partition; what was read ahead is dropped.

        :raises KeyError: the partition is not assigned.
        """
        source = self._sources[partition]
        source.turn += 1
        source.wanted = position
        self._current = deque(each for each in self._current if (each.topic, each.partition) != partition)
        self._error = None

    def position(self, partition: TopicPartition) -> int | None:
        """
        The offset after the last record taken out; None while it is not found out yet.

        :raises KeyError: the partition is not assigned.
        """
        source = self._sources[partition]
        for each in self._current:
            if (each.topic, each.partition) == partition:
                return each.offset
        for queued, turn, fetched in self._queue:
            if queued is source and turn == source.turn:
                return fetched.records[0].offset if fetched.records else fetched.next_offset
        return source.offset if source.wanted is None else None

    def poll(self) -> Deferred[Fetched]:
        """
        The next records of any partition, waiting for some. A partition may go forward without records: then there
        are none in it.

        :raises ApiError: (in the Deferred) OFFSET_OUT_OF_RANGE where ``reset`` is none; a topic that is gone;
            records that are damaged.
        """
        while self._queue:
            source, turn, fetched = self._queue.popleft()
            self._queued -= fetched.size
            if turn == source.turn and self._sources.get(source.partition) is source:
                self._pump()
                return succeed(fetched)
        waiting: Deferred[Fetched] = Deferred(self._waiting_no_more)
        if self._closed:
            waiting.errback(LogbusError("the consumer is closed"))
            return waiting
        if self._error is not None:
            waiting.errback(self._error)
            return waiting
        self._waiting.append(waiting)
        self._pump()
        return waiting

    def __aiter__(self) -> Fetcher:
        return self

    async def __anext__(self) -> ConsumerRecord:
        while not self._current:
            if self._closed:
                raise StopAsyncIteration
            fetched = await self.poll()
            topic, index = fetched.partition
            self._current.extend(ConsumerRecord(topic, index, *record) for record in fetched.records)
        return self._current.popleft()

    def close(self) -> None:
        """Stop reading; who waits for records gets an error."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        self._cluster.hang_up(self._lane)
        self._fail(LogbusError("the consumer is closed"))

    # How it works.

    def _waiting_no_more(self, waiting: Deferred[Fetched]) -> None:
        self._waiting.remove(waiting)

    def _pump(self) -> None:
        """Ask for what can be asked for now."""
        if self._closed or self._error is not None:
            return
        if not self._resolving:
            unresolved = [each for each in self._sources.values() if each.wanted is not None or each.lost]
            if unresolved:
                self._resolving = True
                self._start(self._resolve(unresolved))
        if self._queued >= self._queue_bytes:
            return
        by_leader: dict[int, list[_Source]] = {}
        for source in self._sources.values():
            if source.wanted is None and not source.lost:
                leader = self._cluster.leader(source.partition)
                if leader is None:
                    source.lost = True
                elif leader not in self._fetching:
                    by_leader.setdefault(leader, []).append(source)
        for leader, sources in by_leader.items():
            self._fetching.add(leader)
            self._start(self._fetch(leader, sources))
        if not self._resolving and any(each.lost for each in self._sources.values()):
            self._pump()

    async def _resolve(self, sources: list[_Source]) -> None:
        """Find the leaders and the offsets to begin at."""
        turns = [(source, source.turn, source.wanted) for source in sources]
        try:
            lost = {source.partition.topic for source in sources if source.lost}
            for name in sorted({source.partition.topic for source in sources}):
                if name in lost:
                    self._cluster.forget(name)
                topic = await self._cluster.topic(name)
                for source in sources:
                    index = source.partition.partition
                    if source.partition.topic == name and index not in topic.partitions:
                        there = f"it has 0 to {len(topic.partitions) - 1}"
                        raise ApiError(
                            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} has no partition {index}; {there}"
                        )
            times = {
                source.partition: wanted.ms if isinstance(wanted, AtTime) else wanted
                for source, _, wanted in turns
                if isinstance(wanted, AtTime) or (wanted is not None and wanted < 0)
            }
            committed = self._committed
            found = await list_offsets(self._cluster, times, committed=committed) if times else {}
            ends = [partition for partition, answer in found.items() if getattr(answer, "offset", 0) < 0]
            if ends:
                found.update(await list_offsets(self._cluster, dict.fromkeys(ends, LATEST), committed=committed))
            for source, turn, wanted in turns:
                answer = found.get(source.partition)
                if isinstance(answer, ApiError):
                    raise answer
                if self._cluster.leader(source.partition) is None:
                    raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{source.partition} has no leader")
                source.lost = False
                if source.turn != turn or wanted is None:
                    continue
                if answer is not None:
                    source.offset = answer.offset
                elif isinstance(wanted, int):
                    source.offset = wanted
                source.wanted = None
            self._attempt = 0
        except LogbusError as e:
            gone = isinstance(e, ApiError) and e.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if gone or not is_retriable(e):
                raise
            for source in sources:
                source.lost = True
            await self._back_off(e)
        finally:
            self._resolving = False
        self._pump()

    async def _fetch(self, leader: int, sources: list[_Source]) -> None:
        """One fetch from one broker."""
        turns = {source.partition: (source, source.turn) for source in sources}
        try:
            response, names = await self._ask(leader, sources)
            if response.error_code:
                raise api_error(response.error_code, f"fetch from broker {leader}")
            problem: ApiError | None = None
            for topic in response.responses:
                for each in topic.partitions:
                    partition = TopicPartition(topic.topic or names.get(topic.topic_id, ""), each.partition_index)
                    source, turn = turns.get(partition, (None, 0))
                    if source is not None and source.turn == turn and source.wanted is None:
                        problem = self._take(source, each) or problem
            if problem is None:
                self._attempt = 0
            else:
                await self._back_off(problem)
        except LogbusError as e:
            damaged = isinstance(e, ApiError) and e.code is ErrorCode.CORRUPT_MESSAGE
            if damaged or not is_retriable(e):
                raise
            for source in sources:
                source.lost = True
            await self._back_off(e)
        finally:
            self._fetching.discard(leader)
        self._serve()
        self._pump()

    async def _ask(self, leader: int, sources: list[_Source]) -> tuple[FetchResponse, dict[bytes, str]]:
        channel = await self._cluster.channel(leader, self._lane)
        topics: dict[str, FetchTopic] = {}
        by_id = True
        for source in sources:
            name, index = source.partition
            if name not in topics:
                known = self._cluster.known(name)
                topic_id = ZERO_UUID if known is None else known.topic_id.bytes
                by_id = by_id and topic_id != ZERO_UUID
                topics[name] = FetchTopic(topic=name, topic_id=topic_id, partitions=[])
            topics[name].partitions.append(
                FetchPartition(
                    partition=index, fetch_offset=source.offset, partition_max_bytes=self._partition_max_bytes
                )
            )
        # The first partitions of a request get its bytes first: let each be first in turn.
        first = sources[0]
        if self._sources.get(first.partition) is first:
            self._sources[first.partition] = self._sources.pop(first.partition)
        request = FetchRequest(
            max_wait_ms=int(self._max_wait * 1000),
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=int(self._committed),
            topics=list(topics.values()),
        )
        version = channel.version(_FETCH)
        if not by_id:
            version = min(version, _LAST_VERSION_BY_NAME)
        response = await channel.request(request, version, self._max_wait + self._cluster.timeout)
        return response, {each.topic_id: name for name, each in topics.items()}

    def _take(self, source: _Source, data: PartitionData) -> ApiError | None:
        """Queue what was read of a partition; returns what makes it worth to wait a little."""
        if data.error_code:
            error = api_error(data.error_code, str(source.partition))
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                if self._reset == "none":
                    raise ApiError(
                        error.code,
                        f"{source.partition} has no offset {source.offset}: its records begin and end elsewhere",
                    )
                self._log.info(
                    "{partition} has no offset {offset}; going on from the {reset}",
                    partition=str(source.partition),
                    offset=source.offset,
                    reset=self._reset,
                )
                source.turn += 1
                source.wanted = EARLIEST if self._reset == "earliest" else LATEST
                return None
            if not is_retriable(error) or error.code is ErrorCode.CORRUPT_MESSAGE:
                raise error
            source.lost = True
            return error
        fetched = read_answer(source.partition, source.offset, data, self._committed)
        if fetched.next_offset == source.offset:
            return None
        source.offset = fetched.next_offset
        self._queue.append((source, source.turn, fetched))
        self._queued += fetched.size
        return None

    def _serve(self) -> None:
        """Hand out what is queued to who waits."""
        while self._waiting and self._queue:
            source, turn, fetched = self._queue.popleft()
            self._queued -= fetched.size
            if turn == source.turn and self._sources.get(source.partition) is source:
                self._waiting.pop(0).callback(fetched)

    async def _back_off(self, error: Exception) -> None:
        self._attempt += 1
        self._log.debug("{error}; trying again", error=error)
        await deferLater(self._clock, self._cluster.backoff.before(self._attempt))

    def _fail(self, error: Exception) -> None:
        self._error = error
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.errback(error)

    def _start(self, coroutine: Coroutine[Deferred[Any], Any, None]) -> None:
        task = Deferred.fromCoroutine(coroutine)
        self._tasks.add(task)

        def ended(result: object) -> None:
            self._tasks.discard(task)
            if isinstance(result, Failure) and not result.check(CancelledError):
                error = result.value
                if not isinstance(error, LogbusError):
                    self._log.failure("reading failed", failure=result)
                self._fail(error if isinstance(error, Exception) else LogbusError(repr(error)))

        task.addBoth(ended)
