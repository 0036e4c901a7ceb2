"""Finds and adds members of a streams group for a request, and takes the topology that they bring (KIP-1071). Pure."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from logbus.coordination.streams.configured_topology import ConfiguredTopology
from logbus.coordination.streams.heartbeat import StreamsHeartbeat
from logbus.coordination.streams.recorded_state import RecordedState
from logbus.coordination.streams.streams_group_member import JOINING, StreamsGroupMember, StreamsPosition
from logbus.coordination.streams.tasks import TaskSets, pairs
from logbus.coordination.streams.topology import Topology
from logbus.errors import ApiError, ErrorCode


def find(recorded: RecordedState, member_id: str) -> StreamsGroupMember:
    """
    The member that a request names.

    :raise ApiError: UNKNOWN_MEMBER_ID.
    """
    member = recorded.members.get(member_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"the group {recorded.group_id!r} has no member {member_id!r}")
    return member


def stay(recorded: RecordedState, heartbeat: StreamsHeartbeat) -> StreamsGroupMember:
    """
    The member that sent a heartbeat, if the epoch is its present one.

    The previous epoch is accepted if all tasks that the member has are still assigned to it: it has missed a response.

    :raise ApiError: as :func:`find`, and FENCED_MEMBER_EPOCH: it must give up all tasks and join again.
    """
    member = find(recorded, heartbeat.member_id)
    position = recorded.position(heartbeat.member_id)
    missed_a_response = (
        heartbeat.epoch == position.previous_epoch < position.epoch
        and heartbeat.owned is not None
        and heartbeat.owned.is_subset(position.assigned)
    )
    if heartbeat.epoch != position.epoch and not missed_a_response:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"the member {heartbeat.member_id} is in epoch {position.epoch}, not in {heartbeat.epoch}",
        )
    return member


def join(recorded: RecordedState, member_id: str, max_size: int) -> StreamsGroupMember | None:
    """
    The member that joins again, or None for a new one.

    A member that joins has no tasks, so those that a member with this id had become free.

    :raise ApiError: GROUP_MAX_SIZE_REACHED.
    """
    member = recorded.members.get(member_id)
    if member is None:
        if len(recorded.members) >= max_size:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"the group {recorded.group_id!r} has {max_size} members: the most it may",
            )
        return None
    position = recorded.position(member_id)
    if position.epoch != JOINING and position.previous_epoch != JOINING:
        recorded.set_position(member_id, StreamsPosition())
    return member


def take_topology(recorded: RecordedState, topology: Topology, *, first: bool, admit: Callable[[int], None]) -> None:
    """
    Take the topology that the first member brings; refuse another one of later members, unless it is an older one.

    Kafka 4.3 keeps the topology of a group without members, too, so that a changed application cannot start there.

    :param first: whether the group had no members.
    :param admit: refuses more memory than there is room for, in bytes.
    :raise ApiError: INVALID_REQUEST.
    """
    known = recorded.topology
    if known is None or (first and known != topology):
        admit(topology.memory - (0 if known is None else known.memory))
        recorded.set_topology(topology)
    elif known.epoch <= topology.epoch and known != topology:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"the group {recorded.group_id!r} has members with another topology: stop all of them, and start the new "
            "version then, or use another application.id",
        )


def check_tasks(owned: TaskSets, configured: ConfiguredTopology) -> None:
    """
    Refuse tasks that there are not.

    :raise ApiError: INVALID_REQUEST.
    """
    for subtopology_id, number in chain(pairs(owned.active), pairs(owned.standby)):
        subtopology = configured.subtopologies.get(subtopology_id)
        if subtopology is None or not 0 <= number < subtopology.tasks:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no task {subtopology_id}_{number}")
