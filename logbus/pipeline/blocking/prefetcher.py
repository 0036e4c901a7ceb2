"""Fetches a range of one partition in a thread, ahead of its reader (Kafka: Fetcher)."""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator
from types import TracebackType

from attrs import frozen

from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.model import TopicPartition
from logbus.pipeline.blocking.brokers import Brokers, Node
from logbus.pipeline.blocking.connection import Connection
from logbus.pipeline.blocking.list_offsets import EARLIEST, LATEST, list_offsets
from logbus.pipeline.blocking.retry import RetryTimer, api_error
from logbus.pipeline.errors import Disconnected, OffsetLost, PipelineError
from logbus.records.header import LENGTH_OVERHEAD, LOG_APPEND_TIME_BIT, iter_batches
from logbus.records.read_committed import AbortedTransaction
from logbus.wire.messages.records import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

_FETCH = 1
_BY_NAME = 12
"""The last version of Fetch that names topics; later ones use topic ids."""
_SMALL = 1 << 20
"""Bytes of the first fetch: the range may be short."""
MAX_BYTES = 7 << 20
"""Bytes of later ones: a large response becomes one result, whose size has a reason (:mod:`.range_reader`)."""
_LEAST = 64 << 10
"""Bytes of a fetch, at least, where the rest of the range seems to be smaller."""
_GONE_AFTER = 3.0
"""Seconds until an unknown topic counts as deleted: a broker that restarts may not know it yet."""
_REPLICA_FOR = 300.0
"""Seconds after which the leader is asked again for the preferred read replica (KIP-392)."""


@frozen
class FetchOptions:
    """
    The options of fetching a range.

    :ivar committed: read committed records only (``isolation.level``).
    :ivar max_bytes: of one response, beyond its first batch (``fetch.max.bytes``).
    :ivar min_bytes: that the broker waits for (``fetch.min.bytes``), at most ``max_wait`` seconds.
    :ivar rack: of this client; a replica in the same rack may be read (``client.rack``, KIP-392).
    :ivar ahead: bytes that may be fetched and not yet read; at this limit fetching pauses.
    """

    committed: bool = False
    max_bytes: int = MAX_BYTES
    min_bytes: int = 1
    max_wait: float = 0.5
    rack: str = ""
    ahead: int = 2 * MAX_BYTES


@frozen
class FetchedData:
    """
    The complete record batches of one fetch response.

    :ivar aborted: the aborted transactions in them, if only committed records are read.
    :ivar runs: ``data`` divided into runs of batches with the same timestamp type: the end position of each run, and
        whether its timestamps are LogAppendTime.
    """

    data: memoryview
    aborted: tuple[AbortedTransaction, ...]
    runs: tuple[tuple[int, bool], ...]


