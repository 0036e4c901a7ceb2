"""Makes a caller of a producer wait: for room in the buffer, for a turn of the reactor, or until batches are sent."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

_PER_TURN = 256 * 1024
"""The bytes that are added to batches between two turns of the reactor."""
_PAUSE = 0.01
"""The most seconds to wait for a response when batches fill faster than they are sent."""


class Backpressure:
    """
    Decides when a caller has to wait, and keeps the Deferreds of those that do.

    :param clock: the reactor.
    :ivar next_turn: the number of buffered bytes at which :meth:`turn` is due.
    """

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self.next_turn = _PER_TURN
        self._has_backlog = False
        self._waiting: dict[Deferred[None], None] = {}

    def __bool__(self) -> bool:
        """Whether a caller waits."""
        return bool(self._waiting)

    def note_backlog(self) -> None:
        """
        Note that a partition has complete batches that cannot be sent yet. More of them would only take memory, fall
        out of the processor's caches, and cost the garbage collector time. The next caller pauses for a moment.
        """
        self._has_backlog, self.next_turn = True, 0

    def freed(self, buffered: int) -> None:
        """
        Note that a batch was answered.

        :param buffered: the bytes that are left.
        """
        self._has_backlog, self.next_turn = False, buffered + _PER_TURN

    def turn(self, buffered: int) -> Deferred[None]:
        """Give the reactor a turn to send requests and read responses."""
        self.next_turn = buffered + _PER_TURN
        if self._has_backlog:
            return self._pause()
        turn: Deferred[None] = Deferred(lambda _: call.cancel())
        call = self._clock.callLater(0, turn.callback, None)
        return turn

    def wait(self) -> Deferred[None]:
        """Wait until there is room."""
        waiting: Deferred[None] = Deferred(lambda _: self._waiting.pop(waiting, None))
        self._waiting[waiting] = None
        return waiting

    def resume_all(self) -> None:
        """Resume all callers that wait."""
        waiting, self._waiting = self._waiting, {}
        for each in waiting:
            if not each.called:
                each.callback(None)

    def _pause(self) -> Deferred[None]:
        """Wait for a response, but not for long: records for other partitions should not be held up."""
        self._has_backlog = False
        return self.wait().addTimeout(_PAUSE, self._clock, onTimeoutCancel=lambda *_: None)
