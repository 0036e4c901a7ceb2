"""
The states of all remote segments, in the internal topic ``__remote_log_metadata``.

A state is appended by the leader of the topic's partition, one at a time, and only if it can follow the segment's
present state. So it knows all states that were appended before, even those that are not committed yet: it has waited
for them.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.interfaces import IReactorTime

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.plugin_calls import PluginCalls
from logbus.cluster.remote_log.metadata_consumer import MetadataConsumer
from logbus.cluster.remote_log.metadata_requests import (
    ANY_STATE,
    AppendState,
    ReadStates,
    States,
    StatesEnd,
    decode_offset,
    decode_request,
    encode_offset,
)
from logbus.cluster.replication.replica_manager import Replica, ReplicaManager
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, ErrorCode
from logbus.model import REMOTE_LOG_METADATA_TOPIC, TopicPartition
from logbus.records.batch import BatchBuilder
from logbus.records.checksum import crc32c
from logbus.records.compression import Codec
from logbus.services import Tasks
from logbus.storage.remote.metadata_codec import decode_key, decode_value, encode_key, encode_value
from logbus.storage.remote.remote_log_index import RemoteLogIndex
from logbus.storage.remote.remote_log_segment import (
    DELETE_FINISHED,
    RemoteLogSegment,
    RemoteLogSegmentState,
    may_follow,
)

PLUGIN = "remote-log-metadata"
"""The name under which brokers ask each other."""

ASK_SECONDS = 30.0
"""Until a request to another broker is given up."""

READ_BYTES = 1 << 20
"""Bytes that are read at a time."""


@define(eq=False)
class RemoteLogMetadataTopic:
    """
    The topic: its partitions that this broker reads, and what they told.

    :param ensure: creates the topic, if it is missing.
    """

    _broker_id: int
    _replicas: ReplicaManager
    _metadata: ClusterMetadata
    _calls: PluginCalls
    _ensure: Callable[[], Deferred[None]]
    _clock: IReactorTime
    _wall_ms: Callable[[], int]
    _indexes: dict[tuple[UUID, int], RemoteLogIndex] = field(factory=dict, init=False)
    _consumers: dict[int, MetadataConsumer] = field(factory=dict, init=False)
    _locks: dict[int, DeferredLock] = field(factory=dict, init=False)
    _tasks: Tasks = field(factory=Tasks, init=False)

    def __attrs_post_init__(self) -> None:
        self._calls.answer(PLUGIN, lambda body: Deferred.fromCoroutine(self._answer(body)))

    def stop(self) -> Deferred[None]:
        """Read no more."""
        return self._tasks.stop()

    # What is known.

    def index(self, topic_id: UUID, partition: int) -> RemoteLogIndex:
        """The remote segments of a partition, as far as they are known."""
        key = (topic_id, partition)
        found = self._indexes.get(key)
        if found is None:
            found = self._indexes[key] = RemoteLogIndex()
        return found

    def topic_ids(self) -> set[UUID]:
        """The topics of which something is known, or was."""
        return {topic_id for topic_id, _ in self._indexes}

    def forget_empty(self, topic_ids: Set[UUID]) -> None:
        """Forget the partitions of deleted topics that have no remote segments any more."""
        if topic_ids:
            # Logs have these objects, too.
            gone = topic_ids - {replica.topic_id for replica in self._replicas}
            for key in [key for key, index in self._indexes.items() if key[0] in gone and not len(index)]:
                del self._indexes[key]

    def indexes(self, number: int) -> list[tuple[UUID, int, RemoteLogIndex]]:
        """The partitions with remote segments, as a partition of the topic tells them."""
        count = self.partition_count
        return [
            (topic_id, partition, index)
            for (topic_id, partition), index in list(self._indexes.items())
            if len(index) and count and number_for(topic_id, partition, count) == number
        ]

    @property
    def partition_count(self) -> int:
        """Partitions of the topic; 0 while there is none."""
        topic = self._metadata.topic(REMOTE_LOG_METADATA_TOPIC)
        return 0 if topic is None else len(topic.partitions)

    def led(self) -> list[int]:
        """The partitions of the topic that this broker leads."""
        found = ((n, self._replicas.find(REMOTE_LOG_METADATA_TOPIC, n)) for n in range(self.partition_count))
        return [number for number, replica in found if replica is not None and replica.partition.is_leader]

    async def loaded(self, topic_id: UUID, partition: int) -> None:
        """
        Return once everything that was acknowledged before this call about a partition is known.

        :raise ApiError: the topic is not available now.
        """
        await self.caught_up(await self._number(topic_id, partition))

    async def caught_up(self, number: int) -> None:
        """Return once everything that was acknowledged in a partition of the topic before this call is known."""
        consumer = self._consumer(number)
        end = await consumer.end()
        await consumer.reached(end).addTimeout(ASK_SECONDS, self._clock, onTimeoutCancel=_timed_out)

    # Writing.

    async def publish(self, segment: RemoteLogSegment, expected: RemoteLogSegmentState | None) -> None:
        """
        Write a segment's state; returns when it is durable, and known here.

        :param expected: the segment's present state; None: it is a new one.
        :raise ApiError: INVALID_UPDATE_VERSION: it has another state; others: it is unknown whether it was written.
        """
        number = await self._number(segment.topic_id, segment.partition.partition)
        value = None if segment.state is DELETE_FINISHED else encode_value(segment)
        request = AppendState(number, ANY_STATE if expected is None else expected, encode_key(segment), value)
        consumer = self._consumer(number)
        if self._led(number) is not None:
            end = await self._append(request)
        else:
            end = decode_offset(await self._ask(number, request))
        if value is not None:
            # It will be read again, which changes nothing.
            self.index(segment.topic_id, segment.partition.partition).apply(segment)
        else:
            # Older states, which are still to be read, would bring the segment back.
            await consumer.reached(end).addTimeout(ASK_SECONDS, self._clock, onTimeoutCancel=_timed_out)

    async def _number(self, topic_id: UUID, partition: int) -> int:
        if not self.partition_count:
            await self._ensure()
            await self._metadata.wait_for(lambda metadata: self.partition_count > 0).addTimeout(
                ASK_SECONDS, self._clock, onTimeoutCancel=_timed_out
            )
        return number_for(topic_id, partition, self.partition_count)

    def _consumer(self, number: int) -> MetadataConsumer:
        consumer = self._consumers.get(number)
        if consumer is None:
            consumer = self._consumers[number] = MetadataConsumer(
                number,
                self._read,
                self._end,
                self._take,
                lambda: self._replicas.find(REMOTE_LOG_METADATA_TOPIC, number),
                self._clock,
            )
            self._tasks.start(consumer.run(), f"reading {REMOTE_LOG_METADATA_TOPIC}-{number}")
        return consumer

    def _led(self, number: int) -> Replica | None:
        replica = self._replicas.find(REMOTE_LOG_METADATA_TOPIC, number)
        return replica if replica is not None and replica.partition.is_leader else None

    async def _append(self, request: AppendState) -> int:
        """Append a state, as the leader of the topic's partition; returns the offset behind it."""
        lock = self._locks.setdefault(request.number, DeferredLock())
        return await lock.run(self._append_next, request)

    @returns_deferred
    async def _append_next(self, request: AppendState) -> int:
        consumer = self._consumer(request.number)
        replica = self._leader(request.number)
        end = await consumer.end()
        await consumer.reached(end).addTimeout(ASK_SECONDS, self._clock, onTimeoutCancel=_timed_out)
        key = decode_key(request.key)
        known = self.index(key.topic_id, key.partition).get(key.segment_id)
        now = None if known is None else known.state
        after = DELETE_FINISHED if request.value is None else decode_value(request.value).state
        if (request.expected != ANY_STATE and now != request.expected) or (
            now is not None and not may_follow(now, after)
        ):
            raise ApiError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"the remote segment {key.segment_id} is {'unknown' if now is None else now.name}, which "
                f"{after.name} does not follow",
            )
        builder = BatchBuilder(Codec.NONE)
        now_ms = self._wall_ms()
        builder.append(now_ms, request.key, request.value)
        replica.append(builder.build(), now_ms, all_in_sync=True, from_coordinator=True)
        end = replica.log.log_end_offset
        durable = replica.durable()
        if durable is not None:
            await durable.addTimeout(ASK_SECONDS, self._clock, onTimeoutCancel=_timed_out)
        await consumer.reached(end).addTimeout(ASK_SECONDS, self._clock, onTimeoutCancel=_timed_out)
        return end

    def _leader(self, number: int) -> Replica:
        return self._replicas.leader(REMOTE_LOG_METADATA_TOPIC, number)

    # Reading.

    async def _read(self, number: int, offset: int) -> States:
        replica = self._replicas.find(REMOTE_LOG_METADATA_TOPIC, number)
        if replica is not None:
            return _read_local(replica, offset)
        return States.decode(await self._ask(number, ReadStates(number, offset)))

    async def _end(self, number: int) -> int:
        replica = self._led(number)
        if replica is not None:
            return replica.log.log_end_offset
        return decode_offset(await self._ask(number, StatesEnd(number)))

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        about = decode_key(key)
        index = self.index(about.topic_id, about.partition)
        if value is None:
            index.forget(about.segment_id)
        else:
            index.apply(decode_value(value))

    # Other brokers.

    async def _ask(self, number: int, request: AppendState | ReadStates | StatesEnd) -> bytes:
        image = self._metadata.partition(TopicPartition(REMOTE_LOG_METADATA_TOPIC, number))
        leader = -1 if image is None else image.leader
        if leader < 0 or leader == self._broker_id:
            raise ApiError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{REMOTE_LOG_METADATA_TOPIC}-{number} has no leader now"
            )
        return await self._calls.ask(leader, PLUGIN, request.encode(), ASK_SECONDS)

    async def _answer(self, body: bytes) -> bytes:
        request = decode_request(body)
        if isinstance(request, AppendState):
            return encode_offset(await self._append(request))
        replica = self._leader(request.number)
        if isinstance(request, StatesEnd):
            return encode_offset(replica.log.log_end_offset)
        return _read_local(replica, request.offset).encode()


def _read_local(replica: Replica, offset: int) -> States:
    log, end = replica.log, replica.high_watermark
    start = max(offset, log.log_start_offset)
    if start >= end:
        return States(start, end, b"")
    found = log.read(start, READ_BYTES, end)
    return States(start, end, b"" if found.data is None else found.data.read())


def number_for(topic_id: UUID, partition: int, count: int) -> int:
    """The partition of the topic that has the states of a partition's segments."""
    return crc32c(topic_id.bytes + partition.to_bytes(4, "big")) % count


def _timed_out(result: object, seconds: float) -> None:
    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"{REMOTE_LOG_METADATA_TOPIC} did not get on in {seconds:g} s")
