"""
The recorded state that consumer groups, share groups and streams groups have in common: epochs, members, their
positions and their targets. Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from attrs import define, field

from logbus.coordination.group import Change
from logbus.coordination.recorded_changes import RecordedChanges, put


class GroupRecords(Protocol):
    """The module with the records of a kind of group: state to records, where None makes a tombstone, and back."""

    def group_epoch(self, group_id: str, epoch: Any, /) -> Change: ...
    def target_epoch(self, group_id: str, epoch: int | None, now_ms: int = 0, /) -> Change: ...
    def member(self, group_id: str, member_id: str, member: Any, /) -> Change: ...
    def position(self, group_id: str, member_id: str, position: Any, /) -> Change: ...
    def target(self, group_id: str, member_id: str, target: Any, /) -> Change: ...

    def read_group_epoch(self, value: Any, /) -> Any: ...
    def read_member(self, member_id: str, value: Any, /) -> Any: ...
    def read_position(self, value: Any, /) -> Any: ...
    def read_target(self, value: Any, /) -> Any: ...


Epoch = TypeVar("Epoch")
Member = TypeVar("Member")
Position = TypeVar("Position")
Target = TypeVar("Target")


@define(eq=False)
class RecordedGroup(RecordedChanges, ABC, Generic[Epoch, Member, Position, Target]):
    """
    The state of one group. Its fields are read only; change them by its methods.

    :cvar records: makes and reads the records of this kind of group.
    :cvar readers: by the class of a record's key, the method that applies its key and value.
    :ivar epoch: the group epoch: grows when what assignments depend on changes; None without a record of it.
    :ivar target_epoch: the group epoch that the targets were computed for.
    :ivar target_ms: when they were computed, in ms since 1970; 0: never, or not known.
    :ivar members: the members, as they described themselves.
    :ivar positions: the members' epochs and assignments.
    :ivar targets: the members' target assignments.
    """

    records: ClassVar[GroupRecords]
    readers: ClassVar[Mapping[type[Any], Callable[[Any, Any, Any], None]]]

    epoch: Epoch | None = field(default=None, init=False)
    target_epoch: int | None = field(default=None, init=False)
    target_ms: int = field(default=0, init=False)
    members: dict[str, Member] = field(factory=dict, init=False)
    positions: dict[str, Position] = field(factory=dict, init=False)
    targets: dict[str, Target] = field(factory=dict, init=False)

    # Changes.

    def set_epoch(self, epoch: Epoch) -> None:
        """Set the group epoch."""
        self._write(self.records.group_epoch(self.group_id, epoch), partial(setattr, self, "epoch", self.epoch))
        self.epoch = epoch

    def set_target_epoch(self, epoch: int, now_ms: int) -> None:
        """Set the epoch of the targets, and when they were computed."""
        change = self.records.target_epoch(self.group_id, epoch, now_ms)
        self._write(change, partial(self._put_target_epoch, self.target_epoch, self.target_ms))
        self._put_target_epoch(epoch, now_ms)

    def set_member(self, member_id: str, member: Member | None) -> None:
        """Set a member; None, here and below, deletes the record."""
        change = self.records.member(self.group_id, member_id, member)
        self._write(change, partial(self._put_member, member_id, self.members.get(member_id)))
        self._put_member(member_id, member)

    def set_position(self, member_id: str, position: Position | None) -> None:
        """Set a member's position."""
        change = self.records.position(self.group_id, member_id, position)
        self._write(change, partial(self._put_position, member_id, self.positions.get(member_id)))
        self._put_position(member_id, position)

    def set_target(self, member_id: str, target: Target | None) -> None:
        """Set a member's target."""
        change = self.records.target(self.group_id, member_id, target)
        self._write(change, partial(put, self.targets, member_id, self.targets.get(member_id)))
        put(self.targets, member_id, target)

    def remove(self, member_id: str) -> None:
        """Delete all records of a member."""
        self.set_position(member_id, None)
        self.set_target(member_id, None)
        self.set_member(member_id, None)

    def _put_target_epoch(self, epoch: int | None, now_ms: int) -> None:
        self.target_epoch, self.target_ms = epoch, now_ms

    def _put_member(self, member_id: str, member: Member | None) -> None:
        put(self.members, member_id, member)

    def _put_position(self, member_id: str, position: Position | None) -> None:
        put(self.positions, member_id, position)

    # Reading back.

    def apply(self, change: Change) -> None:
        """
        Apply a record that was read back; records of other kinds are ignored.

        :raise DecodeError: it is damaged.
        """
        key, value = change
        reader = self.readers.get(type(key))
        if reader is not None:
            reader(self, key, value)

    def read_epoch(self, key: Any, value: Any) -> None:
        """Apply the record of the group epoch; a value of None is a tombstone, here and below."""
        self.epoch = None if value is None else self.records.read_group_epoch(value)

    def read_target_epoch(self, key: Any, value: Any) -> None:
        """Apply the record of the targets' epoch."""
        if value is None:
            self._put_target_epoch(None, 0)
        else:
            self._put_target_epoch(value.assignment_epoch, value.assignment_timestamp)

    def read_member(self, key: Any, value: Any) -> None:
        """Apply the record of a member."""
        self._put_member(key.member_id, None if value is None else self.records.read_member(key.member_id, value))

    def read_position(self, key: Any, value: Any) -> None:
        """Apply the record of a member's position."""
        self._put_position(key.member_id, None if value is None else self.records.read_position(value))

    def read_target(self, key: Any, value: Any) -> None:
        """Apply the record of a member's target."""
        put(self.targets, key.member_id, None if value is None else self.records.read_target(value))

    def tombstones(self) -> list[Change]:
        """The records that delete the group."""
        group_id, records = self.group_id, self.records
        return [
            *(records.position(group_id, member_id, None) for member_id in self.positions),
            *(records.target(group_id, member_id, None) for member_id in self.targets),
            records.target_epoch(group_id, None),
            *(records.member(group_id, member_id, None) for member_id in self.members),
            *self._other_tombstones(),
            records.group_epoch(group_id, None),
        ]

    @abstractmethod
    def _other_tombstones(self) -> Iterator[Change]:
        """The tombstones of what only this kind of group records."""
