"""
Until when each member is to be heard of, and to have done what it was asked to do.

Most deadlines are put off before they come, at each heartbeat: that costs one entry of a dictionary. The next one of
all is found out when the earliest that was ever set is reached.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from attrs import define, field


@define(eq=False)
class Deadlines:
    """
    Times in the seconds of the clock, by member id.

    :ivar next: when :meth:`due` is to be asked; may be early, never late.
    """

    next: float | None = field(default=None, init=False)
    _sessions: dict[str, float] = field(factory=dict, init=False)
    _tasks: dict[str, float] = field(factory=dict, init=False)

    def heard(self, member_id: str, until: float) -> None:
        """A member was heard of: its session lasts until then."""
        self._sessions[member_id] = until
        self._earliest(until)

    def ask(self, member_id: str, until: float) -> None:
        """A member was asked for something, and has until then; what it was asked before does not count any more."""
        self._tasks[member_id] = until
        self._earliest(until)

    def is_asked(self, member_id: str) -> bool:
        """Whether something is awaited of a member."""
        return member_id in self._tasks

    def done(self, member_id: str) -> None:
        """A member did what it was asked, or need not any more."""
        self._tasks.pop(member_id, None)

    def forget(self, member_ids: Iterable[str]) -> None:
        """Members are gone for good; once all are, nothing is to be waited for."""
        for member_id in member_ids:
            self._sessions.pop(member_id, None)
            self._tasks.pop(member_id, None)
        if not self._sessions and not self._tasks:
            self.next = None

    def due(self, now: float, members: Container[str]) -> list[str]:
        """
        The members that are late, each once; who is no member any more is forgotten.

        They must be removed, or given more time: nothing else brings them up again in time.
        """
        late: dict[str, None] = {}
        self.next = None
        for deadlines in (self._tasks, self._sessions):
            for member_id in [member_id for member_id in deadlines if member_id not in members]:
                del deadlines[member_id]
            for member_id, until in deadlines.items():
                if until <= now:
                    late[member_id] = None
                else:
                    self._earliest(until)
        return list(late)

    def _earliest(self, until: float) -> None:
        if self.next is None or until < self.next:
            self.next = until
