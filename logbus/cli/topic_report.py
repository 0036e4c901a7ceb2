"""The report of ``topics describe``: topics, their partitions, and the offsets of these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

from logbus.cli.partition_health import HealthFilter
from logbus.cli.runner import results
from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import TopicMetadata
from logbus.client.list_offsets import EARLIEST, LATEST
from logbus.client.retry import Unreachable
from logbus.errors import ApiError
from logbus.model import TimestampOffset, TopicPartition

HEAD = ("topic", "partition", "leader", "epoch", "replicas", "in sync", "from", "to")

Offsets = Mapping[TopicPartition, TimestampOffset | ApiError]


async def topic_reports(admin: AdminClient, names: Sequence[str], faults: Collection[str]) -> list[dict[str, Any]]:
    """
    Return the reports of topics, as JSON values.

    :param names: of the topics; empty: all.
    :param faults: only partitions with one of these faults, named as by :meth:`HealthFilter.kinds`; empty: all.
    :raise CommandFailed: a topic cannot be described.
    """
    if names:
        found = results(await admin.describe_topics(dict.fromkeys(names)))
    else:
        found = await admin.list_topics(internal=bool(faults))
    if faults:
        found = await _with_faults(admin, found, faults)
    partitions = [TopicPartition(topic.name, index) for topic in found for index in topic.partitions]
    # Partitions without a leader are what filters look for.
    earliest = await _offsets(admin, partitions, EARLIEST, unreachable_is_fine=bool(faults))
    latest = await _offsets(admin, partitions, LATEST, unreachable_is_fine=bool(faults))
    return [_report(topic, earliest, latest) for topic in found]


async def _with_faults(
    admin: AdminClient, topics: Sequence[TopicMetadata], faults: Collection[str]
) -> list[TopicMetadata]:
    """Return the topics that have partitions with one of the faults, with only those."""
    alive = {node.node_id for node in (await admin.describe_cluster()).nodes}
    least = await admin.min_insync_replicas(topic.name for topic in topics) if "under_min_isr" in faults else {}
    health = HealthFilter(alive, least)
    found = []
    for topic in topics:
        kinds = health.kinds(topic)
        partitions = {
            number: each for number, each in topic.partitions.items() if any(kinds[fault](each) for fault in faults)
        }
        if partitions:
            found.append(evolve(topic, partitions=partitions))
    return found


async def _offsets(
    admin: AdminClient, partitions: Iterable[TopicPartition], time: int, *, unreachable_is_fine: bool
) -> Offsets:
    try:
        return await admin.list_offsets(dict.fromkeys(partitions, time))
    except Unreachable:
        if not unreachable_is_fine:
            raise
        return {}


def _report(topic: TopicMetadata, earliest: Offsets, latest: Offsets) -> dict[str, Any]:
    def offset(answers: Offsets, number: int) -> int | None:
        answer = answers.get(TopicPartition(topic.name, number))
        return answer.offset if isinstance(answer, TimestampOffset) else None

    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "internal": topic.internal,
        "partitions": [
            {
                "partition": each.index,
                "leader": each.leader if each.leader >= 0 else None,
                "leader_epoch": each.leader_epoch,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
                "offline": list(each.offline),
                "start_offset": offset(earliest, each.index),
                "end_offset": offset(latest, each.index),
            }
            for each in topic.partitions.values()
        ],
    }


def rows(reports: Iterable[Mapping[str, Any]]) -> Iterator[tuple[object, ...]]:
    """Rows for the partitions of reports."""
    for topic in reports:
        for each in topic["partitions"]:
            yield (
                topic["name"],
                each["partition"],
                each["leader"],
                each["leader_epoch"],
                ",".join(map(str, each["replicas"])),
                ",".join(map(str, each["isr"])),
                each["start_offset"],
                each["end_offset"],
            )