class Prefetcher:
    """
    Iterates over the fetched data of a range, in order. It is a context manager; the thread runs while it is open.

    :param topic_id: see :func:`~logbus.pipeline.blocking.range_reader.read_range`.
    """

    def __init__(
        self,
        brokers: Brokers,
        partition: TopicPartition,
        start: int,
        end: int,
        options: FetchOptions,
        topic_id: uuid.UUID,
    ) -> None:
        self._brokers = brokers
        self._partition = partition
        self._offset, self._end = start, end
        self._options = options
        self._topic_id = topic_id
        self._start, self._bytes = start, 0
        self._step = self._max_bytes = min(_SMALL, options.max_bytes)
        self._replica = -1
        self._replica_until = 0.0
        self._missing_since: float | None = None
        self._connection: Connection | None = None
        self._changed = threading.Condition()
        self._waiting: deque[FetchedData] = deque()
        self._held = 0
        self._stopped = False
        self._done = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"logbus-fetch-{partition}", daemon=True)

    def __enter__(self) -> Prefetcher:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            connection = self._connection
        if connection is not None:
            connection.interrupt()
        self._thread.join()

    def __iter__(self) -> Iterator[FetchedData]:
        """
        The fetched data, in order.

        :raises Exception: the error that ended the thread, after all data fetched before it.
        """
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._done)
                if not self._waiting:
                    if self._failure is not None:
                        raise self._failure
                    return
                answer = self._waiting.popleft()
            yield answer
            with self._changed:
                self._held -= len(answer.data)
                self._changed.notify_all()

    # Run in the thread.

    def _run(self) -> None:
        try:
            self._fetch_all()
        except BaseException as e:
            self._failure = e
        finally:
            self._brokers.release()
            with self._changed:
                self._done = True
                self._changed.notify_all()

    def _fetch_all(self) -> None:
        timer = RetryTimer(self._brokers.settings, 0.0, self._pause)
        timer.succeeded()
        while self._offset < self._end and self._has_room():
            try:
                moved = self._fetch()
            except OffsetLost:
                raise
            except Exception as e:
                if self._stopped:
                    return
                if isinstance(e, Disconnected):
                    # The leader may have changed; and a replica that is gone is replaced by the leader.
                    self._brokers.forget(self._partition)
                    self._replica = -1
                timer.failed(e)
                continue
            if moved:
                timer.succeeded()
            elif time.monotonic() > timer.deadline:
                raise self._stuck()

    def _has_room(self) -> bool:
        """Wait until more may be fetched; False: the reader has closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or not self._held or self._held < self._options.ahead)
            return not self._stopped

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped, seconds)

    def _fetch(self) -> bool:
        """
        Send one fetch request.

        :returns: whether it brought records, or a replica to read from.
        """
        self._check_topic()
        node = self._node()
        connection = self._brokers.node(node) if node >= 0 else self._brokers.leader(self._partition)
        with self._changed:
            if self._stopped:
                return False
            self._connection = connection
        try:
            response = self._ask(connection)
        finally:
            with self._changed:
                self._connection = None
        if response.throttle_time_ms > 0:
            self._pause(response.throttle_time_ms / 1000)
        if response.error_code:
            raise api_error(response.error_code, f"fetch from {connection.peer}")
        for topic in response.responses:
            for data in topic.partitions:
                if data.partition_index == self._partition.partition:
                    if data.error_code:
                        nodes = [
                            Node(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints
                        ]
                        raise self._refused(data, nodes)
                    return self._take(data)
        raise Disconnected(f"the answer of {connection.peer} leaves out {self._partition}")

    def _ask(self, connection: Connection) -> FetchResponse:
        options, partition = self._options, self._partition
        version = connection.version(_FETCH)
        if not self._topic_id.int:
            version = min(version, _BY_NAME)
        epoch = self._brokers.partition_metadata(partition).leader_epoch
        wanted = FetchPartition(
            partition=partition.partition,
            current_leader_epoch=epoch,
            fetch_offset=self._offset,
            partition_max_bytes=self._max_bytes,
        )
        request = FetchRequest(
            max_wait_ms=int(options.max_wait * 1000),
            min_bytes=options.min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=int(options.committed),
            topics=[FetchTopic(topic=partition.topic, topic_id=self._topic_id.bytes, partitions=[wanted])],
            rack_id=options.rack,
        )
        timeout = options.max_wait + self._brokers.settings.request_timeout
        response: FetchResponse = connection.request(request, timeout, version=version, buffers=self._brokers.buffers)
        return response

    def _node(self) -> int:
        """The preferred read replica; −1: the leader."""
        if self._replica >= 0 and time.monotonic() > self._replica_until:
            self._replica = -1
        return self._replica

    def _check_topic(self) -> None:
        """
        Check that the topic exists and has the expected id. Cached metadata and that of brokers may be stale, so it is
        requested again for a while.
        """
        name = self._partition.topic
        try:
            topic = self._brokers.topic(name)
        except ApiError as e:
            if e.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            self._missing("the topic was deleted")
            raise
        if not self._topic_id.int:
            self._topic_id = topic.topic_id
        elif topic.topic_id.int and topic.topic_id != self._topic_id:
            self._brokers.forget(name)
            self._missing("the topic was deleted, and another made with its name")
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic {name!r} has the id {topic.topic_id} here")
        self._missing_since = None

    def _missing(self, why: str) -> None:
        now = time.monotonic()
        if self._missing_since is None:
            self._missing_since = now
        if now - self._missing_since >= _GONE_AFTER:
            raise self._lost(why)

    def _take(self, data: PartitionData) -> bool:
        if data.preferred_read_replica >= 0 and self._replica < 0:
            self._replica = data.preferred_read_replica
            self._replica_until = time.monotonic() + _REPLICA_FOR
            return True
        raw = memoryview(b"")
        if isinstance(data.records, (bytes, bytearray, memoryview)):
            raw = memoryview(data.records)
        size, following, last = 0, self._offset, None
        runs: list[tuple[int, bool]] = []
        try:
            # Its fields alone: properties of each of hundreds of headers take half as long again.
            for pos, header in iter_batches(raw):
                stamped = header.attributes & LOG_APPEND_TIME_BIT != 0
                if last is not None and stamped != last:
                    runs.append((size, last))
                last, size = stamped, pos + header.length + LENGTH_OVERHEAD
                following = header.base_offset + header.last_offset_delta + 1
            if last is not None:
                runs.append((size, last))
        except DecodeError as e:
            what = f"{self._partition}: what follows offset {following} cannot be read: {e}"
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, what) from e
        if following <= self._offset:
            return False
        aborted = tuple((each.producer_id, each.first_offset) for each in data.aborted_transactions or ())
        answer = FetchedData(raw[:size], aborted if self._options.committed else (), tuple(runs))
        self._offset = following
        self._grow(size)
        with self._changed:
            self._waiting.append(answer)
            self._held += size
            self._changed.notify_all()
        return True

    def _grow(self, size: int) -> None:
        """Fetch more with each request, but not much more than is left of the range: the next task reads that."""
        self._bytes += size
        self._step = min(2 * self._step, self._options.max_bytes)
        left = self._bytes * (self._end - self._offset) // (self._offset - self._start)
        self._max_bytes = min(self._step, max(_LEAST, left + left // 8))

    def _refused(self, data: PartitionData, nodes: list[Node]) -> Exception:
        error = api_error(data.error_code, str(self._partition))
        if self._replica >= 0:
            # Ask the leader, whose offsets are newer too.
            self._replica = -1
            return Disconnected(str(error))
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._out_of_range()
        hint = data.current_leader
        if hint is None or not self._brokers.update_leader(self._partition, hint.leader_id, hint.leader_epoch, nodes):
            self._brokers.forget(self._partition)
        if error.code is ErrorCode.CORRUPT_MESSAGE:
            return PipelineError(f"{self._partition}: the broker cannot read offset {self._offset}: {error.message}")
        return error

    def _out_of_range(self) -> Exception:
        start, end = self._bounds()
        if self._offset < start:
            return self._lost("it has expired or was deleted", start, end)
        if self._offset > end:
            return self._lost("the log was truncated", start, end)
        return Disconnected(f"{self._partition}: the leader does not know offset {self._offset} yet")

    def _stuck(self) -> Exception:
        start, end = self._bounds()
        if end < self._end:
            return self._lost(f"the log ends before {self._end}", start, end)
        return PipelineError(
            f"{self._partition}: the leader returns no records at offset {self._offset}, and has up to {end}"
        )

    def _bounds(self) -> tuple[int, int]:
        one = self._partition
        start = list_offsets(self._brokers, {one: EARLIEST})[one].offset
        return start, list_offsets(self._brokers, {one: LATEST}, self._options.committed)[one].offset

    def _lost(self, why: str, start: int = -1, end: int = -1) -> OffsetLost:
        return OffsetLost(self._partition, self._offset, start, end, why)
