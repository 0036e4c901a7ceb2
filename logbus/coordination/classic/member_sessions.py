"""
Session timeouts of the members of a group. Pure.

Renewing a session is a mere assignment: each member has one current entry in a heap, whose time may be too early and is
corrected when it is reached.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from attrs import define, field


@define(eq=False)
class _Session:
    """
    :ivar ends: when it ends unless it is renewed.
    :ivar entry: the time of its entry in the heap, never later than ``ends``; its other entries are stale.
    """

    ends: float
    entry: float


@define(eq=False)
class MemberSessions:
    """
    Sessions by member id, in the seconds of the clock.

    Invariant: the heap has at most :data:`SLACK` entries more than twice the number of sessions.
    """

    _sessions: dict[str, _Session] = field(factory=dict, init=False)
    _heap: list[tuple[float, str]] = field(factory=list, init=False)

    SLACK = 64

    def __len__(self) -> int:
        return len(self._sessions)

    def renew(self, member_id: str, ends: float) -> None:
        """Start a member's session, or extend it, until ``ends``."""
        session = self._sessions.get(member_id)
        if session is None:
            session = self._sessions[member_id] = _Session(ends, ends)
        else:
            session.ends = ends
            if ends >= session.entry:
                return
            session.entry = ends
        heapq.heappush(self._heap, (ends, member_id))
        self._shrink()

    def forget(self, member_id: str) -> None:
        """Drop a member's session."""
        self._sessions.pop(member_id, None)
        self._shrink()

    def clear(self) -> None:
        """Drop all sessions."""
        self._sessions.clear()
        self._heap.clear()

    @property
    def first(self) -> float | None:
        """The time at which to call :meth:`ended` next; may be early."""
        return self._heap[0][0] if self._heap else None

    def ended(self, now: float) -> Iterator[str]:
        """Yield the members whose sessions have ended. The caller must forget or renew each before the next."""
        while self._heap and self._heap[0][0] <= now:
            when, member_id = heapq.heappop(self._heap)
            session = self._sessions.get(member_id)
            if session is None or session.entry != when:
                continue
            if session.ends <= now:
                # It has no entry now: renew() must push one.
                session.entry = float("inf")
                yield member_id
            else:
                session.entry = session.ends
                heapq.heappush(self._heap, (session.ends, member_id))

    def _shrink(self) -> None:
        """Rebuild the heap when it has too many stale entries, which would otherwise stay until their time."""
        if not self._sessions:
            self._heap.clear()
        elif len(self._heap) > 2 * len(self._sessions) + self.SLACK:
            self._heap = [(session.ends, member_id) for member_id, session in self._sessions.items()]
            for session in self._sessions.values():
                session.entry = session.ends
            heapq.heapify(self._heap)
