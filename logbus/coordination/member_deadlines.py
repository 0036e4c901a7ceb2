"""
Session timeouts and revocation (rebalance) timeouts of the members of a group. Pure.

Most deadlines are moved by each heartbeat before they are reached; that costs one assignment in a dictionary. When the
earliest deadline is reached, a scan over all members finds the next one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from attrs import define, field

RETRY_S = 1.0
"""Delay before the removal of a late member is retried, if its record could not be written."""


@define(eq=False)
class MemberDeadlines:
    """
    Times in the seconds of the clock, by member id.

    :ivar next: when to call :meth:`due` next; may be early, never late.
    """

    next: float | None = field(default=None, init=False)
    _sessions: dict[str, float] = field(factory=dict, init=False)
    _steps: dict[str, float] = field(factory=dict, init=False)

    def renew_session(self, member_id: str, until: float) -> None:
        """Renew a member's session."""
        self._sessions[member_id] = until
        self._earliest(until)

    def await_step(self, member_id: str, until: float) -> None:
        """Set the deadline for a member's pending step; it replaces an earlier one."""
        self._steps[member_id] = until
        self._earliest(until)

    def awaits_step(self, member_id: str) -> bool:
        """Whether a member has a pending step."""
        return member_id in self._steps

    def step_done(self, member_id: str) -> None:
        """Clear the deadline of a member's step."""
        self._steps.pop(member_id, None)

    def forget(self, member_ids: Iterable[str]) -> None:
        """Drop members that were removed."""
        for member_id in member_ids:
            self._sessions.pop(member_id, None)
            self._steps.pop(member_id, None)
        if not self._sessions and not self._steps:
            self.next = None

    def due(self, now: float, members: Container[str]) -> list[str]:
        """
        The members that missed a deadline, each once. Entries of former members are dropped.

        The caller must remove them or renew their deadlines, since :attr:`next` does not include them any more.
        """
        late: dict[str, None] = {}
        self.next = None
        for deadlines in (self._steps, self._sessions):
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
