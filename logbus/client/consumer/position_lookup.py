"""Looks up what a fetch needs: the leaders of partitions, and the offsets of positions such as "latest"."""

from __future__ import annotations

from collections.abc import Sequence

from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.partition_position import AtTime, PartitionErrors, PartitionPosition
from logbus.client.list_offsets import LATEST, list_offsets
from logbus.client.retry import is_retriable
from logbus.errors import ApiError, ErrorCode, LogbusError


async def find_leaders(cluster: Cluster, positions: Sequence[PartitionPosition], patience: float) -> PartitionErrors:
    """
    Look up the leaders of partitions; those without a leader are looked up again later.

    :param patience: seconds for which a topic or partition may be missing.
    """
    now = cluster.reactor.seconds
    try:
        topic_errors = await cluster.refresh_topics(dict.fromkeys(each.partition.topic for each in positions))
    except LogbusError as e:
        for position in positions:
            position.failed(now(), cluster.backoff)
        if is_retriable(e):
            return []
        raise
    errors: PartitionErrors = []
    for position in positions:
        name, index = position.partition
        error, topic = topic_errors.get(name), cluster.known(name)
        if error is None and topic is not None and index not in topic.partitions:
            error = topic.has_no(index)
        if error is None and cluster.leader(position.partition) is not None:
            position.lost = False
            position.missing_since = None
            continue
        position.failed(now(), cluster.backoff)
        if error is not None and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            if position.missing_since is None:
                position.missing_since = now()
            if now() - position.missing_since >= patience:
                errors.append((position, error))
        elif error is not None and not is_retriable(error):
            errors.append((position, error))
    return errors


async def find_offsets(
    cluster: Cluster, positions: Sequence[PartitionPosition], committed: bool
) -> tuple[list[PartitionPosition], PartitionErrors]:
    """
    Look up the start offsets of partitions that have the same leader.

    :param committed: the end is the last stable offset.
    :returns: the partitions whose ``offset`` is set now, and errors.
    """
    wanted = {each.partition: each.wanted for each in positions}
    times = {
        partition: place.ms if isinstance(place, AtTime) else place
        for partition, place in wanted.items()
        if place is not None
    }
    try:
        found = await list_offsets(cluster, times, committed=committed)
        ends = [partition for partition, answer in found.items() if getattr(answer, "offset", 0) < 0]
        if ends:
            found.update(await list_offsets(cluster, dict.fromkeys(ends, LATEST), committed=committed))
    except LogbusError as e:
        for position in positions:
            position.lost = True
            position.failed(cluster.reactor.seconds(), cluster.backoff)
        if is_retriable(e):
            return [], []
        raise
    known: list[PartitionPosition] = []
    errors: PartitionErrors = []
    for position in positions:
        answer = found.get(position.partition)
        if answer is None or position.wanted is not wanted[position.partition]:
            continue
        if not isinstance(answer, ApiError):
            position.offset, position.wanted = answer.offset, None
            position.epoch = position.checked = -1
            position.succeeded()
            known.append(position)
        elif is_retriable(answer):
            position.lost = True
            position.failed(cluster.reactor.seconds(), cluster.backoff)
        else:
            errors.append((position, answer))
    return known, errors
