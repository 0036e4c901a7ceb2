"""A fake leader for tests of followers: real logs, and a channel without a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from logbus.cluster.follower.fetch_session_handler import FINAL_EPOCH, INITIAL_EPOCH
from logbus.errors import ApiError, Disconnected, ErrorCode
from logbus.model import TopicPartition
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.log import Log
from logbus.wire.messages.records import (
    EpochAndEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tests.storage.builders import a_log, batch, data_of

Key = tuple[bytes, int]


@define(eq=False)
class Led:
    """A partition of the leader's."""

    log: Log
    epoch: int = 0
    committed: int = 0
    told: int = -1
    damage: Callable[[bytes], bytes] = field(default=lambda data: data)
    error: ErrorCode | None = None


@define(eq=False)
class FakeLeader:
    """
    Answers fetches as a leader does.

    :ivar requests: all that came.
    :ivar positions: where the follower last fetched, by partition.
    :ivar others: answers what is no fetch.
    """

    clock: Clock
    led: dict[Key, Led] = field(factory=dict)
    requests: list[FetchRequest] = field(factory=list)
    positions: dict[Key, int] = field(factory=dict)
    down: bool = False
    session: int = 0
    epoch: int = 0
    usable: bool = True
    unknown_session: bool = False
    max_bytes: int = 1 << 20
    others: Callable[[Any], Deferred[Any]] | None = None
    _wants: dict[Key, FetchPartition] = field(factory=dict)
    _held: tuple[FetchRequest, Deferred[Any], Any] | None = None

    def lead(self, name: TopicPartition, topic_id: UUID, epoch: int = 0) -> Led:
        led = self.led[topic_id.bytes, name.partition] = Led(a_log(directory=str(name)), epoch)
        led.log.become_leader(epoch)
        return led

    def append(self, led: Led, *values: bytes, **header: Any) -> None:
        for value in values:
            append_as_leader(led.log, batch(value, **header), led.epoch)
        self.answer()

    def commit(self, led: Led) -> None:
        led.committed = led.log.log_end_offset

    def channel_for(self, broker_id: int, purpose: str) -> Deferred[Any]:
        if self.down:
            return fail(ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "nobody there"))
        return succeed(self)

    def request(self, request: Any, version: int | None = None, timeout: float = 0) -> Deferred[Any]:
        if not isinstance(request, FetchRequest):
            assert self.others is not None
            return self.others(request)
        self.requests.append(request)
        if request.session_epoch == FINAL_EPOCH:
            self.session = 0
            return succeed(FetchResponse(responses=[]))
        if self.unknown_session:
            self.unknown_session = False
            return succeed(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[]))
        if request.session_epoch == INITIAL_EPOCH:
            self._wants = {}
            self.session, self.epoch = self.session + 1, 0
        else:
            assert (request.session_id, request.session_epoch) == (self.session, self.epoch), "another session"
        self.epoch += 1
        for topic in request.topics:
            for asked in topic.partitions:
                self._wants.pop((topic.topic_id, asked.partition), None)
                self._wants[topic.topic_id, asked.partition] = asked
        for gone in request.forgotten_topics_data:
            for partition in gone.partitions:
                del self._wants[gone.topic_id, partition]
        self.positions.update({key: asked.fetch_offset for key, asked in self._wants.items()})
        answer: Deferred[Any] = Deferred()
        timer = self.clock.callLater(request.max_wait_ms / 1000, self.answer, True)
        self._held = (request, answer, timer)
        self.answer()
        return answer

    def hang_up(self) -> None:
        held, self._held = self._held, None
        assert held is not None
        held[2].cancel()
        held[1].errback(Disconnected("gone"))

    def answer(self, late: bool = False) -> None:
        """Answer what is held, if there is something to tell."""
        if self._held is None:
            return
        request, answer, timer = self._held
        full = request.session_epoch == INITIAL_EPOCH
        found: dict[bytes, list[PartitionData]] = {}
        news, size = False, 0
        for key, asked in self._wants.items():
            data = self._read(key, asked, max(0, self.max_bytes - size))
            size += len(data.records or b"")
            led = self.led.get(key)
            urgent = bool(data.records or data.error_code or data.diverging_epoch)
            news = news or urgent
            if full or urgent or led is None or led.told != data.high_watermark:
                found.setdefault(key[0], []).append(data)
        if not (news or late):
            return
        for topic, partitions in found.items():
            for data in partitions:
                if (led := self.led.get((topic, data.partition_index))) is not None:
                    led.told = data.high_watermark
        self._held = None
        if timer.active():
            timer.cancel()
        topics = [FetchableTopicResponse(topic_id=topic, partitions=data) for topic, data in found.items()]
        answer.callback(FetchResponse(session_id=self.session, responses=topics))

    def _read(self, key: Key, asked: FetchPartition, most: int) -> PartitionData:
        data = PartitionData(partition_index=key[1], high_watermark=-1, records=b"")
        led = self.led.get(key)
        if led is None:
            data.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        elif led.error is not None:
            data.error_code = led.error
        elif asked.current_leader_epoch != led.epoch:
            older = asked.current_leader_epoch < led.epoch
            data.error_code = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        else:
            log = led.log
            data.high_watermark, data.log_start_offset = led.committed, log.log_start_offset
            ours = log.end_offset_for_epoch(asked.last_fetched_epoch)
            if asked.last_fetched_epoch >= 0 and (
                ours.epoch < asked.last_fetched_epoch or ours.offset < asked.fetch_offset
            ):
                data.diverging_epoch = EpochAndEndOffset(epoch=ours.epoch, end_offset=ours.offset)
                return data
            try:
                found = log.read(asked.fetch_offset, min(most, asked.partition_max_bytes), None, most > 0).data
            except ApiError as e:
                data.error_code = e.code
            else:
                data.records = led.damage(data_of(found))
        return data
