"""
Sends records.

.. code-block:: python

    producer = Producer(cluster, wall_clock=time.time, random=Random())
    sent = await producer.send("orders", b"...", key=b"42")
    await producer.close()

Batches of a partition are sent one after the other, so that their order holds over repetitions. A batch that is sent
again because its answer was lost may be in the log twice.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, NamedTuple

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.client.accumulator import Accumulator, Batch, Delivered, Outcome
from logbus.client.cluster import Cluster, Topic
from logbus.client.partitioner import StickyPartitions, partition_for_key
from logbus.client.retry import api_error, is_retriable
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.records.batch import Headers
from logbus.records.compression import Codec
from logbus.wire.messages.records import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from logbus.wire.schema import ZERO_UUID

_PRODUCE = 0
_LAST_VERSION_BY_NAME = 12


class RecordMetadata(NamedTuple):
    """
    Where a record was written.

    :ivar offset: −1 if nobody waited for the answer (acks=0).
    :ivar timestamp: milliseconds since 1970.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class _Waiting(NamedTuple):
    """A record whose topic is not known yet."""

    arguments: tuple[bytes | None, bytes | None, int | None, int, Headers]
    place: Deferred[tuple[Batch, int]]


class DeliveryFailed(LogbusError):
    """A batch could not be written in the time it was given."""


