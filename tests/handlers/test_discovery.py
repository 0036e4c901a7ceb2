"""Tests of :mod:`logbus.handlers.discovery`."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from twisted.trial.unittest import SynchronousTestCase

import logbus.handlers
from logbus.broker import Broker
from logbus.config import ConfigView
from logbus.handlers.discovery import handler_classes
from logbus.testing.private_reactor import close_reactor, private_reactor

PING = """
from logbus.handlers.request_router import serves
from logbus.handlers.fetch import FetchHandlers


class Helper:
    pass


class PingHandlers:
    @classmethod
    def build(cls, broker):
        return cls()

    @serves(KEY, 0, 1)
    def ping(self, context, request):
        pass
"""


class DiscoveryTests(SynchronousTestCase):
    """Handlers are found in the modules of their package."""

    def setUp(self) -> None:
        self.directory = Path(self.enterContext(TemporaryDirectory()))
        self.patch(logbus.handlers, "__path__", [*logbus.handlers.__path__, str(self.directory)])
        self.addCleanup(sys.modules.pop, "logbus.handlers.ping", None)

    def module(self, source: str) -> None:
        (self.directory / "ping.py").write_text(source)

    def broker(self) -> Broker:
        reactor = private_reactor()
        self.addCleanup(close_reactor, reactor)
        return Broker(reactor, ConfigView.load(set={"log.dirs": str(self.directory / "logs")}), [], plugins={})

    def test_found(self) -> None:
        """The class that serves an API is found once, in the module that defines it; others are left alone."""
        before = list(handler_classes())
        self.module(PING.replace("KEY", "2000"))
        found = list(handler_classes())
        self.assertEqual([cls.__name__ for cls in found if cls not in before], ["PingHandlers"])
        self.assertEqual(len(found), len(set(found)))

    def test_module_without_handlers(self) -> None:
        """A module may have none."""
        before = list(handler_classes())
        self.module("THE_ANSWER = 42")
        self.assertEqual(list(handler_classes()), before)

    def test_two_for_one(self) -> None:
        """A broker whose API has two handlers cannot be built."""
        self.module(PING.replace("KEY", "1"))
        with self.assertRaisesRegex(ValueError, "API 1 has two handlers, .*FetchHandlers.*PingHandlers"):
            self.broker()

    def test_without_messages(self) -> None:
        """Nor can one with a handler of an API that has no messages."""
        self.module(PING.replace("KEY", "2000"))
        with self.assertRaisesRegex(ValueError, r"the messages of the APIs \[2000\]"):
            self.broker()
