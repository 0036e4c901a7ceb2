"""Tests of :mod:`logbus.log_levels`."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st
from twisted.logger import ILogFilterPredicate, LogLevel, PredicateResult
from zope.interface.verify import verifyObject

from logbus.errors import ConfigError
from logbus.log_levels import LEVELS, WORKER, LogLevels

PACKAGE = type("Package", (), {"__path__": []})
MODULES = {
    "logbus": PACKAGE,
    "logbus.net": PACKAGE,
    "logbus.net.protocol": type("Module", (), {"Protocol": object}),
    "twisted": PACKAGE,
    "json": PACKAGE,
}


class LogLevelsTests(TestCase):
    """Which events are logged."""

    def setUp(self) -> None:
        self.levels = LogLevels(MODULES)

    def logged(self, namespace: str, level: str, **more: Any) -> bool:
        event: Any = {"log_namespace": namespace, "log_level": LogLevel.levelWithName(level), **more}
        return self.levels(event) is PredicateResult.yes

    def test_interface(self) -> None:
        """Twisted's observers can be filtered by it."""
        verifyObject(ILogFilterPredicate, self.levels)

    def test_inherited(self) -> None:
        """A logger without a level has that of the next one above, down to root's INFO."""
        self.assertEqual((self.logged("logbus.net.x", "debug"), self.logged("logbus.net.x", "info")), (False, True))
        self.levels.set("logbus.net", "ERROR")
        self.assertEqual([self.logged("logbus.net.x", each) for each in ("warn", "error")], [False, True])
        self.assertTrue(self.logged("logbus.network", "info"), "a longer name is not below")
        self.levels.set("logbus.net.protocol", "TRACE")
        self.assertTrue(self.logged("logbus.net.protocol", "debug"))
        self.levels.set("logbus.net.protocol.Protocol", "WARN")
        self.assertFalse(self.logged("logbus.net.protocol.Protocol", "info"))
        self.levels.unset("logbus.net")
        self.assertTrue(self.logged("logbus.net.x", "info"))
        self.assertTrue(self.logged("logbus.net.protocol", "debug"))
        self.levels.set("ROOT", "FATAL")
        self.assertEqual([self.logged("", each) for each in ("error", "critical")], [False, True])

    def test_of_workers(self) -> None:
        """What a worker sends has passed its own levels."""
        self.assertTrue(self.logged("logbus", "debug", **{WORKER: "worker 1"}))

    def test_configured(self) -> None:
        """Removing a level restores that of the configuration."""
        self.levels.configure({"logbus.net": "WARN", "plugin.of.somebody": "DEBUG"})
        self.levels.set("logbus.net", "DEBUG")
        self.assertTrue(self.levels.is_set("logbus.net"))
        self.levels.unset("logbus.net")
        self.assertEqual((self.levels.level("logbus.net.x"), self.levels.is_set("logbus.net")), ("WARN", False))
        self.assertTrue(self.logged("plugin.of.somebody", "debug"))

    def test_unknown(self) -> None:
        """There are levels for what can log, so that nobody fills the memory with made-up names."""
        for name, level, words in (
            ("json", "INFO", "there is no logger 'json'; loggers are root, logbus, twisted, their"),
            ("logbus.net.protocol.None", "INFO", "there is no logger"),
            ("logbus..", "INFO", "there is no logger"),
            ("", "INFO", "there is no logger"),
            ("logbus.nte", "INFO", "there is no logger 'logbus.nte'"),
            ("logbus", "info", "logbus: 'info' is not a level; there are TRACE, DEBUG, INFO, WARN, ERROR, FATAL"),
        ):
            with self.assertRaisesRegex(ConfigError, words):
                self.levels.set(name, level)

    def test_names(self) -> None:
        """Packages are shown, and what has a level of its own."""
        self.levels.set("logbus.net.protocol", "DEBUG")
        found = ["root", "logbus", "logbus.audit", "logbus.net", "logbus.net.protocol", "logbus.request", "twisted"]
        self.assertEqual(list(self.levels.names()), found)

    @given(st.dictionaries(st.sampled_from(sorted({*MODULES, "root"} - {"json"})), st.sampled_from(LEVELS)))
    def test_nearest(self, wanted: dict[str, str]) -> None:
        """The level is always that of the longest prefix that has one."""
        levels = LogLevels(MODULES)
        for name, level in wanted.items():
            levels.set(name, level)
        name = "logbus.net.protocol.x"
        prefixes = ["logbus.net.protocol", "logbus.net", "logbus", "root"]
        self.assertEqual(levels.level(name), next((wanted[each] for each in prefixes if each in wanted), "INFO"))
