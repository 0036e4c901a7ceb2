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
from twisted.logger import Logger

LARGE = 1 << 18
"""Bytes of requests that a connection holds from which on they are large."""

MOST_SECONDS = 0.002
"""A large request waits no longer, whatever the last one took."""

SOON = 0.00025
"""Seconds that the reactor may wait for each small request in their turn; what else it does meanwhile is no loss."""

FEWEST_PASSES, MOST_PASSES = 4, 128
"""Large requests that wait for nobody after one has waited in vain, the first time and at most."""

MOST_CREDIT = 4
"""Large requests that may wait in vain before others wait for nobody: as many as did not before, but no more."""


@define(eq=False)
class LargeRequestScheduler:
    """
    The turns of large requests, over all connections.

    :param clock: the reactor; ``seconds`` reads the clock by which requests are measured, and ``idle`` how long the
        reactor has waited, from some time on.
    :ivar small: small Produce requests served so far.
    """

    clock: IReactorTime
    seconds: Callable[[], float]
    idle: Callable[[], float]
    _log = Logger()
    small: int = field(default=0, init=False)
    # Large requests that wait, in the order in which they came, by what is called then.
    _waiting: dict[Callable[[], None], None] = field(factory=dict, init=False)
    _call: IDelayedCall | None = field(default=None, init=False)
    _is_turn: bool = field(default=False, init=False)
    # Whether the one that is called next gives way to small ones; and how many may do so in vain.
    _gives_way: bool = field(default=False, init=False)
    _credit: int = field(default=0, init=False)
    # Until when others have their turn; the small requests, and how long the reactor was idle, before that.
    _due: float = field(default=0.0, init=False)
    _before: int = field(default=0, init=False)
    _idle_before: float = field(default=0.0, init=False)
    # How many wait for nobody; and how many did so the last time.
    _passes: int = field(default=0, init=False)
    _passes_in_vain: int = field(default=0, init=False)

    def must_wait(self, go: Callable[[], None]) -> bool:
        """Whether a large request has to wait; ``go`` is called when it is to be served, and must do so at once."""
        if self._is_turn:
            return False
        if not self._waiting:
            seconds = self._give_way()
            if not seconds:
                return False
            self._call = self.clock.callLater(seconds, self._go)
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
        self._due = now = self.seconds()
        self._before, self._idle_before = self.small, self.idle()
        took = now - since
        if not _is_enough(others, took):
            self._due += min(took, MOST_SECONDS)

    def _give_way(self) -> float:
        """Seconds for which the next large request waits for small ones."""
        self._gives_way = False
        left = self._due - self.seconds()
        if left <= 0 or (self.small == self._before and not self._credit):
            return 0
        if self._passes:
            self._passes -= 1
            return 0
        self._gives_way = True
        return min(left, MOST_SECONDS)

    def _go(self) -> None:
        """Serve the one that has waited longest, and those behind it until one gives way."""
        self._call = None
        if self._gives_way:
            if _is_enough(self.small - self._before, self.idle() - self._idle_before):
                self._credit = min(self._credit + 1, MOST_CREDIT)
                self._passes_in_vain = 0
            elif self._credit:
                self._credit -= 1
            else:
                self._passes_in_vain = min(max(2 * self._passes_in_vain, FEWEST_PASSES), MOST_PASSES)
                self._passes = self._passes_in_vain
        while self._waiting:
            go = next(iter(self._waiting))
            del self._waiting[go]
            self._is_turn = True
            try:
                go()
            except Exception:
                self._log.failure("a connection whose turn it was failed")
            self._is_turn = False
            if self._waiting and (seconds := self._give_way()):
                self._call = self.clock.callLater(seconds, self._go)
                return


def _is_enough(small: int, seconds: float) -> bool:
    """Whether so many small requests are worth ``seconds``."""
    return small > 0 and small * SOON >= seconds
