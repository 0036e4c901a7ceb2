"""Fetches from one broker: one request at a time, in a fetch session (KIP-227)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger

from logbus.client.cluster.cluster import Cluster, Node
from logbus.client.consumer.completed_fetch import CompletedFetch, completed_fetch
from logbus.client.consumer.fetch_options import FetchOptions
from logbus.client.consumer.fetch_session_handler import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchPartitionData,
    FetchSessionHandler,
)
from logbus.client.consumer.offset_for_leader_epoch import epoch_ends
from logbus.client.consumer.partition_position import PartitionPosition
from logbus.client.retry import api_error, is_retriable
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import NO_EPOCH, OffsetAndEpoch, TopicPartition
from logbus.net.channel import Channel
from logbus.wire.messages.records import FetchRequest, FetchResponse, PartitionData
from logbus.wire.schema import ZERO_UUID

_FETCH = 1
_SESSION_VERSION = 7
_EPOCH_VERSION = 12
"""The first version whose responses name the point where logs diverge."""
_LAST_VERSION_BY_NAME = 12
_REPLICA_FOR = 300.0
"""Seconds after which the leader is asked again for the preferred read replica."""
_HINTS = 3
"""The number of leader hints to follow without delay; after that, brokers that name each other get time to agree."""
_NOT_YET = frozenset({ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.UNKNOWN_LEADER_EPOCH})
"""Errors of the right broker, which has to catch up first."""
_SHORT_WAIT = 0.01
"""Seconds that a fetch waits at first while partitions are left out of it."""
_ENDING_TAKES = 1.0
"""Seconds to wait for brokers to close sessions; they also evict them when they need the room."""

FetchResult = CompletedFetch | ApiError | OffsetAndEpoch
"""
The result for one partition: batches; an error that retrying does not help, such as OFFSET_OUT_OF_RANGE; or the point
where the leader's log diverges from what was read.
"""

_Asked = dict[TopicPartition, tuple[PartitionPosition, FetchPartitionData]]


@define(eq=False)
class BrokerFetches:
    """
    The fetch session with one broker.

    :ivar node_id: the broker's id.
    :ivar busy: whether a fetch is in flight.
    """

    _log = Logger()

    node_id: int
    _cluster: Cluster
    _lane: str
    _options: FetchOptions
    _session: FetchSessionHandler = field(factory=FetchSessionHandler, init=False)
    busy: bool = field(default=False, init=False)
    # How long a fetch may wait while partitions are left out of it.
    _wait: float = field(default=_SHORT_WAIT, init=False)

    def waited(self, *, in_vain: bool) -> None:
        """
        A fetch from which partitions were left out, since enough of them was buffered, is over.

        They cannot be fetched before it is, so it waits briefly; but not again and again for an application that takes
        its time.

        :param in_vain: meanwhile all was taken that was buffered of one of them.
        """
        self._wait = _SHORT_WAIT if in_vain else min(2 * self._wait, self._options.max_wait)

    def lost(self) -> None:
        """Start a new session, since the last fetch may or may not have been served."""
        self._session.reset()

    async def fetch(
        self, positions: Sequence[PartitionPosition], max_bytes: int, *, is_partial: bool = False
    ) -> list[tuple[PartitionPosition, FetchResult]]:
        """
        Send one fetch.

        :param positions: the partitions to fetch; those whose position changes meanwhile are left alone.
        :param max_bytes: of the response, beyond the first batch.
        :param is_partial: partitions are left out; call :meth:`waited` afterwards.
        :returns: results for some of the partitions, whose fetch offsets are advanced.
        :raises LogbusError: there was no response.
        """
        channel = await self._cluster.channel(self.node_id, self._lane, lends=True)
        version = channel.version(_FETCH)
        found: list[tuple[PartitionPosition, FetchResult]] = []
        if version < _EPOCH_VERSION:
            found += await self._check(channel, positions)
        cut = {position.partition: (position.offset, position.epoch) for position, _ in found}
        asked = self._to_ask((each for each in positions if each.partition not in cut), version)
        if not asked:
            return found
        max_wait = min(self._wait, self._options.max_wait) if is_partial else self._options.max_wait
        request, version = self._request(asked, version, max_bytes, max_wait)
        response: FetchResponse = await channel.request(
            request, version, self._options.max_wait + self._cluster.timeout
        )
        # No await from here on: the memory of the records is reused.
        if response.error_code:
            self._session.reset()
            raise api_error(response.error_code, f"fetch from broker {self.node_id}")
        self._session.note_session(response.session_id if version >= _SESSION_VERSION else 0)
        # While the others were waited for, one that was cut off may have moved.
        found = [
            (each, end)
            for each, end in found
            if each.wanted is None and (each.offset, each.epoch) == cut[each.partition]
        ]
        return found + self._read(response, asked)

    def _to_ask(self, positions: Iterable[PartitionPosition], version: int) -> _Asked:
        """The fetch parameters of each partition whose position and leader are known."""
        asked: _Asked = {}
        for each in positions:
            if each.wanted is None and not each.lost:
                epoch = each.epoch if version >= _EPOCH_VERSION else NO_EPOCH
                data_to_fetch = FetchPartitionData(
                    each.offset, self._options.partition_max_bytes, self._leader_epoch(each), epoch
                )
                asked[each.partition] = each, data_to_fetch
        return asked

    def _request(self, asked: _Asked, version: int, max_bytes: int, max_wait: float) -> tuple[FetchRequest, int]:
        """The next request of the session, and its version."""
        ids: dict[str, bytes] = {}
        for name, _ in asked:
            topic = self._cluster.known(name)
            ids[name] = ZERO_UUID if topic is None else topic.topic_id.bytes
        if ZERO_UUID in ids.values():
            version = min(version, _LAST_VERSION_BY_NAME)
        topics, forgotten = self._session.next_fetch(
            {partition: data_to_fetch for partition, (_, data_to_fetch) in asked.items()},
            ids if version > _LAST_VERSION_BY_NAME else {},
        )
        has_sessions = version >= _SESSION_VERSION
        request = FetchRequest(
            max_wait_ms=int(max_wait * 1000),
            min_bytes=self._options.min_bytes,
            max_bytes=max_bytes,
            isolation_level=int(self._options.committed),
            session_id=self._session.session_id,
            session_epoch=self._session.epoch if has_sessions else FINAL_EPOCH,
            topics=topics,
            forgotten_topics_data=forgotten if has_sessions else [],
            rack_id=self._options.rack or "",
        )
        return request, version

    def _read(self, response: FetchResponse, asked: _Asked) -> list[tuple[PartitionPosition, FetchResult]]:
        """The results of partitions that have not moved since they were asked for."""
        found: list[tuple[PartitionPosition, FetchResult]] = []
        nodes = [Node(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
        for answer in response.responses:
            name = answer.topic or self._session.name_of(answer.topic_id)
            for each in answer.partitions:
                partition = TopicPartition(name, each.partition_index)
                self._session.note_response(partition)
                if partition not in asked:
                    continue
                position, data_to_fetch = asked[partition]
                if position.wanted is None and position.offset == data_to_fetch.offset:
                    if each.error_code:
                        del asked[partition]
                    result = self._read_partition(position, data_to_fetch, each, nodes)
                    if result is not None:
                        found.append((position, result))
        for position, _ in asked.values():
            position.succeeded()
        return found

    async def end(self) -> None:
        """
        Close the session, if there is one.

        Uses another connection than fetches do: one of these may be waiting for records, and responses come in order.
        """
        session_id = self._session.session_id
        self._session.reset()
        if session_id == NO_SESSION:
            return
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_id=session_id,
            session_epoch=FINAL_EPOCH,
            topics=[],
            forgotten_topics_data=[],
        )
        try:
            channel = await self._cluster.channel(self.node_id)
            await channel.request(request)
        except LogbusError as e:
            self._log.debug(
                "the fetch session with broker {node} could not be closed: {error}", node=self.node_id, error=e
            )

    def _leader_epoch(self, position: PartitionPosition) -> int:
        topic = self._cluster.known(position.partition.topic)
        known = None if topic is None else topic.partitions.get(position.partition.partition)
        return NO_EPOCH if known is None else known.leader_epoch

    async def _check(
        self, channel: Channel, positions: Sequence[PartitionPosition]
    ) -> list[tuple[PartitionPosition, FetchResult]]:
        """Check with OffsetForLeaderEpoch that the leader's log still has what was read, if its epoch has changed."""
        due = {}
        for position in positions:
            current = self._leader_epoch(position)
            if position.epoch != NO_EPOCH and current > position.checked and position.wanted is None:
                due[position.partition] = position, current
        ends = await epoch_ends(channel, {each: (current, s.epoch) for each, (s, current) in due.items()})
        found: list[tuple[PartitionPosition, FetchResult]] = []
        for partition, (position, current) in due.items():
            end = ends.get(partition)
            if isinstance(end, ApiError):
                if is_retriable(end):
                    self._back_off(position, lost=end.code not in _NOT_YET)
                continue
            position.checked = current
            if end is not None and 0 <= end.offset < position.offset:
                found.append((position, end))
        return found

    def _read_partition(
        self, position: PartitionPosition, data_to_fetch: FetchPartitionData, data: PartitionData, nodes: Iterable[Node]
    ) -> FetchResult | None:
        if data.error_code:
            return self._handle_error(position, data_to_fetch, data, nodes)
        is_leader = position.replica != self.node_id
        if data.preferred_read_replica >= 0 and is_leader:
            position.replica = data.preferred_read_replica
            position.replica_until = self._cluster.reactor.seconds() + _REPLICA_FOR
            return None
        diverging = data.diverging_epoch
        if diverging is not None and diverging.end_offset >= 0:
            return OffsetAndEpoch(diverging.end_offset, diverging.epoch)
        committed = self._options.committed
        position.high_watermark = data.last_stable_offset if committed else data.high_watermark
        try:
            kept = completed_fetch(
                position.partition, data_to_fetch.offset, data, committed, encoded=self._options.encoded
            )
        except ApiError as e:
            return e
        if kept is None:
            return None
        chunk, last = kept
        position.offset, position.epoch = last.next_offset, last.leader_epoch
        return chunk

    def _handle_error(
        self, position: PartitionPosition, data_to_fetch: FetchPartitionData, data: PartitionData, nodes: Iterable[Node]
    ) -> ApiError | None:
        error = api_error(data.error_code, str(position.partition))
        if position.replica == self.node_id:
            # Ask the leader instead, also about an offset that is out of range.
            position.replica = -1
            self._back_off(position, lost=error.code is not ErrorCode.OFFSET_OUT_OF_RANGE)
        elif error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if data_to_fetch.last_epoch == NO_EPOCH:
                return error
            # Perhaps the leader only does not know this epoch any more.
            position.epoch = NO_EPOCH
        elif error.code is ErrorCode.CORRUPT_MESSAGE or not is_retriable(error):
            return error
        else:
            hint = data.current_leader
            if hint is not None and self._cluster.update_leader(
                position.partition, hint.leader_id, hint.leader_epoch, nodes
            ):
                position.attempts += 1
                if position.attempts <= _HINTS:
                    return None
            self._back_off(position, lost=error.code not in _NOT_YET)
        return None

    def _back_off(self, position: PartitionPosition, *, lost: bool) -> None:
        position.lost = position.lost or lost
        position.failed(self._cluster.reactor.seconds(), self._cluster.backoff)


def end_sessions(brokers: Iterable[BrokerFetches], clock: Any) -> Deferred[None]:
    """Close fetch sessions; fires when that is done or has timed out, and never fails."""

    async def end() -> None:
        await gatherResults([Deferred.fromCoroutine(each.end()) for each in brokers], consumeErrors=True)

    ended = Deferred.fromCoroutine(end()).addTimeout(_ENDING_TAKES, clock)
    return ended.addErrback(lambda failure: None)
