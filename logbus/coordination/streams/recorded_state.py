"""
The state of a streams group that is in its records, so that another broker can restore it from them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from attrs import define, field

from logbus.coordination.group import Change
from logbus.coordination.recorded_group import RecordedGroup
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
class RecordedState(RecordedGroup[GroupEpoch, StreamsGroupMember, StreamsPosition, TaskSets]):
    """
    What this kind of group records beside :class:`.RecordedGroup`.

    :ivar topology: the topology that the first member brought, also while there are none; None without a record.
    :ivar owners: the member that has each active task.
    :ivar copies: the members that have each task as a standby or warm-up task.
    """

    topology: Topology | None = field(default=None, init=False)
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

    def set_topology(self, topology: Topology) -> None:
        """Set the topology."""
        self._write(records.topology(self.group_id, topology), partial(setattr, self, "topology", self.topology))
        self.topology = topology

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
        super()._put_position(member_id, position)
        if position is not None:
            self.owners.update(dict.fromkeys(pairs(position.held.active), member_id))
            for task in _copied(position.held):
                self.copies.setdefault(task, set()).add(member_id)

    # Reading back.

    def _read_topology(self, key: Any, value: Any) -> None:
        try:
            self.topology = None if value is None else records.read_recorded_topology(value)
        except ApiError as e:
            raise DecodeError(f"the topology of the group {self.group_id!r} is damaged: {e.message}") from None

    def _other_tombstones(self) -> Iterator[Change]:
        yield records.topology(self.group_id, None)


def _copied(held: TaskSets) -> set[Task]:
    """The tasks in other roles than the active one."""
    return {*pairs(held.standby), *pairs(held.warmup)}


def _readers(topology: Topology) -> dict[str, str]:
    return {
        name: each.subtopology_id
        for each in topology.subtopologies
        for name in (*each.source_topics, *(topic.name for topic in each.repartition_source_topics))
    }


RecordedState.records = records
RecordedState.readers = {
    StreamsGroupMetadataKey: RecordedState.read_epoch,
    StreamsGroupTopologyKey: RecordedState._read_topology,
    StreamsGroupTargetAssignmentMetadataKey: RecordedState.read_target_epoch,
    StreamsGroupMemberMetadataKey: RecordedState.read_member,
    StreamsGroupCurrentMemberAssignmentKey: RecordedState.read_position,
    StreamsGroupTargetAssignmentMemberKey: RecordedState.read_target,
}