class Producer:
    """
    :param cluster: where to; closed by its owner, not by the producer.
    :param wall_clock: seconds since 1970, for the records' timestamps.
    :param random: chooses partitions for records without a key.
    :param acks: −1: the in-sync replicas have it; 1: the leader has; 0: nobody is asked.
    :param codec: how batches are compressed.
    :param batch_bytes: a batch is sent when it has so many bytes, uncompressed,
    :param linger: or so many seconds after its first record.
    :param delivery_timeout: seconds after which a batch is given up.
    :param request_timeout: seconds the leader may wait for the in-sync replicas.
    :param request_bytes: how many bytes of batches go into one request.
    :param buffer_bytes: from so many bytes on :meth:`room` makes wait.
    :param create_topics: let the broker create topics that are not there, if it is set to.
    """

    _log = Logger()

    def __init__(
        self,
        cluster: Cluster,
        *,
        wall_clock: Callable[[], float],
        random: Random,
        acks: int = -1,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        batch_bytes: int = 64 * 1024,
        linger: float = 0.005,
        delivery_timeout: float = 120.0,
        request_timeout: float = 30.0,
        request_bytes: int = 1024 * 1024,
        buffer_bytes: int = 32 * 1024 * 1024,
        create_topics: bool = False,
    ) -> None:
        if acks not in (-1, 0, 1):
            raise ValueError(f"acks is {acks}; it can be -1 (all), 0 or 1")
        self._cluster = cluster
        self._clock = cluster.reactor
        self._wall_clock = wall_clock
        self._acks = acks
        self._linger = linger
        self._delivery_timeout = delivery_timeout
        self._request_timeout = request_timeout
        self._request_bytes = request_bytes
        self._buffer_bytes = buffer_bytes
        self._create_topics = create_topics
        self._accumulator = Accumulator(batch_bytes, codec, level)
        self._sticky = StickyPartitions(random)
        self._writable: dict[str, tuple[Topic, list[int]]] = {}
        self._waiting: dict[str, list[_Waiting]] = {}
        self._in_flight: set[TopicPartition] = set()
        self._not_before: dict[TopicPartition, float] = {}
        self._tasks: set[Deferred[None]] = set()
        self._unfinished = 0
        self._timer: IDelayedCall | None = None
        self._room: list[Deferred[None]] = []
        self._flushing: list[Deferred[None]] = []
        self._closed = False
        self.buffered = 0

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> Deferred[RecordMetadata]:
        """
        Send a record.

        :param partition: default: by the key, or any.
        :param timestamp: milliseconds since 1970; default: now.
        :returns: fires when it is written as ``acks`` demands.
        :raises ApiError: (in the Deferred) the topic or partition is not there, or the broker refuses the record.
        :raises DeliveryFailed: it could not be written in time.
        """
        if timestamp is None:
            timestamp = int(self._wall_clock() * 1000)
        sent: Deferred[RecordMetadata] = Deferred()
        when = timestamp

        def placed(place: tuple[Batch, int]) -> None:
            batch, index = place

            def done(outcome: Outcome) -> None:
                if isinstance(outcome, Exception):
                    sent.errback(outcome)
                    return
                offset = outcome.base_offset + index if outcome.base_offset >= 0 else -1
                stamp = outcome.timestamp if outcome.timestamp >= 0 else when
                sent.callback(RecordMetadata(topic, batch.partition.partition, offset, stamp))

            batch.when_done(done)

        self.place(topic, value, key, partition=partition, timestamp=timestamp, headers=headers).addCallbacks(
            placed, sent.errback
        )
        return sent

    def place(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> Deferred[tuple[Batch, int]]:
        """
        Put a record into a batch without waiting for it to be sent, for who sends many and asks the batches.

        :returns: the batch and the record's index in it. It has fired already when the topic is known.
        """
        if timestamp is None:
            timestamp = int(self._wall_clock() * 1000)
        if self._closed:
            place: Deferred[tuple[Batch, int]] = Deferred()
            place.errback(DeliveryFailed("the producer is closed"))
            return place
        known = self._cluster.known(topic)
        if known is None or topic in self._waiting:
            place = Deferred()
            record = _Waiting((value, key, partition, timestamp, headers), place)
            if topic in self._waiting:
                self._waiting[topic].append(record)
            else:
                self._waiting[topic] = [record]
                self._start(self._learn(topic))
            return place
        try:
            return succeed(self.put(known, value, key, partition=partition, timestamp=timestamp, headers=headers))
        except (ApiError, ValueError):
            place = Deferred()
            place.errback()
            return place

    def room(self) -> Deferred[None] | None:
        """None while more can be sent; else a Deferred that fires when there is room again."""
        if self.buffered < self._buffer_bytes:
            return None
        waiting: Deferred[None] = Deferred()
        self._room.append(waiting)
        return waiting

    def flush(self) -> Deferred[None]:
        """Send everything now; fires when the outcome of all of it is known, whatever it is."""
        waiting: Deferred[None] = Deferred()
        self._flushing.append(waiting)
        self._accumulator.seal_all()
        self._pump()
        self._settle()
        return waiting

    def close(self) -> Deferred[None]:
        """Flush, and take no more records."""
        self._closed = True
        return self.flush()

    def abort(self) -> None:
        """Give up what is not sent; its records fail."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        self._accumulator.seal_all()
        for partition in self._accumulator.ready():
            while partition in self._accumulator.ready():
                self._finish(self._accumulator.take(partition), DeliveryFailed("the producer was stopped"))
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    # Into batches.

    async def _learn(self, name: str) -> None:
        """Find out about a topic, and place the records that wait for that."""
        error: Exception | None = None
        try:
            topic = await self._known(name, self._clock.seconds() + self._delivery_timeout)
        except Exception as e:
            error = e
        for (value, key, partition, timestamp, headers), place in self._waiting.pop(name, []):
            if error is not None:
                place.errback(error)
                continue
            try:
                found = self.put(topic, value, key, partition=partition, timestamp=timestamp, headers=headers)
            except (ApiError, ValueError):
                place.errback()
            else:
                place.callback(found)
        self._settle()

    async def _known(self, name: str, deadline: float) -> Topic:
        attempt = 0
        while True:
            try:
                return await self._cluster.topic(name, create=self._create_topics)
            except LogbusError as e:
                unknown = isinstance(e, ApiError) and e.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if (unknown and not self._create_topics) or not isinstance(e, ApiError) or not is_retriable(e):
                    raise
                attempt += 1
                wait = self._cluster.backoff.before(attempt)
                if self._clock.seconds() + wait >= deadline:
                    raise
            await deferLater(self._clock, wait)

    def put(
        self,
        topic: Topic,
        value: bytes | None,
        key: bytes | None = None,
        *,
        timestamp: int,
        partition: int | None = None,
        headers: Headers = (),
    ) -> tuple[Batch, int]:
        """
        Put a record into a batch, for who sends many: it asks the batches for their outcome, and :meth:`room` for
        leave to go on.

        :returns: the batch and the record's index in it.
        :raises ApiError: UNKNOWN_TOPIC_OR_PARTITION: the topic has no such partition.
        :raises ValueError: a number is out of range.
        """
        index = partition
        partitions = topic.partitions
        by_chance = index is None and key is None
        if index is None:
            index = (
                self._sticky.partition(topic.name, self._candidates(topic))
                if key is None
                else partition_for_key(key, len(partitions))
            )
        elif index not in partitions:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic.name!r} has no partition {index}; it has 0 to {len(partitions) - 1}",
            )
        target = TopicPartition(topic.name, index)
        batch, at, filled = self._accumulator.append(target, self._clock.seconds(), timestamp, key, value, headers)
        if at == 0:
            self._unfinished += 1
            self.buffered += self._accumulator.batch_bytes
            batch.when_done(self._done_with(batch))
            if filled and by_chance:
                self._sticky.next(topic.name, self._candidates(topic))
        if filled:
            self._pump()
        if self._timer is None:
            self._timer = self._clock.callLater(self._linger, self._lingered)
        return batch, at

    def _candidates(self, topic: Topic) -> list[int]:
        cached = self._writable.get(topic.name)
        if cached is not None and cached[0] is topic:
            return cached[1]
        candidates = [each.index for each in topic.partitions.values() if each.leader >= 0] or list(topic.partitions)
        self._writable[topic.name] = (topic, candidates)
        return candidates

    def _done_with(self, batch: Batch) -> Callable[[Outcome], None]:
        def done(outcome: Outcome) -> None:
            self._unfinished -= 1
            self.buffered -= self._accumulator.batch_bytes
            if self.buffered < self._buffer_bytes:
                waiting, self._room = self._room, []
                for each in waiting:
                    each.callback(None)

        return done

    def _lingered(self) -> None:
        """Batches that waited for their linger are sent as they are."""
        self._timer = None
        oldest = self._accumulator.seal_older(self._clock.seconds() - self._linger)
        if oldest is not None:
            wait = max(0.0, oldest + self._linger - self._clock.seconds())
            self._timer = self._clock.callLater(wait, self._lingered)
        self._pump()

    # Out of batches.

    def _pump(self) -> None:
        """Send what can be sent now."""
        now = self._clock.seconds()
        by_leader: dict[int, list[Batch]] = {}
        sizes: dict[int, int] = {}
        for partition in self._accumulator.ready():
            if partition in self._in_flight:
                continue
            if self._not_before.get(partition, 0.0) > now:
                continue
            leader = self._cluster.leader(partition)
            if leader is None:
                self._in_flight.add(partition)
                self._start(self._find_leader(partition))
                continue
            size = self._accumulator.first(partition).size
            if leader in by_leader and sizes[leader] + size > self._request_bytes:
                self._dispatch(leader, by_leader.pop(leader))
            self._in_flight.add(partition)
            by_leader.setdefault(leader, []).append(self._accumulator.take(partition))
            sizes[leader] = size + (sizes[leader] if len(by_leader[leader]) > 1 else 0)
        for leader, batches in by_leader.items():
            self._dispatch(leader, batches)

    def _dispatch(self, leader: int, batches: list[Batch]) -> None:
        self._start(self._deliver(leader, batches))

    async def _find_leader(self, partition: TopicPartition) -> None:
        """A partition's leader is not known, or there is none."""
        batch = self._accumulator.first(partition)
        error: Exception | None = None
        try:
            self._cluster.forget(partition.topic)
            topic = await self._cluster.topic(partition.topic)
            if partition.partition not in topic.partitions:
                error = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}")
            elif self._cluster.leader(partition) is None:
                error = ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
        except LogbusError as e:
            error = e
        self._in_flight.discard(partition)
        if error is not None and partition in self._accumulator.ready():
            self._accumulator.take(partition)
            batch.attempts += 1
            self._retry_or_fail(batch, error)
        self._pump()
        self._settle()

    async def _deliver(self, leader: int, batches: list[Batch]) -> None:
        try:
            outcomes = await self._produce(leader, batches)
        except LogbusError as e:
            outcomes = [e] * len(batches)
        except Exception as e:
            for batch in batches:
                self._in_flight.discard(batch.partition)
                self._finish(batch, e)
            raise
        for batch, outcome in zip(batches, outcomes, strict=True):
            self._in_flight.discard(batch.partition)
            if isinstance(outcome, Exception):
                self._retry_or_fail(batch, outcome)
            else:
                self._not_before.pop(batch.partition, None)
                self._finish(batch, outcome)
        self._pump()
        self._settle()

    async def _produce(self, leader: int, batches: list[Batch]) -> list[Outcome]:
        """One request to one broker; the outcome of each batch, in order."""
        channel = await self._cluster.channel(leader)
        topics: dict[str, TopicProduceData] = {}
        by_id = True
        for batch in batches:
            batch.attempts += 1
            name, index = batch.partition
            if name not in topics:
                known = self._cluster.known(name)
                topic_id = ZERO_UUID if known is None else known.topic_id.bytes
                by_id = by_id and topic_id != ZERO_UUID
                topics[name] = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
            data = PartitionProduceData(index=index, records=batch.builder.build())
            topics[name].partition_data.append(data)
        request = ProduceRequest(
            acks=self._acks, timeout_ms=int(self._request_timeout * 1000), topic_data=list(topics.values())
        )
        version = channel.version(_PRODUCE)
        if not by_id:
            version = min(version, _LAST_VERSION_BY_NAME)
        if self._acks == 0:
            channel.send(request, version)
            return [Delivered(-1, -1)] * len(batches)
        response: ProduceResponse = await channel.request(
            request, version, self._request_timeout + self._cluster.timeout
        )
        names = {each.topic_id: name for name, each in topics.items()}
        answers = {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), each.index): each
            for topic in response.responses
            for each in topic.partition_responses
        }
        outcomes: list[Outcome] = []
        for batch in batches:
            answer = answers.get(batch.partition)
            if answer is None:
                outcomes.append(LogbusError(f"the broker's answer leaves out {batch.partition}"))
            elif answer.error_code:
                outcomes.append(api_error(answer.error_code, str(batch.partition), answer.error_message))
            else:
                outcomes.append(Delivered(answer.base_offset, answer.log_append_time_ms))
        return outcomes

    def _retry_or_fail(self, batch: Batch, error: Exception) -> None:
        now = self._clock.seconds()
        wait = self._cluster.backoff.before(max(1, batch.attempts))
        if not is_retriable(error) or self._closed_for_good(error):
            self._finish(batch, error)
        elif now + wait >= batch.created + self._delivery_timeout:
            tried = f"after {now - batch.created:.1f} s and {batch.attempts} attempts"
            self._finish(batch, DeliveryFailed(f"{batch.partition}: given up {tried}: {error}"))
        else:
            self._log.debug("{partition}: {error}; sending again", partition=str(batch.partition), error=error)
            self._cluster.forget(batch.partition.topic)
            self._accumulator.put_back(batch)
            self._not_before[batch.partition] = now + wait
            self._clock.callLater(wait, self._pump)

    def _closed_for_good(self, error: Exception) -> bool:
        """A topic that was asked for again and is not there is gone; waiting does not bring it back."""
        return (
            isinstance(error, ApiError)
            and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            and ("there is no" in error.message)
        )

    def _finish(self, batch: Batch, outcome: Outcome) -> None:
        batch.finish(outcome)
        self._settle()

    def _settle(self) -> None:
        """Tell who waits for a flush, if nothing is under way any more."""
        if not self._unfinished and not self._waiting and self._flushing:
            waiting, self._flushing = self._flushing, []
            for each in waiting:
                each.callback(None)
        elif self._flushing and self._accumulator.seal_all():
            self._pump()

    def _start(self, coroutine: Coroutine[Deferred[Any], Any, None]) -> None:
        task = Deferred.fromCoroutine(coroutine)
        self._tasks.add(task)

        def ended(result: object) -> None:
            self._tasks.discard(task)
            if isinstance(result, Failure) and not result.check(CancelledError):
                self._log.failure("sending failed", failure=result)

        task.addBoth(ended)
