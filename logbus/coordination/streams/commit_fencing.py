"""Refuses commits of members that no longer have the tasks that they commit for (KIP-1251). Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from logbus.coordination.streams.streams_group_member import StreamsPosition
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition


def check_commit_epoch(
    member_id: str,
    position: StreamsPosition,
    epoch: int,
    partitions: Collection[TopicPartition],
    subtopology_of: Mapping[str, str],
) -> None:
    """
    Refuse a commit in a later epoch than the member's, or in an earlier one than that in which it got a task.

    A member learns of its new epoch by a heartbeat, and may commit meanwhile for tasks that it has had before.

    :param subtopology_of: which subtopology reads a topic.
    :raise ApiError: STALE_MEMBER_EPOCH.
    """
    if epoch == position.epoch:
        return
    if epoch > position.epoch:
        raise _stale(f"the member {member_id} is in epoch {position.epoch}, not yet in {epoch}")
    for topic, partition in partitions:
        subtopology_id = subtopology_of.get(topic)
        if subtopology_id is None:
            raise _stale(f"the member {member_id} is in epoch {position.epoch}, and {topic!r} is no source topic")
        since = position.since.get((subtopology_id, partition))
        if since is None:
            raise _stale(f"the member {member_id} has no active task {subtopology_id}_{partition}")
        if epoch < since:
            raise _stale(
                f"the member {member_id} has the task {subtopology_id}_{partition} since epoch {since}, and not in "
                f"{epoch}"
            )


def _stale(message: str) -> ApiError:
    return ApiError(ErrorCode.STALE_MEMBER_EPOCH, message)
