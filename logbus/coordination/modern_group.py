"""
What consumer groups, share groups and streams groups have in common (Kafka: ModernGroup): members that only send
heartbeats, a recorded state whose changes can be undone, and the removal of members that are late. Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from attrs import define, field

from logbus.coordination.consumer.topics_view import TopicsView
from logbus.coordination.group import Change
from logbus.coordination.member_deadlines import RETRY_S, MemberDeadlines
from logbus.coordination.recorded_group import RecordedGroup
from logbus.errors import ApiError, ErrorCode

Save = Callable[[Sequence[Change], Callable[[ApiError | None], None]], None]
"""
Appends records as one batch; raises ApiError if it cannot. Its second argument is called once, at once or later: with
None when the records are durable, else with the error.
"""


NO_MEMBER = (-1, "", None)
"""Epoch, member id and instance id in a TxnOffsetCommit of a producer that knows only the group's id."""


class MemberSettings(Protocol):
    """The settings of any such group."""

    @property
    def session_timeout_ms(self) -> int:
        """How long a member may be silent."""


Settings = TypeVar("Settings", bound=MemberSettings)
Recorded = TypeVar("Recorded", bound=RecordedGroup[Any, Any, Any, Any])


@define(eq=False)
class ModernGroup(ABC, Generic[Settings, Recorded]):
    """
    One group. Requests carry the time, in seconds; state changes are returned as records.

    :ivar topics: the topics of the cluster.
    :ivar recorded: the state in its records; :meth:`apply` restores it.
    """

    group_id: str
    _settings: Callable[[], Settings]
    topics: TopicsView
    _save: Save
    recorded: Recorded = field(init=False)
    deadlines: MemberDeadlines = field(factory=MemberDeadlines, init=False)

    # The interface of any group.

    @property
    def settings(self) -> Settings:
        """The present settings."""
        return self._settings()

    @property
    def memory(self) -> int:
        """About how many bytes its members take."""
        return sum(member.memory for member in self.recorded.members.values())

    @property
    def size(self) -> int:
        """The number of its members."""
        return len(self.recorded.members)

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.recorded.members

    @property
    def empty_since_ms(self) -> int | None:
        """None: as in Kafka, the retention of offsets starts at their commit."""
        return None

    @property
    def is_dead(self) -> bool:
        """Whether no record of it is left."""
        return self.recorded.epoch is None and self.is_empty

    @property
    def expires(self) -> bool:
        """True."""
        return True

    def check_deletable(self) -> None:
        """:raise ApiError: NON_EMPTY_GROUP."""
        if not self.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"the group {self.group_id!r} has members")

    # Records.

    def apply(self, change: Change) -> None:
        """Apply a record that was read back, or that a migration made."""
        self.recorded.apply(change)

    def tombstones(self) -> Sequence[Change]:
        """The records that delete it."""
        return self.recorded.tombstones()

    def undo(self) -> None:
        """Undo the changes of the last request, which could not be appended."""
        self.recorded.undo()

    def activate(self, now: float) -> None:
        """Start the members' timeouts after a load."""
        for member_id in self.recorded.members:
            self.renew_session(now, member_id)

    @contextmanager
    def changing(self) -> Iterator[list[Change]]:
        """Collect the changes made within the block; an error undoes them."""
        self.recorded.begin()
        try:
            yield self.recorded.written()
        except BaseException:
            self.undo()
            raise

    def save(self, changes: Sequence[Change], done: Callable[[ApiError | None], None]) -> bool:
        """
        Append ``changes``, made by the last request.

        :param done: called once with the result; at once if there are no changes.
        :return: False if they could not be appended; then they are undone.
        """
        if not changes:
            done(None)
            return True
        try:
            self._save(changes, done)
        except ApiError as error:
            self.undo()
            done(error)
            return False
        return True

    # Members.

    @abstractmethod
    def remove(self, now: float, member_ids: Sequence[str]) -> None:
        """Remove members: what they had becomes free, and the group's epoch grows."""

    def renew_session(self, now: float, member_id: str) -> None:
        """Renew a member's session."""
        self.deadlines.renew_session(member_id, now + self.settings.session_timeout_ms / 1000)

    # Time.

    @property
    def deadline(self) -> float | None:
        """The time at which to call :meth:`expire` next."""
        return self.deadlines.next

    def expire(self, now: float) -> None:
        """Remove members that missed a deadline; others get what these had at their next heartbeats."""
        late = self.deadlines.due(now, self.recorded.members)
        if late:
            self._expel(now, late)

    def _expel(self, now: float, late: Sequence[str]) -> None:
        """Remove members that missed a deadline; in parts, if the records do not fit into one batch."""
        refusals: list[ApiError | None] = []
        with self.changing() as changes:
            self.remove(now, late)
        if self.save(changes, refusals.append):
            self.deadlines.forget(late)
            return
        too_large = refusals[0] is not None and refusals[0].code is ErrorCode.UNKNOWN_SERVER_ERROR
        if too_large and len(late) > 1:
            half = len(late) // 2
            self._expel(now, late[:half])
            self._expel(now, late[half:])
            return
        for member_id in late:
            self.deadlines.step_done(member_id)
            self.deadlines.renew_session(member_id, now + RETRY_S)

    def resign(self) -> None:
        """Nothing to do: no request waits in such a group."""
