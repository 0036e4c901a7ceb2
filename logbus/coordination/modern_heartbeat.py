"""
Saves the changes that a heartbeat makes to a consumer group, share group or streams group.
"""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logbus.coordination.consumer.consumer_group import ConsumerGroup
from logbus.coordination.generation_log import log_generation, loggable_id
from logbus.coordination.group import Change
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.group_shard import GroupShard
from logbus.coordination.share.share_group import ShareGroup
from logbus.coordination.streams.streams_group import StreamsGroup
from logbus.errors import ApiError
from logbus.net.request_context import RequestContext

_log = Logger()


def save_heartbeat(
    coordinator: GroupCoordinator,
    shard: GroupShard,
    group: ConsumerGroup | ShareGroup | StreamsGroup,
    changes: Sequence[Change],
    *,
    first: Sequence[Change] = (),
    has_news: bool,
    client: RequestContext | None,
) -> Deferred[None]:
    """
    Append the changes of a heartbeat; a group that is not in the shard yet is added, in place of a former one.

    :param first: records to write before them: the tombstones of the former group.
    :param has_news: whether the response tells the member something that it did not say itself.
    :param client: who sent the heartbeat.
    :return: fires when the changes are durable.
    :raise ApiError: as :meth:`.StateLog.append`; the changes are undone, and the shard is as it was.
    """
    group_id = group.group_id
    former = shard.groups.get(group_id)
    try:
        durable = shard.save([*first, *changes])
        if has_news and not changes:
            # A retry: the response repeats a change from the lost response, which may not be durable yet.
            durable = shard.log.durable()
    except ApiError:
        group.undo()
        raise
    if former is not group:
        if former is None:
            coordinator.arrivals.add(client)
        else:
            coordinator.manager.forget(shard, former)
            _log.info(
                "group {group} speaks the {type} protocol from now on",
                group=loggable_id(group_id),
                type=group.group_type.value,
            )
        shard.groups[group_id] = group
    log_generation(group_id, changes, group)
    coordinator.manager.touched(shard, group)
    return durable
