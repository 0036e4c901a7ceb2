"""How ``logbus consume --group`` reads: as a member of a group, or for one, which is to go on where it left off."""

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
"""Seconds after which it is looked again whether the end is reached."""
_AT_ONCE = 500


class _Mine(GroupListener):
    """
    Knows which partitions are ours.

    :ivar partitions: None: the group has not said yet.
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
    Read, and commit what was shown: now and then, and when it is over or cancelled.

    :param chosen: read these without being a member; nothing: be one, and read what the group gives us.
    :param reset: where to begin in partitions of which the group committed nothing.
    :param ends: stop when this was reached in all partitions that we have; None: go on.
    :param limit: stop after so many records.
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
        # Ctrl-C is how one ends it.
        pass
    finally:
        await consumer.close(done=is_shown)


def _within(
    consumer: Consumer, partition: TopicPartition, records: list[ConsumerRecord], ends: Mapping[TopicPartition, int]
) -> list[ConsumerRecord]:
    """What lies before the end; what is behind it is left to be read another time."""
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
