"""Reads the records of topics for tests, and waits for a number of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from logbus.client import EARLIEST, LATEST, SimpleConsumer
from logbus.client.consumer.simple_consumer import FetchOf
from logbus.client.list_offsets import list_offsets_with_retries
from logbus.client.retry import is_retriable
from logbus.coroutines import sleep
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.testing.waiting import WaitTimedOut

if TYPE_CHECKING:
    from logbus.client import Cluster, ConsumerRecord
    from logbus.client.consumer.partition_position import Isolation

POLL_SECONDS = 0.02
RETRY_SECONDS = 30.0
"""How long an error that may pass is waited out, as of a leader that is loading what it needs."""
LOOK_SECONDS = 0.5
"""How often a wait looks for partitions that were added."""
HELD_SECONDS = 0.25
"""How long a broker holds a fetch without records; it answers earlier when one arrives."""


class TopicReader:
    """
    Reads topics from their beginning.

    :param isolation: ``read_committed`` leaves out open and aborted transactions.
    """

    def __init__(self, cluster: Cluster, isolation: Isolation, max_wait: float = 0.0) -> None:
        self._cluster = cluster
        self._committed = isolation == "read_committed"
        self._simple = SimpleConsumer(cluster, max_wait=max_wait, isolation=isolation)

    async def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """The first offset of each partition, and the one after the last readable record."""
        wanted = list(partitions)
        first = await list_offsets_with_retries(self._cluster, dict.fromkeys(wanted, EARLIEST), self._committed)
        end = await list_offsets_with_retries(self._cluster, dict.fromkeys(wanted, LATEST), self._committed)
        return {each: (first[each].offset, end[each].offset) for each in wanted}

    async def partitions(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic, with fresh metadata."""
        self._cluster.forget(topic)
        return [TopicPartition(topic, number) for number in sorted((await self._cluster.topic(topic)).partitions)]

    async def read(self, partitions: Iterable[TopicPartition], last: int | None = None) -> list[ConsumerRecord]:
        """
        All records that are readable now: by partition, then by offset.

        :param last: only so many of the last offsets of each partition.
        """
        records: list[ConsumerRecord] = []
        for which, (first, end) in (await self.bounds(partitions)).items():
            position = first if last is None else max(first, end - last)
            records += await self.read_range(which, position, end)
        return records

    async def read_range(self, which: TopicPartition, position: int, end: int) -> list[ConsumerRecord]:
        """
        The records of a partition from an offset up to another, without that.

        :raise ApiError: they cannot be read, or not for a while.
        """
        records: list[ConsumerRecord] = []
        seconds, failing = self._cluster.reactor.seconds, 0.0
        while position < end:
            try:
                fetched = await self._simple.fetch(which.topic, which.partition, position)
            except ApiError as error:
                failing = failing or seconds()
                if not is_retriable(error) or seconds() - failing >= RETRY_SECONDS:
                    raise
                await sleep(self._cluster.reactor, POLL_SECONDS)
                continue
            failing = 0.0
            records += [record for record in fetched.records if record.offset < end]
            if fetched.next_offset <= position:
                # A follower that became the leader has less than was asked for, for a moment.
                await sleep(self._cluster.reactor, POLL_SECONDS)
                continue
            position = fetched.next_offset
        return records

    async def more(self, positions: dict[TopicPartition, int]) -> list[ConsumerRecord]:
        """Fetch once from these positions, and move them on."""
        asked = [FetchOf(which.topic, which.partition, position) for which, position in positions.items()]
        records: list[ConsumerRecord] = []
        for which, answer in zip(list(positions), await self._simple.multifetch(asked), strict=True):
            if not isinstance(answer, ApiError):
                records += answer.records
                positions[which] = answer.next_offset
            elif not is_retriable(answer):
                raise answer
        return records

    def close(self) -> None:
        """Close its connections."""
        self._simple.close()


async def read_topic(
    cluster: Cluster, topic: str, isolation: Isolation, partition: int | None, last: int | None
) -> list[ConsumerRecord]:
    """The records of a topic that are readable now."""
    reader = TopicReader(cluster, isolation)
    try:
        chosen = await reader.partitions(topic)
        if partition is not None:
            which = TopicPartition(topic, partition)
            if which not in chosen:
                raise (await cluster.topic(topic)).has_no(partition)
            chosen = [which]
        return await reader.read(chosen, last)
    finally:
        reader.close()


async def read_topics(
    cluster: Cluster, last: int, most: int
) -> tuple[dict[str, tuple[int, list[ConsumerRecord]]], int]:
    """
    The number of offsets and the last records of each topic but internal ones, and how many topics are left out.

    :param last: so many offsets of each partition.
    :param most: so many topics.
    """
    topics = [topic.name for topic in await cluster.topics() if not topic.internal]
    reader = TopicReader(cluster, "read_uncommitted")
    found: dict[str, tuple[int, list[ConsumerRecord]]] = {}
    try:
        for topic in topics[:most]:
            partitions = await reader.partitions(topic)
            bounds = await reader.bounds(partitions)
            offsets = sum(end - first for first, end in bounds.values())
            found[topic] = offsets, await reader.read(partitions, last)
    finally:
        reader.close()
    return found, len(topics) - len(found)


async def wait_readable(
    cluster: Cluster, topic: str, count: int, isolation: Isolation, seconds: float
) -> list[ConsumerRecord]:
    """
    The records of a topic, as soon as there are so many: by partition, then by offset.

    :raise WaitTimedOut: there were fewer; says how many, and where.
    """
    deadline = cluster.reactor.seconds() + seconds
    reader = TopicReader(cluster, isolation, min(HELD_SECONDS, seconds / 2))
    positions: dict[TopicPartition, int] = {}
    records: list[ConsumerRecord] = []
    missing, look = "", 0.0
    try:
        while True:
            try:
                if cluster.reactor.seconds() >= look:
                    added = [which for which in await reader.partitions(topic) if which not in positions]
                    bounds = await reader.bounds(added) if added else {}
                    positions |= {which: first for which, (first, _) in bounds.items()}
                    missing, look = "", cluster.reactor.seconds() + LOOK_SECONDS
                if len(records) < count:
                    records += await reader.more(positions)
            except ApiError as e:
                if e.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not is_retriable(e):
                    raise
                missing = str(e)
                await sleep(cluster.reactor, POLL_SECONDS)
            if len(records) >= count and not missing:
                return sorted(records, key=lambda record: (record.partition, record.offset))
            if cluster.reactor.seconds() >= deadline:
                seen = missing or await _seen(cluster, topic, records, isolation)
                raise WaitTimedOut(f"{topic}: {count} records were not readable within {seconds:g} s: {seen}")
    finally:
        reader.close()


async def _seen(cluster: Cluster, topic: str, records: list[ConsumerRecord], isolation: Isolation) -> str:
    """What there is instead."""
    by_partition: dict[int, int] = {}
    for record in records:
        by_partition[record.partition] = by_partition.get(record.partition, 0) + 1
    where = ", ".join(f"{number} in partition {partition}" for partition, number in sorted(by_partition.items()))
    said = f"there are {len(records)} ({where})" if records else "there are none"
    if isolation == "read_committed":
        every = await read_topic(cluster, topic, "read_uncommitted", None, None)
        if len(every) > len(records):
            said += f"; {len(every) - len(records)} more are in open or aborted transactions"
    return said
