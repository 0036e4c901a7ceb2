"""
A consumer without positions or retries (Kafka 0.8: SimpleConsumer): one request a call.

.. code-block:: python

    simple = SimpleConsumer(cluster)
    fetched = await simple.fetch("orders", 0, 42, 100_000)
    print(fetched.records, fetched.next_offset)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attrs import frozen

from logbus.client import validators as check
from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.completed_fetch import completed_fetch
from logbus.client.consumer.consumer_record import Fetched
from logbus.client.consumer.partition_position import Isolation
from logbus.client.list_offsets import LATEST, list_offsets
from logbus.client.retry import api_error
from logbus.coroutines import gather, returns_deferred
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.wire.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_FETCH, _LIST_OFFSETS = 1, 2
_BY_NAME = 12
"""The last version that identifies topics by name."""
_MOST_BYTES = 2**31 - 1
"""For which a request has room."""
_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
    }
)


@frozen
class FetchOf:
    """
    A partition to fetch, and from where.

    :ivar offset: of the first record.
    :ivar max_bytes: of batches; the first batch is returned even if it is larger.
    """

    topic: str
    partition: int
    offset: int
    max_bytes: int = 1024 * 1024


class SimpleConsumer:
    """
    Fetches given offsets of given partitions, without reading ahead and without retries.

    Errors say what to do. After NOT_LEADER_OR_FOLLOWER and the like, the next call looks up the leader. After
    OFFSET_OUT_OF_RANGE, :meth:`offsets_before` returns the offsets that exist.

    :param cluster: the cluster to read from; its owner closes it.
    :param max_wait: seconds a broker delays a fetch that has fewer than ``min_bytes``; 0: it answers at once.
    :param isolation: ``read_committed`` returns records of transactions only once they are committed.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        max_wait: float = 0.0,
        min_bytes: int = 1,
        isolation: Isolation = "read_uncommitted",
    ) -> None:
        check.cluster(cluster)
        check.seconds("max_wait", max_wait, is_sent=True)
        check.integer("min_bytes", min_bytes, 0)
        check.choice("isolation", isolation, ("read_uncommitted", "read_committed"))
        self._cluster = cluster
        self._max_wait = max_wait
        self._min_bytes = min_bytes
        self._committed = isolation == "read_committed"
        self._lane = cluster.lane("simple")

    @returns_deferred
    async def fetch(self, topic: str, partition: int, offset: int, max_bytes: int = 1024 * 1024) -> Fetched:
        """
        Fetch records of one partition from an offset on.

        :returns: fires with the records; without any if the partition ends there.
        :raises ApiError: (in the Deferred) OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER, ...; the message says what to
            do.
        :raises Unreachable: the leader cannot be connected to.
        """
        (answer,) = await self.multifetch([FetchOf(topic, partition, offset, max_bytes)])
        if isinstance(answer, ApiError):
            raise answer
        return answer

    @returns_deferred
    async def multifetch(self, fetches: Sequence[FetchOf]) -> list[Fetched | ApiError]:
        """
        Fetch several partitions, with one request to each leader; with more, if a partition is named more than once.

        :returns: fires with a result or an error for each, in their order.
        :raises Unreachable: (in the Deferred) a leader cannot be connected to.
        """
        answers: dict[FetchOf, Fetched | ApiError] = {}
        turns: Counter[TopicPartition] = Counter()
        requests: dict[tuple[int, int], dict[TopicPartition, FetchOf]] = {}
        for each in dict.fromkeys(fetches):
            where = TopicPartition(each.topic, each.partition)
            leader = await self._leader(where)
            if isinstance(leader, ApiError):
                answers[each] = leader
                continue
            # A request names a partition once.
            requests.setdefault((leader, turns[where]), {})[where] = each
            turns[where] += 1
        found = await gather(self._ask(leader, wanted) for (leader, _), wanted in requests.items())
        for wanted, theirs in zip(requests.values(), found, strict=True):
            answers.update((wanted[where], answer) for where, answer in theirs.items())
        return [answers[each] for each in fetches]

    @returns_deferred
    async def offsets_before(self, topic: str, partition: int, time: int, max_number: int = 1) -> list[int]:
        """
        Offsets to start at, latest first: the base offsets of segments that are not newer than a time.

        :param time: milliseconds since 1970; :data:`LATEST`: the end is included, first; :data:`EARLIEST`: only the
            beginning of the partition.
        :param max_number: of offsets. Brokers without ListOffsets version 0 (Kafka 4) return one at most: of the first
            record at or after the time, or the end.
        :raises ApiError: (in the Deferred) the leader returned an error; the message says what to do.
        :raises Unreachable: it cannot be connected to.
        """
        where = TopicPartition(topic, partition)
        leader = await self._leader(where)
        if isinstance(leader, ApiError):
            raise leader
        channel = await self._cluster.channel(leader)
        served = channel.versions.get(_LIST_OFFSETS)
        if served is None or served.min > 0:
            times = (time, LATEST) if time >= 0 else (time,)
            for each in times:
                found = await list_offsets(self._cluster, {where: each}, committed=self._committed)
                answer = found[where]
                if isinstance(answer, ApiError):
                    raise self._explained(where, 0, answer)
                if answer.offset >= 0:
                    return [answer.offset][:max_number]
            return []
        asked = ListOffsetsPartition(partition_index=where.partition, timestamp=time, max_num_offsets=max_number)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=where.topic, partitions=[asked])])
        response: ListOffsetsResponse = await channel.request(request, 0)
        for answered in response.topics:
            for data in answered.partitions:
                if data.error_code:
                    raise self._explained(where, 0, api_error(data.error_code, str(where)))
                return list(data.old_style_offsets)
        return []

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close_lane(self._lane)

    async def _leader(self, where: TopicPartition) -> int | ApiError:
        try:
            topic = await self._cluster.topic(where.topic)
        except ApiError as e:
            return e
        leader = self._cluster.leader(where)
        if leader is not None:
            return leader
        self._cluster.forget(where.topic)
        if where.partition in topic.partitions:
            return ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{where} has no leader; ask again a little later")
        return topic.has_no(where.partition)

    async def _ask(
        self, leader: int, wanted: dict[TopicPartition, FetchOf]
    ) -> dict[TopicPartition, Fetched | ApiError]:
        channel = await self._cluster.channel(leader, self._lane)
        topics: dict[str, FetchTopic] = {}
        names: dict[bytes, str] = {}
        version = channel.version(_FETCH)
        for (name, index), each in wanted.items():
            known = self._cluster.known(name)
            topic_id = known.topic_id.bytes if known is not None else bytes(16)
            if not any(topic_id):
                version = min(version, _BY_NAME)
            names[topic_id] = name
            topics.setdefault(name, FetchTopic(topic=name, topic_id=topic_id, partitions=[])).partitions.append(
                FetchPartition(partition=index, fetch_offset=each.offset, partition_max_bytes=each.max_bytes)
            )
        response: FetchResponse = await channel.request(
            FetchRequest(
                max_wait_ms=int(self._max_wait * 1000),
                min_bytes=self._min_bytes,
                max_bytes=min(sum(each.max_bytes for each in wanted.values()), _MOST_BYTES),
                isolation_level=int(self._committed),
                topics=list(topics.values()),
            ),
            version,
            self._max_wait + self._cluster.timeout,
        )
        if response.error_code:
            raise api_error(response.error_code, f"fetch from broker {leader}")
        answers: dict[TopicPartition, Fetched | ApiError] = {}
        for topic in response.responses:
            for data in topic.partitions:
                where = TopicPartition(topic.topic or names.get(topic.topic_id, ""), data.partition_index)
                if where not in wanted:
                    continue
                offset = wanted[where].offset
                if data.error_code:
                    error = api_error(data.error_code, str(where))
                    answers[where] = self._explained(where, offset, error)
                    continue
                try:
                    kept = completed_fetch(where, offset, data, self._committed)
                    end = data.last_stable_offset if self._committed else data.high_watermark
                    answers[where] = Fetched(where, [], offset, end, 0) if kept is None else kept[0].take_all()
                except ApiError as e:
                    answers[where] = e
        for where in wanted:
            left_out = ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"{where}: the broker's answer leaves it out; ask again"
            )
            answers.setdefault(where, left_out)
        return answers

    def _explained(self, where: TopicPartition, offset: int, error: ApiError) -> ApiError:
        """The error, with advice in its message."""
        if error.code in _MOVED:
            self._cluster.forget(where.topic)
            return ApiError(error.code, f"{error.message} Ask again: its leader is looked for anew.")
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return ApiError(
                error.code,
                f"{where} has no offset {offset}; offsets_before tells where it begins (EARLIEST) and ends (LATEST)",
            )
        return error
