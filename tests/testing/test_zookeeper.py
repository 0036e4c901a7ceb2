"""The test kit's ZooKeeper where it cannot run: the error names the missing parts."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from logbus.testing import zookeeper
from logbus.testing.zookeeper import ZooKeeper, ZooKeeperFailed


class MissingPartsTests(SynchronousTestCase):
    """Neither Java nor ZooKeeper comes with a Python package."""

    def refused(self) -> str:
        one = ZooKeeper()
        self.addCleanup(one.close)
        home = one._home
        error = str(self.assertRaises(ZooKeeperFailed, one.start))
        one.close()
        self.assertFalse(home.exists())
        return error

    def test_no_java(self) -> None:
        """The package to install is named."""
        with patch("shutil.which", lambda name: None):
            self.assertIn("apt-get install default-jre-headless", self.refused())

    def test_no_zookeeper(self) -> None:
        """The file that is missing is named, and the package it is in."""
        with patch("shutil.which", lambda name: name), patch.object(zookeeper, "JAR", Path("/none.jar")):
            error = self.refused()
        self.assertIn("/none.jar is missing", error)
        self.assertIn("libzookeeper-java", error)

    def test_addresses(self) -> None:
        """Each server of an ensemble has an address of its own, known before it runs."""
        three = ZooKeeper(3)
        self.addCleanup(three.close)
        servers = three.connect.split(",")
        self.assertEqual(len(set(servers)), 3)
        text = (three._home / "2" / "zoo.cfg").read_text()
        self.assertEqual(text.count("\nserver."), 3)
        self.assertIn(f"clientPort={servers[1].rpartition(':')[2]}\n", text)
