"""Tests of :mod:`logbus.signals`."""

from __future__ import annotations

import signal
from typing import Any

from twisted.internet.error import ReactorNotRunning
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.signals import Handler, ProcessSignals


class FakeReactor(Clock):
    """Is running, and stops once."""

    stopped = False

    def callWhenRunning(self, call: Any, *args: Any) -> None:
        call(*args)

    def callFromThread(self, call: Any, *args: Any, **more: Any) -> None:
        self.callLater(0, call, *args, **more)

    def stop(self) -> None:
        if self.stopped:
            raise ReactorNotRunning
        self.stopped = True


class SignalTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = FakeReactor()

        def twisted(number: int, frame: Any) -> None:
            self.reactor.callFromThread(self.reactor.stop)

        self.handlers: dict[int, Handler] = {
            signal.SIGTERM: twisted,
            signal.SIGINT: signal.SIG_IGN,
            signal.SIGHUP: signal.SIG_DFL,
        }
        self.signals = ProcessSignals(self.reactor, self.handlers.get, self.handlers.__setitem__)

    def install(self) -> None:
        self.signals.install()
        self.reactor.advance(0)

    def send(self, *numbers: int) -> None:
        """All of them come before the reactor turns."""
        for number in numbers:
            handler = self.handlers[number]
            if callable(handler):
                handler(number, None)
        self.reactor.advance(0)

    def test_many_at_once(self) -> None:
        """However often the process is told to stop, it stops once."""
        self.install()
        self.send(signal.SIGTERM, signal.SIGTERM)
        self.send(signal.SIGTERM)
        self.assertTrue(self.reactor.stopped)

    def test_stopped_by_itself(self) -> None:
        """A requested stop and signals do not interfere."""
        self.install()
        self.signals.stop()
        self.send(signal.SIGTERM)
        self.signals.stop()
        self.assertTrue(self.reactor.stopped)

    def test_stopped_by_another(self) -> None:
        """A process that is ending already is not stopped again."""
        self.install()
        self.reactor.stop()
        self.signals.stopping()
        self.send(signal.SIGTERM)

    def test_hangup(self) -> None:
        """SIGHUP has certificates read again, and stops nothing, before the reactor runs as well."""
        hung_up: list[None] = []
        self.signals.hung_up = lambda: hung_up.append(None)
        self.signals.install()
        self.send(signal.SIGHUP, signal.SIGHUP)
        self.assertEqual(len(hung_up), 2)
        self.assertFalse(self.reactor.stopped)

    def test_what_is_ignored_stays_ignored(self) -> None:
        """As a shell has SIGINT in the background; but under nohup SIGHUP has certificates read again."""
        self.handlers[signal.SIGHUP] = signal.SIG_IGN
        self.install()
        self.assertNotEqual(self.handlers[signal.SIGHUP], signal.SIG_IGN)
        self.assertEqual(self.handlers[signal.SIGINT], signal.SIG_IGN)
