"""Elects leaders for ``cluster elect-leaders``, by names of topics and partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from logbus.cli.reassignment_plan import InvalidPlan, partitions_of
from logbus.client.admin.admin_client import AdminClient
from logbus.errors import ApiError
from logbus.model import TopicPartition


async def elect(admin: AdminClient, names: Sequence[str], *, unclean: bool) -> Mapping[TopicPartition, ApiError | None]:
    """
    Elect leaders.

    :param names: of topics and partitions; empty: all.
    :returns: the error of each partition, if any; those whose leader is the right one already are omitted.
    :raise InvalidPlan: there is no topic or partition of a name.
    """
    return await admin.elect_leaders(await _partitions_named(admin, names) if names else None, unclean=unclean)


async def _partitions_named(admin: AdminClient, names: Sequence[str]) -> list[TopicPartition]:
    """Return the named partitions, and all partitions of named topics; a topic's name may look like a partition's."""
    topics = {topic.name: topic for topic in await admin.list_topics(internal=True)}
    found: list[TopicPartition] = []
    for name in names:
        if name in topics:
            found += partitions_of([f"{name}-{number}" for number in topics[name].partitions])
            continue
        try:
            (one,) = partitions_of([name])
        except InvalidPlan:
            raise InvalidPlan(f"there is no topic {name!r}") from None
        if one.topic not in topics or one.partition not in topics[one.topic].partitions:
            raise InvalidPlan(f"there is neither a topic nor a partition {name!r}")
        found.append(one)
    return found
