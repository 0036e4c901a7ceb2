"""A store and a metadata topic in memory, which outlive the brokers that use them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.task import Clock

from logbus.cluster.remote_log.copy_throttle import CopyThrottle
from logbus.cluster.remote_log.remote_log_task import RemoteLogTask, RemoteTools
from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.records.batch import iter_batches, iter_records
from logbus.storage.istorage import NotCached
from logbus.storage.log import Log
from logbus.storage.remote.iremote_storage import ObjectMissing, RemoteStorage
from logbus.storage.remote.load_queue import LoadQueue
from logbus.storage.remote.metadata_codec import decode_key, decode_value, encode_key, encode_value
from logbus.storage.remote.read_ahead import ReadAhead
from logbus.storage.remote.remote_log import RemoteLog
from logbus.storage.remote.remote_log_index import RemoteLogIndex
from logbus.storage.remote.remote_log_segment import DELETE_FINISHED, RemoteLogSegment, RemoteLogSegmentState
from logbus.storage.remote.remote_reader import RemoteReader
from logbus.storage.remote.window_cache import WindowCache
from tests.storage.builders import NOW_MS, NOW_S, PARTITION, a_manager

TOPIC_ID = UUID(int=7)


class Killed(BaseException):
    """The process ended here."""


@define(eq=False)
class MemoryStorage(RemoteStorage):
    """Objects in a dictionary; ``before`` may raise before each operation."""

    where: str = "memory://store"
    objects: dict[str, bytes] = field(factory=dict)
    before: Callable[[str], None] = lambda what: None

    def write(self, name: str, parts: Iterable[bytes]) -> None:
        self.before(f"write {name.rpartition('.')[2]}")
        self.objects[name] = b""
        for part in parts:
            self.before("write part")
            self.objects[name] += part

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        self.before("read")
        if name not in self.objects:
            raise ObjectMissing(f"{self.where}/{name} is missing")
        return self.objects[name][start:end]

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self.before("delete")
            self.objects.pop(name, None)

    def names(self, directory: str) -> Iterator[str]:
        self.before("list")
        for name in list(self.objects):
            if name.startswith(f"{directory}/"):
                yield name.rpartition("/")[2]


@define(eq=False)
class MemoryTopic:
    """The metadata topic, as its leader has it: records that survive, and what they tell."""

    records: list[tuple[bytes, bytes | None]] = field(factory=list)
    before: Callable[[str], None] = lambda what: None
    partition_count: int = 1
    _indexes: dict[tuple[UUID, int], RemoteLogIndex] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        for key, value in self.records:
            self._take(key, value)

    def restarted(self) -> MemoryTopic:
        """What another broker reads from the same records."""
        return MemoryTopic(self.records)

    def index(self, topic_id: UUID, partition: int) -> RemoteLogIndex:
        return self._indexes.setdefault((topic_id, partition), RemoteLogIndex())

    async def loaded(self, topic_id: UUID, partition: int) -> None:
        pass

    async def publish(self, segment: RemoteLogSegment, expected: RemoteLogSegmentState | None) -> None:
        self.before(f"publish {segment.state.name}")
        known = self.index(segment.topic_id, segment.partition.partition).get(segment.segment_id)
        if expected is not None and (known is None or known.state is not expected):
            raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, "it has another state")
        record = (encode_key(segment), None if segment.state is DELETE_FINISHED else encode_value(segment))
        self.records.append(record)
        self._take(*record)
        self.before(f"published {segment.state.name}")

    def _take(self, key: bytes, value: bytes | None) -> None:
        about = decode_key(key)
        index = self.index(about.topic_id, about.partition)
        if value is None:
            index.forget(about.segment_id)
        else:
            index.apply(decode_value(value))


def at_once(fn: Callable[..., Any], *args: Any) -> Deferred[Any]:
    """A thread that is done when it begins."""
    return maybeDeferred(fn, *args)


@define(eq=False)
class LeadingPartition:
    """The role of a replica that leads."""

    is_leader: bool = True
    in_doubt: bool = False
    leader_epoch: int = 0


@define(eq=False)
class LeadingReplica:
    """A replica that leads, all of whose records are committed."""

    log: Log
    topic_id: UUID = TOPIC_ID
    partition: LeadingPartition = field(factory=LeadingPartition)

    @property
    def topic_partition(self) -> TopicPartition:
        return self.log.partition

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset(self.log.log_end_offset)


@define(eq=False, slots=False)
class TieredBroker:
    """A broker with one partition, which it leads, on a disk and a store that outlive it."""

    disk: Any
    storage: MemoryStorage
    topic: MemoryTopic
    config: TopicConfig
    clock: Clock = field(factory=Clock)
    now_ms: int = NOW_MS
    more_disks: tuple[Any, ...] = ()

    def __attrs_post_init__(self) -> None:
        self.logs = a_manager(self.disk, *self.more_disks, clock=self.clock, wall_clock=lambda: self.now_ms / 1000)
        ahead = ReadAhead(1 << 19, self.clock.seconds)
        self.reader = RemoteReader(
            self.storage, LoadQueue(at_once, 2), self.clock, WindowCache(1 << 20), ahead, lambda: 1.0
        )
        self.logs.housekeeping.remote_log_of = lambda log: RemoteLog(
            log.partition, self.topic.index(TOPIC_ID, log.partition.partition), self.reader
        )

    def open(self, start: Callable[[Deferred[Any]], Any]) -> None:
        """Open the log, or create it; ``start`` returns a Deferred's result."""
        start(self.logs.open())
        log = self.logs.get(PARTITION)
        self.lead(log if log is not None else start(self.logs.create(PARTITION, TOPIC_ID, self.config)))

    def lead(self, log: Log) -> None:
        """Have the broker's replica use a log."""
        self.log = log
        self.log.configure(self.config)
        self.log.become_leader(0)
        self.log.high_watermark = self.log.log_end_offset
        self.replica = LeadingReplica(self.log)
        self.tools = RemoteTools(
            0,
            self.logs,
            self.topic,  # type: ignore[arg-type]
            self.storage,
            self.reader,
            at_once,
            CopyThrottle(lambda: 1e12),
            lambda: self.now_ms,
            uuid.uuid4,
        )
        self.task = RemoteLogTask(self.replica, self.tools)  # type: ignore[arg-type]

    def work(self) -> Deferred[None]:
        """One run of the task."""
        self.log.high_watermark = self.log.log_end_offset
        return Deferred.fromCoroutine(self.task.run())

    def read(self, offset: int, max_bytes: int = 1 << 20) -> Any:
        """Read as a fetch does: again after what must be loaded."""
        for _ in range(20):
            try:
                return self.log.read(offset, max_bytes)
            except NotCached as missing:
                loading = missing.load()
                assert loading.called or loading is not succeed
        raise AssertionError("it loads for ever")

    def offsets(self) -> list[int]:
        """The offsets of all records, from the log's start. The value of each is its offset, which is checked."""
        found, offset = [], self.log.log_start_offset
        while offset < self.log.log_end_offset:
            data = self.read(offset).data.read()
            for record in iter_records(data):
                if record.offset >= offset:
                    assert record.value == b"%08d" % record.offset, record
                    found.append(record.offset)
            offset = max(header.next_offset for _, header in iter_batches(data))
        return found


__all__ = ["NOW_S", "Killed", "LeadingReplica", "MemoryStorage", "MemoryTopic", "TieredBroker"]
