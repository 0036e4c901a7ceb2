"""Tests of :mod:`logbus.net.cancellation`."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.cancellation import shield_from_cancellation


class ShieldTests(SynchronousTestCase):
    """Work that is shielded from cancellation."""

    def test_shielded(self) -> None:
        """Cancelling the waiting leaves the work alone; its result, or failure, goes nowhere then."""
        for ends in ("callback", "errback"):
            cancelled: list[object] = []
            work: Deferred[Any] = Deferred(cancelled.append)
            waiting = shield_from_cancellation(work)
            waiting.addErrback(lambda _: None)
            waiting.cancel()
            self.assertEqual(cancelled, [])
            getattr(work, ends)(ValueError("x"))
        done: Deferred[int] = Deferred()
        waiting = shield_from_cancellation(done)
        done.callback(5)
        self.assertEqual(self.successResultOf(waiting), 5)
