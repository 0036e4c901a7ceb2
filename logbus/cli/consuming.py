"""Reads for ``logbus consume --group``: as a member of a group, or of chosen partitions with the group's offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from twisted.internet.defer import CancelledError

from logbus.client.cluster import Cluster
from logbus.client.consumer import Consumer
from logbus.client.fetched import ConsumerRecord
from logbus.client.membership import GroupListener
from logbus.client.source import Isolation, Reset
from logbus.model import TopicPartition

Show = Callable[[TopicPartition, Sequence[ConsumerRecord]], object]

_LOOK_AGAIN = 0.2
"""Seconds between checks for the end."""
_AT_ONCE = 500


class _Mine(GroupListener):
    """
    Tracks the assigned partitions.

    :ivar partitions: None before the first assignment.
    """

    def __init__(self) -> None:
        self.partitions: frozenset[TopicPartition] | None = None

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.partitions = (self.partitions or frozenset()) | partitions

    def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.partitions = (self.partitions or frozenset()) - partitions


async def consume_for_group(
    cluster: Cluster,
    group: str,
    topic: str,
    chosen: Sequence[TopicPartition],
    reset: Reset,
    isolation: Isolation,
    ends: Mapping[TopicPartition, int] | None,
    limit: int | None,
    show: Show,
) -> None:
    """
    Read records, and commit the offsets of those shown: periodically, at the end, and on cancellation.

    :param chosen: partitions to read without joining the group; empty: join, and read the assigned ones.
    :param reset: where to start in partitions without a committed offset.
    :param ends: stop when all assigned partitions have reached these offsets; None: do not stop.
    :param limit: stop after this many records.
    """
    consumer = Consumer(
        cluster, group, auto_offset_reset=reset, isolation_level=isolation, request_timeout=cluster.timeout
    )
    mine = _Mine()
    is_shown = True
    try:
        if chosen:
            mine.partitions = frozenset(chosen)
            consumer.assign(chosen)
        else:
            consumer.subscribe([topic], mine)
        while limit != 0 and not (ends is not None and _is_over(consumer, mine.partitions, ends)):
            found = await consumer.poll(None if ends is None else _LOOK_AGAIN, min(limit or _AT_ONCE, _AT_ONCE))
            is_shown = False
            for partition, records in found.items():
                shown = records if ends is None else _within(consumer, partition, records, ends)
                show(partition, shown)
                limit = None if limit is None else limit - len(shown)
            is_shown = True
    except CancelledError:
        # Ctrl-C is the usual end.
        pass
    finally:
        await consumer.close(done=is_shown)


def _within(
    consumer: Consumer, partition: TopicPartition, records: list[ConsumerRecord], ends: Mapping[TopicPartition, int]
) -> list[ConsumerRecord]:
    """Return the records before the end offset; seeks back so that later ones stay unread."""
    end = ends.get(partition, 0)
    within = [each for each in records if each.offset < end]
    if len(within) < len(records) and partition in consumer.assignment:
        consumer.seek(partition, max(end, records[0].offset))
        consumer.pause(partition)
    return within


def _is_over(
    consumer: Consumer, partitions: frozenset[TopicPartition] | None, ends: Mapping[TopicPartition, int]
) -> bool:
    if partitions is None or not partitions <= consumer.assignment:
        return False
    positions = {each: consumer.position(each) for each in partitions}
    return all(at is not None and at >= ends.get(each, 0) for each, at in positions.items())
