"""
When each member of a group must have been heard of. Pure.

A heartbeat costs an assignment: the heap has one entry for each member, which may be early; that is found out when its
time comes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from attrs import define, field


@define(eq=False)
class _Session:
    """
    :ivar ends: when it ends unless it is renewed.
    :ivar entry: the time of its entry in the heap, never later than ``ends``; other entries of it are stale.
    """

    ends: float
    entry: float


@define(eq=False)
class Sessions:
    """
    Sessions by member id, in the seconds of the clock.

    Invariant: the heap has at most twice as many entries as there are sessions, and :data:`SLACK`.
    """

    _sessions: dict[str, _Session] = field(factory=dict, init=False)
    _heap: list[tuple[float, str]] = field(factory=list, init=False)

    SLACK = 64

    def __len__(self) -> int:
        return len(self._sessions)

    def renew(self, member_id: str, ends: float) -> None:
        """The member was heard of: its session, perhaps a new one, lasts until ``ends``."""
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
        """The member is gone."""
        self._sessions.pop(member_id, None)
        self._shrink()

    def clear(self) -> None:
        """All members are gone."""
        self._sessions.clear()
        self._heap.clear()

    @property
    def first(self) -> float | None:
        """When to look for the next session that ended; may be early."""
        return self._heap[0][0] if self._heap else None

    def ended(self, now: float) -> Iterator[str]:
        """Members whose time is over. Each must be forgotten or renewed before the next is asked for."""
        while self._heap and self._heap[0][0] <= now:
            when, member_id = heapq.heappop(self._heap)
            session = self._sessions.get(member_id)
            if session is None or session.entry != when:
                continue
            if session.ends <= now:
                # Without an entry now: whatever renews it shall make one.
                session.entry = float("inf")
                yield member_id
            else:
                session.entry = session.ends
                heapq.heappush(self._heap, (session.ends, member_id))

    def _shrink(self) -> None:
        """Stale entries would stay until their time: half an hour, of everybody who ever came."""
        if not self._sessions:
            self._heap.clear()
        elif len(self._heap) > 2 * len(self._sessions) + self.SLACK:
            self._heap = [(session.ends, member_id) for member_id, session in self._sessions.items()]
            for session in self._sessions.values():
                session.entry = session.ends
            heapq.heapify(self._heap)
