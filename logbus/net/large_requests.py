"""
Has large requests take turns with the small Produce requests of other connections (anticipatory scheduling).

A client that waits for each response has nothing here while its response is on the way. A broker that only looks at
what is ready finds another's next megabyte then, and each small request waits for one. So when a large request was
served, the next is kept waiting for as long as that took, provided that small ones come soon enough to use the time.
If they did not, the next large ones wait for nobody, and each time that happens twice as many.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime

LARGE = 1 << 18
"""Bytes of requests that a connection holds from which on they are large."""

MOST_SECONDS = 0.002
"""A large request waits no longer, whatever the last one took."""

SOON = 0.00025
"""Seconds between small requests, on average, with which they use their time."""

FEWEST_PASSES, MOST_PASSES = 4, 128
"""Large requests that wait for nobody after one has waited in vain, the first time and at most."""


@define(eq=False)
class LargeRequestScheduler:
    """
    The turns of large requests, over all connections.

    :param clock: the reactor; ``seconds`` reads the clock by which requests are measured.
    :ivar small: small Produce requests served so far.
    """

    clock: IReactorTime
    seconds: Callable[[], float]
    small: int = field(default=0, init=False)
    # Large requests that wait, in the order in which they came, by what is called then.
    _waiting: dict[Callable[[], None], None] = field(factory=dict, init=False)
    _call: IDelayedCall | None = field(default=None, init=False)
    _is_turn: bool = field(default=False, init=False)
    # When the last large request was served, until when others have their turn, and the small ones until then.
    _ended: float = field(default=0.0, init=False)
    _due: float = field(default=0.0, init=False)
    _before: int = field(default=0, init=False)
    _passes: int = field(default=0, init=False)
    _passes_in_vain: int = field(default=0, init=False)

    def must_wait(self, go: Callable[[], None]) -> bool:
        """
        Whether a large request has to wait; ``go`` is called when it is to be served, and must do so at once.
        """
        if self._is_turn:
            return False
        if not self._waiting:
            left = self._left()
            if left <= 0 or self.small == self._before:
                return False
            if self._passes:
                self._passes -= 1
                return False
            self._call = self.clock.callLater(left, self._go)
        self._waiting[go] = None
        return True

    def withdraw(self, go: Callable[[], None]) -> None:
        """The connection of a request that may be waiting is lost."""
        self._waiting.pop(go, None)
        if not self._waiting and self._call is not None:
            self._call.cancel()
            self._call = None

    def served(self, since: float, others: int = 0) -> None:
        """
        A large request was served.

        :param since: when that began; ``others``: small requests that were served meanwhile, while a thread wrote.
        """
        self._ended = self._due = now = self.seconds()
        self._before = self.small
        took = now - since
        if not _is_enough(others, took):
            self._due += min(took, MOST_SECONDS)

    def _left(self) -> float:
        """Seconds until the end of the others' turn."""
        return min(self._due - self.seconds(), MOST_SECONDS)

    def _go(self) -> None:
        """Serve the one that has waited longest."""
        self._call = None
        go = next(iter(self._waiting))
        del self._waiting[go]
        if self._passes:
            self._passes -= 1
        elif _is_enough(self.small - self._before, self.seconds() - self._ended):
            self._passes_in_vain = 0
        else:
            self._passes_in_vain = min(max(2 * self._passes_in_vain, FEWEST_PASSES), MOST_PASSES)
            self._passes = self._passes_in_vain
        self._is_turn = True
        try:
            go()
        finally:
            self._is_turn = False
            if self._waiting:
                self._call = self.clock.callLater(0 if self._passes else max(self._left(), 0), self._go)


def _is_enough(small: int, seconds: float) -> bool:
    """Whether so many small requests use a turn of ``seconds``."""
    return small * SOON >= seconds
