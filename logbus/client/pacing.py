"""Who fills batches waits: for room, for others to have a turn, or for batches to leave."""

from __future__ import annotations

from typing import Any, TypeVar

from twisted.internet.defer import Deferred

_PER_TURN = 256 * 1024
"""So many bytes more in batches are a turn of the reactor's work."""
_PAUSE = 0.01
"""Seconds that who fills batches faster than they leave waits for one to be answered, at the most."""

T = TypeVar("T")


class Pacing:
    """
    :param clock: the reactor.
    :ivar next_turn: with so many bytes in batches it is time for :meth:`turn`.
    """

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self.next_turn = _PER_TURN
        self._is_ahead = False
        self._waiting: dict[Deferred[None], None] = {}

    def __bool__(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    def ahead(self) -> None:
        """
        A partition has complete batches that cannot leave yet: more of them only take memory, out of the processor's
        caches, and the garbage collector goes through them again and again. Whose turn is next pauses for a moment.
        """
        self._is_ahead, self.next_turn = True, 0

    def freed(self, buffered: int) -> None:
        """
        A batch is answered.

        :param buffered: bytes that are left.
        """
        self._is_ahead, self.next_turn = False, buffered + _PER_TURN

    def turn(self, buffered: int) -> Deferred[None]:
        """Requests leave, and answers come, between what programs do: who sends much lets others have a turn."""
        self.next_turn = buffered + _PER_TURN
        if self._is_ahead:
            return self._pause()
        turn: Deferred[None] = Deferred(lambda _: call.cancel())
        call = self._clock.callLater(0, turn.callback, None)
        return turn

    def wait(self) -> Deferred[None]:
        """Until there is room."""
        waiting: Deferred[None] = Deferred(lambda _: self._waiting.pop(waiting, None))
        self._waiting[waiting] = None
        return waiting

    def go_on(self) -> None:
        """There is room."""
        waiting, self._waiting = self._waiting, {}
        for each in waiting:
            if not each.called:
                each.callback(None)

    def _pause(self) -> Deferred[None]:
        """Until something is answered; not for long, as what is sent to other partitions must not wait for one."""
        self._is_ahead = False
        waiting = self.wait()

        def is_over() -> None:
            self._waiting.pop(waiting, None)
            waiting.callback(None)

        over = self._clock.callLater(_PAUSE, is_over)

        def ended(result: T) -> T:
            if over.active():
                over.cancel()
            return result

        return waiting.addBoth(ended)
