"""
The state of a streams group that is in its records, so that another broker can restore it from them. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attrs import define, field

from logbus.coordination.group import Change
from logbus.coordination.recorded_changes import RecordedChanges, put
from logbus.coordination.streams import records
from logbus.coordination.streams.records import GroupEpoch
from logbus.coordination.streams.streams_group_member import StreamsGroupMember, StreamsPosition, Task
from logbus.coordination.streams.tasks import TaskSets, pairs
from logbus.coordination.streams.topology import Topology
from logbus.errors import ApiError, DecodeError
from logbus.wire.messages.streams_group_log import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)


@define(eq=False)
class RecordedState(RecordedChanges):
    """
    The state of one group. Its fields are read only; change them by its methods.

    :ivar epoch: the group epoch: grows when members, topics or settings change; None without a record of it.
    :ivar topology: the topology that the first member brought, also while there are none; None without a record.
    :ivar target_epoch: the group epoch that the targets were computed for.
    :ivar target_ms: when they were computed, in ms since 1970; 0: never, or not known.
    :ivar members: the members, as they described themselves.
    :ivar positions: the members' epochs and tasks.
    :ivar targets: the members' target assignments.
    :ivar owners: the member that has each active task.
    :ivar copies: the members that have each task as a standby or warm-up task.
    """

    epoch: GroupEpoch | None = field(default=None, init=False)
    topology: Topology | None = field(default=None, init=False)
    target_epoch: int | None = field(default=None, init=False)
    target_ms: int = field(default=0, init=False)
    members: dict[str, StreamsGroupMember] = field(factory=dict, init=False)
    positions: dict[str, StreamsPosition] = field(factory=dict, init=False)
    targets: dict[str, TaskSets] = field(factory=dict, init=False)
    owners: dict[Task, str] = field(factory=dict, init=False)
    copies: dict[Task, set[str]] = field(factory=dict, init=False)
    _readers: tuple[Topology | None, Mapping[str, str]] = field(default=(None, {}), init=False)

    @property
    def subtopology_of(self) -> Mapping[str, str]:
        """The id of the subtopology that reads a topic, be it one of the user or a repartition topic."""
        topology = self.topology
        if topology is not self._readers[0]:
            self._readers = (topology, {} if topology is None else _readers(topology))
        return self._readers[1]

    def position(self, member_id: str) -> StreamsPosition:
        """A member's position; the initial one if it has no record."""
        return self.positions.get(member_id) or StreamsPosition()

    def is_free(self, member_id: str, task: Task, active: bool) -> bool:
        """
        Whether a member may have a task: an active one no other member may have, and in no role another member of its
        process. What it has itself does not matter: it has given that up.

        :param active: whether it is to be an active task.
        """
        others = [each for each in self.copies.get(task, ()) if each != member_id]
        owner = self.owners.get(task)
        if owner is not None and owner != member_id:
            if active:
                return False
            others.append(owner)
        process_id = self.members[member_id].process_id
        return all(other not in self.members or self.members[other].process_id != process_id for other in others)

    # Changes.

    def set_epoch(self, epoch: GroupEpoch) -> None:
        """Set the group epoch."""
        self._write(records.group_epoch(self.group_id, epoch), partial(setattr, self, "epoch", self.epoch))
        self.epoch = epoch

    def set_topology(self, topology: Topology) -> None:
        """Set the topology."""
        self._write(records.topology(self.group_id, topology), partial(setattr, self, "topology", self.topology))
        self.topology = topology

    def set_target_epoch(self, epoch: int, now_ms: int) -> None:
        """Set the epoch of the targets, and when they were computed."""
        change = records.target_epoch(self.group_id, epoch, now_ms)
        self._write(change, partial(self._put_target_epoch, self.target_epoch, self.target_ms))
        self._put_target_epoch(epoch, now_ms)

    def _put_target_epoch(self, epoch: int | None, now_ms: int) -> None:
        self.target_epoch, self.target_ms = epoch, now_ms

    def set_member(self, member_id: str, member: StreamsGroupMember | None) -> None:
        """Set a member; None, here and below, deletes the record."""
        change = records.member(self.group_id, member_id, member)
        self._write(change, partial(put, self.members, member_id, self.members.get(member_id)))
        put(self.members, member_id, member)

    def set_position(self, member_id: str, position: StreamsPosition | None) -> None:
        """Set a member's position."""
        change = records.position(self.group_id, member_id, position)
        self._write(change, partial(self._put_position, member_id, self.positions.get(member_id)))
        self._put_position(member_id, position)

    def set_target(self, member_id: str, target: TaskSets | None) -> None:
        """Set a member's target."""
        change = records.target(self.group_id, member_id, target)
        self._write(change, partial(put, self.targets, member_id, self.targets.get(member_id)))
        put(self.targets, member_id, target)

    def remove(self, member_id: str) -> None:
        """Delete all records of a member."""
        self.set_position(member_id, None)
        self.set_target(member_id, None)
        self.set_member(member_id, None)

    def _put_position(self, member_id: str, position: StreamsPosition | None) -> None:
        former = self.positions.get(member_id)
        if former is not None:
            for task in pairs(former.held.active):
                # While records are read back, two members may have it for a moment.
                if self.owners.get(task) == member_id:
                    del self.owners[task]
            for task in _copied(former.held):
                holders = self.copies[task]
                holders.discard(member_id)
                if not holders:
                    del self.copies[task]
        put(self.positions, member_id, position)
        if position is not None:
            self.owners.update(dict.fromkeys(pairs(position.held.active), member_id))
            for task in _copied(position.held):
                self.copies.setdefault(task, set()).add(member_id)

    # Reading back.

    def apply(self, change: Change) -> None:
        """
        Apply a record that was read back; records of other kinds are ignored.

        :raise DecodeError: it is a topology that cannot be.
        """
        key, value = change
        reader = _READERS.get(type(key))
        if reader is not None:
            reader(self, key, value)

    def _read_epoch(self, key: Any, value: Any) -> None:
        self.epoch = None if value is None else records.read_group_epoch(value)

    def _read_topology(self, key: Any, value: Any) -> None:
        try:
            self.topology = None if value is None else records.read_recorded_topology(value)
        except ApiError as e:
            raise DecodeError(f"the topology of the group {self.group_id!r} is damaged: {e.message}") from None

    def _read_target_epoch(self, key: Any, value: Any) -> None:
        if value is None:
            self._put_target_epoch(None, 0)
        else:
            self._put_target_epoch(value.assignment_epoch, value.assignment_timestamp)

    def _read_member(self, key: Any, value: Any) -> None:
        put(self.members, key.member_id, None if value is None else records.read_member(key.member_id, value))

    def _read_position(self, key: Any, value: Any) -> None:
        self._put_position(key.member_id, None if value is None else records.read_position(value))

    def _read_target(self, key: Any, value: Any) -> None:
        put(self.targets, key.member_id, None if value is None else records.read_target(value))

    def tombstones(self) -> list[Change]:
        """The records that delete the group."""
        group_id = self.group_id
        return [
            *(records.position(group_id, member_id, None) for member_id in self.positions),
            *(records.target(group_id, member_id, None) for member_id in self.targets),
            records.target_epoch(group_id, None),
            *(records.member(group_id, member_id, None) for member_id in self.members),
            records.group_epoch(group_id, None),
            records.topology(group_id, None),
        ]


def _copied(held: TaskSets) -> set[Task]:
    """The tasks in other roles than the active one."""
    return {*pairs(held.standby), *pairs(held.warmup)}


def _readers(topology: Topology) -> dict[str, str]:
    return {
        name: each.subtopology_id
        for each in topology.subtopologies
        for name in (*each.source_topics, *(topic.name for topic in each.repartition_source_topics))
    }


_READERS: dict[type[Any], Callable[[RecordedState, Any, Any], None]] = {
    StreamsGroupMetadataKey: RecordedState._read_epoch,
    StreamsGroupTopologyKey: RecordedState._read_topology,
    StreamsGroupTargetAssignmentMetadataKey: RecordedState._read_target_epoch,
    StreamsGroupMemberMetadataKey: RecordedState._read_member,
    StreamsGroupCurrentMemberAssignmentKey: RecordedState._read_position,
    StreamsGroupTargetAssignmentMemberKey: RecordedState._read_target,
}
