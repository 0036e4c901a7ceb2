"""Tests of :mod:`logbus.plugins`."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

import twisted.plugins
from logbus import plugins
from logbus.ilogbus import IProtocolPlugin
from logbus.plugins import installed_plugins


class InstalledPluginsTests(SynchronousTestCase):
    """Plugins in a directory."""

    def setUp(self) -> None:
        self.directory = self.enterContext(TemporaryDirectory())
        self.patch(twisted.plugins, "__path__", [*twisted.plugins.__path__, self.directory, "/does/not/exist"])
        self.patch(plugins, "_found", {})

    def names(self) -> list[str]:
        """The names of the protocols."""
        return sorted(plugin.name for plugin in installed_plugins(IProtocolPlugin))

    def test_remembered(self) -> None:
        """They are looked for once."""
        self.assertEqual(self.names(), ["admin", "kafka", "kafka07"])
        with mock.patch.object(plugins, "getPlugins", side_effect=AssertionError):
            self.assertEqual(self.names(), ["admin", "kafka", "kafka07"])

    def test_looked_for_anew(self) -> None:
        """One that is installed later is found, and so is that one is gone."""
        self.names()
        path = Path(self.directory, "another_of_these.py")
        path.write_text("from logbus.protocols import KafkaPlugin\nother = KafkaPlugin()\nother.name = 'other'\n")
        os.utime(self.directory, ns=(1, 1))
        self.assertEqual(self.names(), ["admin", "kafka", "kafka07", "other"])
        path.unlink()
        os.utime(self.directory, ns=(2, 2))
        self.assertEqual(self.names(), ["admin", "kafka", "kafka07"])
