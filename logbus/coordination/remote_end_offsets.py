"""
The ends of partitions of which this broker has no replica, as their leaders tell them: for the lag of groups.

Leaders are asked about partitions that somebody has looked up of late, every few seconds; so an end is a little old,
and unknown at first. It is the leader's log end offset (OffsetForLeaderEpoch), which may be ahead of its high
watermark.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import define, field
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.peers import LOOKUP, Peers
from logbus.errors import ApiError
from logbus.model import TopicPartition
from logbus.wire.messages.records import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

INTERVAL_SECONDS = 10.0
"""Between two times that leaders are asked."""

KEPT_SECONDS = 150.0
"""A partition that nobody has looked up for so long is forgotten."""

MOST_PARTITIONS = 10_000
"""That are kept at a time; of others the end stays unknown."""

MOST_ASKED = 1000
"""Partitions that a leader is asked about at a time, so that it has little to do; the others are next."""


@define(eq=False)
class _End:
    """
    The known end of a partition.

    :ivar offset: its end; None: unknown yet.
    :ivar wanted_at: when it was last looked up.
    """

    wanted_at: float
    offset: int | None = None


@define(eq=False)
class RemoteEndOffsets:
    """The ends of other brokers' partitions."""

    _broker_id: int
    _metadata: ClusterMetadata
    _peers: Peers
    _clock: IReactorTime
    # Those that were asked about least recently come first.
    _ends: dict[TopicPartition, _End] = field(factory=dict, init=False)
    _next: IDelayedCall | None = field(default=None, init=False)
    _asking: Deferred[None] | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)
    _log = Logger()

    def get(self, partition: TopicPartition) -> int | None:
        """Return the end of a partition; None: unknown, perhaps only yet."""
        now = self._clock.seconds()
        end = self._ends.get(partition)
        if end is None:
            if self._stopped or len(self._ends) >= MOST_PARTITIONS:
                return None
            end = self._ends[partition] = _End(now)
            if self._next is None and self._asking is None:
                self._next = self._clock.callLater(0, self._ask)
        end.wanted_at = now
        return end.offset

    async def learn(self, partitions: Collection[TopicPartition]) -> None:
        """Ask the leaders now, if the ends of some of these partitions are unknown; :meth:`get` tells them then."""
        if None in [self.get(partition) for partition in partitions]:
            await self._ask_leaders()

    def stop(self) -> None:
        """Ask no more."""
        self._stopped = True
        self._ends.clear()
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if self._asking is not None:
            self._asking.cancel()

    def _ask(self) -> None:
        self._next = None
        self._asking = Deferred.fromCoroutine(self._ask_leaders())
        self._asking.addErrback(self._failed).addBoth(self._asked)

    def _failed(self, failure: Failure) -> None:
        if not self._stopped:
            self._log.failure("the ends of partitions cannot be asked for", failure)

    def _asked(self, _: object) -> None:
        self._asking = None
        if self._ends:
            self._next = self._clock.callLater(INTERVAL_SECONDS, self._ask)

    async def _ask_leaders(self) -> None:
        await gatherResults(
            [
                Deferred.fromCoroutine(self._ask_leader(leader, partitions))
                for leader, partitions in sorted(self._by_leader().items())
            ],
            consumeErrors=True,
        )

    def _by_leader(self) -> dict[int, list[tuple[TopicPartition, int]]]:
        """The partitions to ask each leader about, with their leader epochs; forgets those that nobody wants."""
        oldest = self._clock.seconds() - KEPT_SECONDS
        leaders: dict[int, list[tuple[TopicPartition, int]]] = {}
        for partition, end in list(self._ends.items()):
            image = self._metadata.partition(partition)
            if image is None or end.wanted_at < oldest:
                del self._ends[partition]
            elif 0 <= image.leader != self._broker_id:
                asked = leaders.setdefault(image.leader, [])
                if len(asked) < MOST_ASKED:
                    asked.append((partition, image.leader_epoch))
                    self._ends[partition] = self._ends.pop(partition)
        return leaders

    async def _ask_leader(self, leader: int, partitions: Sequence[tuple[TopicPartition, int]]) -> None:
        topics: dict[str, list[OffsetForLeaderPartition]] = {}
        for (topic, number), epoch in partitions:
            topics.setdefault(topic, []).append(OffsetForLeaderPartition(partition=number, leader_epoch=epoch))
        request = OffsetForLeaderEpochRequest(
            replica_id=self._broker_id,
            topics=[OffsetForLeaderTopic(topic=topic, partitions=asked) for topic, asked in topics.items()],
        )
        try:
            response: OffsetForLeaderEpochResponse = await self._peers.request(
                self._peers.broker(leader), request, LOOKUP
            )
        except ApiError:
            return  # It is asked again, or another leader is.
        for told in response.topics:
            for each in told.partitions:
                end = self._ends.get(TopicPartition(told.topic, each.partition))
                if end is not None and not each.error_code and each.end_offset >= 0:
                    end.offset = each.end_offset
