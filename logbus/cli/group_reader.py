"""Reads for ``logbus consume --group``: as a member of a group, or of chosen partitions with the group's offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from twisted.internet.defer import CancelledError

from logbus.cli.record_selection import ALL, Selection
from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer import Consumer
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.consumer.partition_position import Isolation, Reset
from logbus.client.membership import GroupListener
from logbus.model import TopicPartition

Show = Callable[[TopicPartition, Sequence[ConsumerRecord]], object]

_POLL_SECONDS = 0.2
"""Seconds between checks for the end."""
_MAX_POLL_RECORDS = 500


class _AssignmentListener(GroupListener):
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
    select: Selection = ALL,
) -> bool:
    """
    Read records, and commit the offsets of those shown: periodically, at the end, and on cancellation.

    :param chosen: partitions to read without joining the group; empty: join, and read the assigned ones.
    :param reset: where to start in partitions without a committed offset.
    :param ends: stop when all assigned partitions have reached these offsets; None: do not stop.
    :param limit: stop after this many records were shown.
    :param select: selects the records that are shown; the offsets of others are committed, too.
    :returns: whether it was not cancelled.
    """
    consumer = Consumer(
        cluster, group, auto_offset_reset=reset, isolation_level=isolation, request_timeout=cluster.timeout
    )
    mine = _AssignmentListener()
    is_shown = True
    try:
        if chosen:
            mine.partitions = frozenset(chosen)
            consumer.assign(chosen)
        else:
            consumer.subscribe([topic], mine)
        while limit != 0 and not (ends is not None and _reached_end(consumer, mine.partitions, ends)):
            found = await consumer.poll(
                None if ends is None else _POLL_SECONDS, min(limit or _MAX_POLL_RECORDS, _MAX_POLL_RECORDS)
            )
            is_shown = False
            for partition, records in found.items():
                shown = records if ends is None else _before_end(consumer, partition, records, ends)
                shown = await select(partition, shown)
                show(partition, shown)
                limit = None if limit is None else limit - len(shown)
            is_shown = True
    except CancelledError:
        # Ctrl-C is the usual end.
        return False
    finally:
        await consumer.close(done=is_shown)
    return True


def _before_end(
    consumer: Consumer, partition: TopicPartition, records: list[ConsumerRecord], ends: Mapping[TopicPartition, int]
) -> list[ConsumerRecord]:
    """Return the records before the end offset; seeks back so that later ones stay unread."""
    end = ends.get(partition, 0)
    within = [each for each in records if each.offset < end]
    if len(within) < len(records) and partition in consumer.assignment:
        consumer.seek(partition, max(end, records[0].offset))
        consumer.pause(partition)
    return within


def _reached_end(
    consumer: Consumer, partitions: frozenset[TopicPartition] | None, ends: Mapping[TopicPartition, int]
) -> bool:
    if partitions is None or not partitions <= consumer.assignment:
        return False
    positions = {each: consumer.position(each) for each in partitions}
    return all(at is not None and at >= ends.get(each, 0) for each, at in positions.items())
