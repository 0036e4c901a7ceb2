"""A test server notices that its parent has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.testing.server.parent_watch import SECONDS, ParentWatch

NOBODY = 2**22 + 1
"""No process has this number: it is above what Linux counts to."""


class Reactor(Clock):
    """A clock that keeps what is watched."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: list[Any] = []

    def addReader(self, reader: Any) -> None:
        self.readers.append(reader)

    def removeReader(self, reader: Any) -> None:
        self.readers.remove(reader)


class ParentWatchTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = Reactor()
        self.said: list[str] = []
        self.parent = NOBODY
        self.stdin, self.other_end = os.pipe()
        self.addCleanup(os.close, self.stdin)

    def watch(self, stdin: int) -> ParentWatch:
        watch = ParentWatch(self.reactor, self.said.append, lambda: self.parent, stdin)
        watch.start()
        return watch

    def assert_over(self) -> None:
        """Nothing is watched any more."""
        self.assertEqual(self.reactor.readers, [])
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_end_of_input(self) -> None:
        """The end of a pipe is the parent's end; what comes before it is passed over."""
        self.watch(self.stdin)
        os.write(self.other_end, b"noise")
        (reader,) = self.reactor.readers
        reader.doRead()
        self.assertEqual(self.said, [])
        os.close(self.other_end)
        reader.doRead()
        self.assertEqual(self.said, ["standard input has ended"])
        self.assert_over()

    def test_other_input(self) -> None:
        """What is no pipe, or closed, says nothing."""
        os.close(self.other_end)
        with open(os.devnull) as null:
            watch = self.watch(null.fileno())
        self.assertEqual(self.reactor.readers, [])
        watch.stop()
        self.watch(-1).stop()
        self.assertEqual(self.said, [])
        self.assert_over()

    def test_other_parent(self) -> None:
        """A process that has got another parent has lost its own."""
        os.close(self.other_end)
        self.watch(-1)
        self.reactor.advance(SECONDS)
        self.assertEqual(self.said, [])
        self.parent = 1
        self.reactor.advance(SECONDS)
        self.assertEqual(self.said, [f"the parent process {NOBODY} has ended"])
        self.assert_over()

    def test_init(self) -> None:
        """One that is a service, or the first process of a container, ends with nobody."""
        os.close(self.other_end)
        for self.parent in (0, 1):
            self.watch(-1)
            self.assert_over()

    def test_process(self) -> None:
        """The system says when the parent has ended, before it is looked for."""
        os.close(self.other_end)
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as parent:
            self.parent = parent.pid
            self.watch(-1)
            (reader,) = self.reactor.readers
            assert parent.stdin is not None
            parent.stdin.close()
            parent.wait()
        reader.doRead()
        self.assertEqual(self.said, [f"the parent process {parent.pid} has ended"])
        self.assert_over()
