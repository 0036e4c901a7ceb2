"""How a broker begins a mirror, and begins it again; without any cluster."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from logbus.broker.mirror import BrokerMirror
from logbus.config import ConfigView
from logbus.config.mirror_flows import mirror_flows
from logbus.mirror import mirror as module


class MirrorOfTest:
    """Runs until it is stopped."""

    def __init__(self, *_: object, **__: object) -> None:
        self.ended: Deferred[None] = Deferred()

    async def run(self) -> None:
        await self.ended

    def stop(self) -> None:
        self.ended.callback(None)


class StartTests(SynchronousTestCase):
    """A broker that is the controller."""

    def test_a_file_that_is_replaced(self) -> None:
        """While it is not there the mirror cannot begin, which is said; then it does."""
        directory = TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = Path(directory.name, "mirror.properties")
        path.write_text("security.protocol=PLAINTEXT\n")
        made: list[MirrorOfTest] = []
        self.patch(module, "Mirror", lambda *_, **__: made.append(MirrorOfTest()) or made[-1])
        config = {"mirror.source.bootstrap.servers": "paris:9092", "mirror.source.config": str(path)}
        [settings] = mirror_flows(ConfigView.load(set=config))
        clock = Clock()
        env: Any = SimpleNamespace(reactor=clock, wall_clock=lambda: 0.0)
        mirror = BrokerMirror(env, settings, lambda: True, lambda: ["here:9092"], lambda *_: None)
        path.unlink()
        with capturedLogs() as events:
            mirror.start()
        [said] = [formatEvent(each) for each in events]
        self.assertIn(f"cannot begin: mirror.source.config: {path}: No such file", said)
        path.write_text("security.protocol=PLAINTEXT\n")
        clock.pump([1.0] * 10)
        self.assertEqual(len(made), 1)
        ended = mirror.stop()
        assert ended is not None
        self.successResultOf(ended)
        self.assertEqual(clock.getDelayedCalls(), [])
