"""
Follows the end of a topic, as a stream of server-sent events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from logbus.admin.authorization import HttpAccess
from logbus.admin.event_stream import HEARTBEAT, Piece, event, wait_for
from logbus.admin.problem_details import HttpProblem
from logbus.admin.record_reader import PageQuery, RecordReader
from logbus.admin.relay import Relay, leader_of
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.security.acl.acls import AclOperation, ResourceType

MAX_PARTITIONS = 100
"""Partitions that one stream may follow."""

CHECK_SECONDS = 0.25
"""Between two checks of the ends of this broker's partitions, which costs no request."""

POLL_SECONDS = 1.0
"""Between two requests for records of partitions that other brokers lead."""

HEARTBEAT_SECONDS = 10.0
"""Silence after which there is a heartbeat."""

Places = dict[int, int]
"""The next offset of each partition."""


def event_id(places: Places) -> str:
    """Return the id of an event: where a client that was cut off continues."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(places.items()))


def places_of(text: str, partitions: Sequence[int]) -> Places:
    """
    Read the id of an event.

    :param partitions: those that it may name.
    :raise HttpProblem: it is none.
    """
    if not re.fullmatch(r"[0-9]{1,9}:[0-9]{1,18}(,[0-9]{1,9}:[0-9]{1,18})*", text, re.ASCII):
        raise HttpProblem(HTTPStatus.BAD_REQUEST, f"The Last-Event-ID {text[:100]!r} is not one of this stream.")
    pairs = (part.split(":") for part in text.split(","))
    places = {int(partition): int(offset) for partition, offset in pairs}
    if not places.keys() <= set(partitions):
        raise HttpProblem(
            HTTPStatus.BAD_REQUEST, f"The Last-Event-ID {text[:100]!r} names partitions of another stream."
        )
    return places


@define(eq=False)
class RecordTail:
    """
    Follows partitions.

    :ivar query: of each page.
    :ivar places: the next offset of each partition; without one, ``query`` says where to begin.
    """

    reader: RecordReader
    metadata: ClusterMetadata
    replicas: ReplicaManager
    relay: Relay
    access: HttpAccess
    topic: str
    partitions: Sequence[int]
    query: PageQuery
    places: Places
    _from_start: set[int] = field(factory=set, init=False)
    _polled: float = field(default=-POLL_SECONDS, init=False)

    def events(self) -> Generator[Piece, None, None]:
        """
        Return the events: ``records`` with records of one partition, ``gap`` where records were deleted unread.

        :raise LogbusError: the stream cannot go on.
        """
        clock = self.reader.clock
        silent_since = clock.seconds()
        is_placed = self._is_placed
        while True:
            for number in self._candidates():
                news = yield from wait_for(Deferred.fromCoroutine(self._next(number)))
                if news is not None:
                    yield news
                    silent_since = clock.seconds()
            if not is_placed and self._is_placed:
                is_placed = True
                yield self._event([])  # tells where a client continues that is cut off before there are records
            if clock.seconds() - silent_since >= HEARTBEAT_SECONDS:
                self.access.require(AclOperation.READ, ResourceType.TOPIC, self.topic)
                yield HEARTBEAT
                silent_since = clock.seconds()
            yield from wait_for(deferLater(clock, CHECK_SECONDS))

    def _candidates(self) -> list[int]:
        """Return the partitions that may have records: of those led elsewhere it is not known, so they are polled."""
        now = self.reader.clock.seconds()
        is_time = now - self._polled >= POLL_SECONDS
        if is_time:
            self._polled = now
        found = []
        for number in self.partitions:
            replica = self.replicas.find(self.topic, number)
            if number not in self.places:
                found.append(number)
            elif replica is not None and replica.partition.is_leader:
                end = replica.last_stable_offset if self.query.committed else replica.high_watermark
                if end > self.places[number]:
                    found.append(number)
            elif is_time:
                found.append(number)
        return found

    async def _next(self, number: int) -> bytes | None:
        """Return the next event of a partition, if there is one."""
        try:
            items, self.places[number] = await self._page(number)
        except ApiError as e:
            if e.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                skipped = self.places.pop(number, None)
                if skipped is None:
                    return None  # Records were deleted between the look at the offsets and the read: look again.
                self._from_start.add(number)
                told = {"topic": self.topic, "partition": number, "offset": skipped, "reason": e.message}
                return event("gap", told)
            if e.code.retriable and self.metadata.topic(self.topic) is not None:
                return None  # such as a change of leaders
            raise
        if not items:
            return None
        return self._event(items)

    @property
    def _is_placed(self) -> bool:
        """Whether the next offset of each partition is known: an id without one would lose its records."""
        return len(self.places) == len(self.partitions)

    def _event(self, items: list[dict[str, Any]]) -> bytes:
        place = event_id(self.places) if self._is_placed else ""
        return event("records", {"topic": self.topic, "items": items}, place)

    async def _page(self, number: int) -> tuple[list[dict[str, Any]], int]:
        """Read the records that follow in a partition, and the offset behind them."""
        query = self.query
        if number in self.places:
            query = evolve(query, offset=self.places[number], newest=None)
        elif number in self._from_start:
            query = evolve(query, newest=None)
        leader = leader_of(self.metadata, TopicPartition(self.topic, number))
        if leader in (None, self.relay.broker_id):
            found = (await self.reader.page(self.access, self.topic, number, query)).found
            return found.items, found.next_offset
        assert leader is not None
        target = f"/api/v1/topics/{quote(self.topic)}/partitions/{number}/records?{_parameters(query)}"
        response = await self.relay.send(leader, "GET", target, {}, b"", self.access)
        assert isinstance(response.body, bytes)
        told = json.loads(response.body)
        if response.status is not HTTPStatus.OK:
            code = ErrorCode.__members__.get(told.get("error", ""), ErrorCode.UNKNOWN_SERVER_ERROR)
            raise ApiError(code, told["detail"])
        return told["items"], told["next_offset"]


def _parameters(query: PageQuery) -> str:
    """Return a query as that of the route for pages of records."""
    wanted = query.wanted
    given = {
        "offset": query.offset,
        "newest": query.newest,
        "limit": query.limit,
        "shown_bytes": query.shown,
        "isolation": "read_committed" if query.committed else "read_uncommitted",
        "key": wanted.key,
        "value": wanted.value,
        "header": wanted.header,
    }
    return urlencode({name: value for name, value in given.items() if value is not None})
