"""Tests of :mod:`logbus.handlers.discovery`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

import logbus.handlers
from logbus.broker import Broker
from logbus.config import ConfigView
from logbus.handlers import discovery
from logbus.handlers.discovery import declared_apis, defined_in, handler_classes, handler_modules
from logbus.handlers.request_router import marks
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


def shape(api: Any) -> tuple[object, ...]:
    """What a declaration says that can be compared."""
    return api.api_key, api.versions, api.forwarded, api.waits_for_metadata


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

    def test_sources(self) -> None:
        """
        What is read of a module's source before it is imported is what it declares, for each module: a broker imports
        most of them with their first request. Those that nearly every request goes through are imported at the start.
        """
        later: set[int] = set()
        for name, source in handler_modules():
            assert source is not None
            apis = declared_apis(source)
            if apis is not None:
                classes = defined_in(import_module(name))
                marked = [mark for cls in classes for _, mark in marks(cls)]
                self.assertEqual([shape(api) for api in apis], [shape(mark) for mark in marked], name)
                self.assertFalse([cls for cls in classes if hasattr(cls, "register_metrics")], name)
                later.update(api.api_key for api in apis)
        self.assertLessEqual({3, 10, 11, 19, 32, 76, 88}, later)
        self.assertFalse({0, 1, 68} & later)

    def test_declared(self) -> None:
        """A declaration that has more than numbers and a flag cannot be read from the source."""
        for line in ("serves(KEY, 0, 1)", "serves(7, 0, 1, advertised_if=x)", "serves_coalesced(0)", "prepares(0)"):
            self.assertIsNone(declared_apis(f"class A:\n    @serves(9, 0, 1)\n    @{line}\n"), line)
        self.assertEqual(declared_apis("class A:\n    @property\n    def a(self): ...\n"), [])

    def test_without_sources(self) -> None:
        """Where there is no source, all modules are imported at the start."""
        self.patch(discovery, "SourceFileLoader", str)
        self.assertEqual({source for _, source in handler_modules()}, {None})

    def test_two_for_one(self) -> None:
        """A broker whose API has two handlers cannot be built."""
        self.module(PING.replace("KEY", "1"))
        with self.assertRaisesRegex(ValueError, "API 1 has two handlers, FetchHandlers and logbus.handlers.ping"):
            self.broker()

    def test_without_messages(self) -> None:
        """Nor can one with a handler of an API that has no messages."""
        self.module(PING.replace("KEY", "2000"))
        with self.assertRaisesRegex(ValueError, r"the messages of the APIs \[2000\]"):
            self.broker()
