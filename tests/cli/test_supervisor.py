"""Tests of :mod:`logbus.cli.supervisor`: a ZooKeeper that does not come up again."""

from __future__ import annotations

import time
from itertools import repeat
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.supervisor import Supervisor
from logbus.testing.zookeeper import ZooKeeperFailed


class RestartZooKeeperTests(SynchronousTestCase):
    def test_failures(self) -> None:
        """A restart that fails is tried again, later each time up to a limit, for hours; the brokers go on."""
        said: list[str] = []
        cluster = Supervisor(Path("data"), 1, None, {}, 0, 0, 2.0, said.append)
        now = Mock(return_value=0.0)
        self.patch(time, "monotonic", now)
        zookeeper = Mock()
        zookeeper.start.side_effect = ZooKeeperFailed("it does not serve:\nNo space left on device")
        hidden = cast(Any, cluster)
        hidden._own, hidden._own_again_at = zookeeper, 0.0
        for wait in (4, 8, 16, 32, *repeat(60, 1100)):
            hidden._restart()
            again = f"ZooKeeper cannot be started, which is tried again in {wait} s: No space left on device"
            self.assertEqual(said.pop(), again)
            self.assertEqual(hidden._own_again_at, now.return_value + wait)
            hidden._restart()
            self.assertEqual(said, [])
            now.return_value += wait
        zookeeper.start.side_effect = None
        hidden._restart()
        self.assertEqual((said, hidden._own_again_at), (["ZooKeeper is started again"], None))
