"""The supervisor's side of the fork server."""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

from twisted.internet.error import ProcessExitedAlready, ProcessTerminated
from twisted.internet.testing import StringTransport
from twisted.logger import capturedLogs, formatEvent
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logbus.workers.fork_client import ForkClient
from logbus.workers.fork_server import CONTROL, ForkServer
from logbus.workers.worker_plan import WorkerPlan


class FakeReactor:
    """Starts a process that is the test, and stands for it in what it is sent."""

    pid = 77

    def __init__(self) -> None:
        self.signals: list[str] = []
        self.processes: list[Any] = []

    def spawnProcess(self, protocol: Any, *_: object, childFDs: dict[int, int], **__: object) -> FakeReactor:
        self.processes.append(protocol)
        self.server = ForkServer(socket.socket(fileno=os.dup(childFDs[CONTROL])))
        return self

    def signalProcess(self, name: str) -> None:
        self.signals.append(name)
        if len(self.signals) > 1:
            raise ProcessExitedAlready

    def adoptStreamConnection(self, descriptor: int, family: int, factory: Any) -> None:
        self.answers = factory.buildProtocol(None)
        self.answers.makeConnection(StringTransport())
        # The reactor's copy of the descriptor shares this.
        os.set_blocking(descriptor, False)
        self.received = socket.socket(fileno=os.dup(descriptor))


class ClientCase(SynchronousTestCase):
    """A client, and its fork server."""

    def setUp(self) -> None:
        self.reactor = FakeReactor()
        self.started: list[tuple[int, int]] = []
        self.lost: list[None] = []
        self.client = ForkClient(
            self.reactor,
            lambda index, pid: self.started.append((index, pid)),
            self.fail,
            lambda: self.lost.append(None),
        )
        self.client.start()
        self.addCleanup(self.close)

    def close(self) -> None:
        server = self.reactor.server
        for each in (server._control, *server._wake, self.reactor.received):
            each.close()
        self.client.stop()


class PingTests(ClientCase):
    """A fork server that answers, or does not."""

    def tearDown(self) -> None:
        self.assertEqual(self.started, [])

    def serve(self) -> None:
        self.assertTrue(self.reactor.server._serve())
        self.reactor.answers.dataReceived(self.reactor.received.recv(1000))

    def test_it_answers(self) -> None:
        """It is asked again each time, and left alone."""
        for _ in range(50):
            self.client.ping(1.0, 3.0)
            self.serve()
        self.assertEqual(self.reactor.signals, [])

    def test_it_stands_still(self) -> None:
        """It is killed after the time that it has, of which the log tells; then the supervisor starts another."""
        with capturedLogs() as events:
            for _ in range(4):
                self.assertEqual(self.reactor.signals, [])
                self.client.ping(1.0, 3.0)
            for _ in range(3):
                self.client.ping(1.0, 3.0)
        self.assertEqual(self.reactor.signals, ["KILL", "KILL"])
        said = "the process that starts workers (77) has not answered for 3 s: it is killed"
        self.assertEqual([formatEvent(each) for each in events], 2 * [said])
        self.reactor.processes[0].processEnded(Failure(ProcessTerminated(signal=9)))
        self.assertEqual(self.lost, [None])
        self.client.ping(1.0, 3.0)
        self.assertFalse(self.client.running)

    def test_it_was_killed(self) -> None:
        """A ping before that is known is no error: it would end the watch over the workers."""
        self.reactor.server._control.close()
        self.client.ping(1.0, 3.0)
        self.reactor.processes[0].processEnded(Failure(ProcessTerminated(signal=9)))
        self.assertEqual(self.lost, [None])


class PlanTests(ClientCase):
    """Plans of workers on their way."""

    def setUp(self) -> None:
        super().setUp()
        self.pids = iter(range(1000, 2000))
        self.patch(os, "fork", lambda: next(self.pids))

    def fork(self, index: int) -> socket.socket:
        """Have a worker started; returns the supervisor's end of its link."""
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        ours.setblocking(False)
        self.client.fork(WorkerPlan(index, {"listeners": 4000 * "x"}, ()), theirs)
        return ours

    def assert_ended(self, link: socket.socket) -> None:
        self.assertEqual(link.recv(1), b"")

    def test_many_workers(self) -> None:
        """They are more than the socket has room for while the fork server imports."""
        for index in range(200):
            self.fork(index)
        while len(self.started) < 200:
            self.assertTrue(self.reactor.server._serve())
            self.reactor.answers.dataReceived(self.reactor.received.recv(1000))
        self.assertEqual(self.started, [(index, 1000 + index) for index in range(200)])

    def test_a_plan_that_cannot_be_sent(self) -> None:
        """The link of its worker ends, and other plans are sent."""
        send = socket.send_fds

        def refuse(*_: Any) -> int:
            self.patch(socket, "send_fds", send)
            raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))

        self.patch(socket, "send_fds", refuse)
        self.assert_ended(self.fork(0))
        self.fork(1)
        self.assertNotEqual(self.reactor.server._control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT), b"")
        self.assertTrue(self.reactor.server._serve())
        self.reactor.answers.dataReceived(self.reactor.received.recv(1000))
        self.assertEqual(self.started, [(1, 1000)])

    def test_it_ends(self) -> None:
        """The links of workers that were not started end, so that they are started later."""
        links = [self.fork(index) for index in range(3)]
        self.reactor.server._control.close()
        self.client.has_started(0, 1)
        links.append(self.fork(3))
        self.reactor.processes[0].processEnded(Failure(ProcessTerminated(signal=9)))
        links.append(self.fork(4))
        for link in links:
            self.assert_ended(link)

    def test_a_stop(self) -> None:
        """So do those of workers that are not started any more."""
        links = [self.fork(index) for index in range(3)]
        self.client.stop()
        self.assert_ended(links[2])
