"""The supervisor, with workers that do what the test says."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.logger import LogLevel, eventAsJSON, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.ilogbus import Listener
from logbus.workers import supervisor as module
from logbus.workers.collection import COLLECT_SECONDS
from logbus.workers.earlier_workers import LOCK_FILE
from logbus.workers.fork_client import ForkClient
from logbus.workers.port_reservation import PortReservation
from logbus.workers.restart_backoff import FIRST_PAUSE, LONGEST_PAUSE, WELL_SECONDS
from logbus.workers.supervisor import NOTICE_SECONDS, PING_SECONDS, Supervisor, WorkerFailed
from logbus.workers.worker_link import Kind, WorkerLink
from logbus.workers.worker_plan import WorkerPlan

LISTENERS = [Listener("kafka", "kafka", "tcp:0:interface=127.0.0.1"), Listener("admin", "admin", "tcp:0")]


class FakeReactor(Clock):
    """A clock that keeps the connections it adopts, and the port of the store's server."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[WorkerLink] = []

    def adoptStreamConnection(self, descriptor: int, family: int, factory: Any) -> None:
        link = factory.buildProtocol(None)
        link.makeConnection(StringTransport())
        self.links.append(link)

    def listenUNIX(self, address: str, factory: Any, mode: int) -> Any:
        return self

    def stopListening(self) -> None:
        pass

    def callFromThread(self, f: Any, *args: Any, **kwargs: Any) -> None:
        f(*args, **kwargs)


class StoreOfTest:
    """Stands for the embedded store, whose thread the test does not want."""

    path = "metadata.db"

    def __init__(self, path: Path, reactor: object, wall_clock: object) -> None:
        self.listeners: list[Any] = []
        self.closed = False

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        self.closed = True

    def subscribe(self, listener: Any) -> None:
        self.listeners.append(listener)


class SupervisorTests(SynchronousTestCase):
    """Two workers."""

    def setUp(self) -> None:
        self.reactor = FakeReactor()
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        self.plans: list[WorkerPlan] = []
        self.killed: list[int] = []
        self.events: list[Any] = []
        self.lost: list[Failure] = []
        self.patch(ForkClient, "start", lambda client: None)
        self.patch(ForkClient, "fork", self.fork)
        self.patch(ForkClient, "stop", lambda client: None)
        self.patch(module, "EmbeddedStore", StoreOfTest)
        self.patch(os, "kill", lambda pid, number: self.killed.append(pid))
        globalLogPublisher.addObserver(self.events.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.events.append)
        self.supervisor = self.make()
        self.started = self.supervisor.startService()
        self.addCleanup(self.end)

    def make(self, directory: Path | None = None) -> Supervisor:
        config = ConfigView.load(set={"log.dirs": str(directory or self.directory)})
        return Supervisor(self.reactor, config, LISTENERS, 2, None, lambda: 0.0, self.lost.append)

    def end(self) -> None:
        self.supervisor._ports.release()
        self.supervisor._lock.close()

    def fork(self, plan: WorkerPlan, link: socket.socket) -> None:
        link.close()
        self.plans.append(plan)
        self.supervisor._forked(plan.index, 100 + len(self.plans))

    def say(self, index: int, kind: Kind, text: str = "") -> None:
        self.reactor.links[index].dataReceived(json.dumps({"kind": kind, "text": text}).encode() + b"\n")

    def told(self, index: int) -> list[tuple[str, str]]:
        transport: Any = self.reactor.links[index].transport
        lines = transport.value().splitlines()
        transport.clear()
        return [(found["kind"], found["text"]) for found in map(json.loads, lines)]

    def ready(self) -> None:
        self.say(0, Kind.READY)
        self.say(1, Kind.READY)
        self.answer()
        self.successResultOf(self.started)

    def answer(self) -> None:
        """Have all pings answered."""
        for index in (0, 1):
            for kind, _ in self.told(index):
                if kind == "ping":
                    self.say(index, Kind.PONG, "[]")

    def errors(self) -> list[str]:
        return [event["log_format"] for event in self.events if event.get("log_level") is LogLevel.error]

    def test_start(self) -> None:
        """It has started when all are ready; each has a plan of its own."""
        self.assertEqual([plan.settings["broker.id"] for plan in self.plans], ["0", "1"])
        self.say(1, Kind.READY)
        self.assertNoResult(self.started)
        self.say(0, Kind.READY)
        self.assertNoResult(self.started)
        self.answer()
        self.successResultOf(self.started)

    def test_free_ports(self) -> None:
        """Where the shared port is any free one, the workers' own are: those that follow it may be others'."""
        asked: list[int] = []
        reserve = PortReservation.reserve

        def noted(ports: PortReservation, interface: str, port: int) -> int:
            asked.append(port)
            return reserve(ports, interface, port)

        self.patch(PortReservation, "reserve", noted)
        self.end()
        other = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, other)
        self.supervisor = self.make(other)
        self.supervisor.startService()
        self.assertGreater(len(asked), 2)
        self.assertEqual(set(asked), {0})

    def test_port_that_is_taken(self) -> None:
        """A start that is refused for it makes no directory."""

        def taken(ports: PortReservation, interface: str, port: int) -> int:
            raise ConfigError(f"port {port} is taken")

        self.patch(PortReservation, "reserve", taken)
        refused = self.make(self.directory / "new")
        self.failureResultOf(refused.startService(), ConfigError)
        self.assertFalse((self.directory / "new").exists())

    def test_a_stop_in_order(self) -> None:
        """Only then the next supervisor has no workers to wait for."""
        lock = self.directory / LOCK_FILE
        self.assertEqual(lock.read_text(), f"{os.getpid()}\n")
        self.ready()
        stopping = self.supervisor.stopService()
        self.assertNotEqual(lock.read_text(), "")
        self.supervisor._ended(102, 0)
        self.supervisor._ended(101, 0)
        self.successResultOf(stopping)
        self.assertEqual(lock.read_text(), "")

    def test_a_fork_server_that_ends(self) -> None:
        """It is started again: later if it ends again and again, or there cannot be another process."""
        started: list[float] = []

        def start(client: ForkClient) -> None:
            started.append(self.reactor.seconds())
            if len(started) == 2:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

        self.patch(ForkClient, "start", start)
        self.ready()
        self.supervisor._forks_lost()
        for expected in (FIRST_PAUSE, 3 * FIRST_PAUSE, 7 * FIRST_PAUSE):
            self.reactor.advance(expected - self.reactor.seconds())
            self.assertEqual(started[-1], expected)
            if len(started) == 1:
                self.supervisor._forks_lost()
        self.assertEqual(len(started), 3)
        self.reactor.advance(WELL_SECONDS)
        self.supervisor._forks_lost()
        self.reactor.advance(0)
        self.assertEqual(len(started), 4)

    def test_a_stop_without_a_fork_server(self) -> None:
        """It is not started any more."""
        self.ready()
        self.supervisor._forks_lost()
        stopped = self.supervisor.stopService()
        self.supervisor._ended(102, 0)
        self.supervisor._ended(101, 0)
        self.successResultOf(stopped)
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_a_signal_to_a_worker(self) -> None:
        """It stops, and is started again, as the others can take over what it leads."""
        self.ready()
        self.say(1, Kind.TERMINATED)
        self.reactor.advance(NOTICE_SECONDS)
        self.assertIn(("stop", ""), self.told(1))
        self.assertNotIn(("stop", ""), self.told(0))
        self.supervisor._ended(102, 0)
        self.reactor.advance(FIRST_PAUSE)
        self.assertEqual([plan.index for plan in self.plans], [0, 1, 1])

    def test_a_signal_to_all(self) -> None:
        """As service managers, shells and ``timeout`` send: the workers stop one after the other nevertheless."""
        self.ready()
        for index in (0, 1):
            self.say(index, Kind.TERMINATED)
        stopping = self.supervisor.stopService()
        self.reactor.advance(NOTICE_SECONDS)
        self.assertEqual([kind for kind, _ in self.told(1) if kind == "stop"], ["stop"])
        self.assertNotIn(("stop", ""), self.told(0))
        self.supervisor._ended(102, 0)
        self.assertEqual([kind for kind, _ in self.told(0) if kind == "stop"], ["stop"])
        self.supervisor._ended(101, 0)
        self.successResultOf(stopping)

    def test_a_worker_that_cannot_start(self) -> None:
        """Then nothing runs; its reason is the supervisor's."""
        self.say(1, Kind.FAILED, "the disk is broken")
        self.supervisor._ended(102, 1)
        failure = self.failureResultOf(self.started, WorkerFailed)
        self.assertEqual(str(failure.value), "the disk is broken")

    def test_a_reason_that_is_read_late(self) -> None:
        """It is behind much that the worker has logged, and its end is heard of before that is read."""
        self.supervisor._ended(102, 1)
        self.assertNoResult(self.started)
        self.say(1, Kind.FAILED, "the disk is broken")
        self.reactor.links[1].connectionLost()
        failure = self.failureResultOf(self.started, WorkerFailed)
        self.assertEqual(str(failure.value), "the disk is broken")

    def test_no_reason(self) -> None:
        """How a worker ended is said if it did not say why."""
        self.supervisor._ended(102, 1)
        self.reactor.advance(NOTICE_SECONDS)
        failure = self.failureResultOf(self.started, WorkerFailed)
        self.assertEqual(str(failure.value), "worker 1 ended with status 1 before it was ready")

    def test_a_worker_that_dies(self) -> None:
        """It is started again, sooner if it served well, later if it dies again and again."""
        self.ready()
        self.reactor.advance(WELL_SECONDS - PING_SECONDS)
        for link in (0, 1):
            self.say(link, Kind.PONG, "[]")
        self.reactor.advance(PING_SECONDS)
        self.supervisor._ended(101, -signal.SIGKILL)
        self.reactor.advance(0)
        self.assertEqual([plan.index for plan in self.plans], [0, 1, 0])
        pause = FIRST_PAUSE
        for count in range(4, 12):
            self.supervisor._ended(99 + count, 1)
            self.reactor.links[-1].connectionLost()
            self.reactor.advance(pause - 0.01)
            self.assertEqual(len(self.plans), count - 1)
            self.reactor.advance(0.01)
            self.assertEqual(len(self.plans), count)
            pause = min(2 * pause, LONGEST_PAUSE)

    def test_too_many_files(self) -> None:
        """A worker for whose link there are no descriptors is started when there are."""
        self.ready()
        pair, adopt = socket.socketpair, self.reactor.adoptStreamConnection

        def refuse(*_: Any) -> Any:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        self.patch(socket, "socketpair", refuse)
        self.supervisor._ended(102, -signal.SIGKILL)
        self.reactor.advance(FIRST_PAUSE)
        self.patch(socket, "socketpair", pair)
        self.reactor.adoptStreamConnection = refuse  # type: ignore[method-assign]
        self.reactor.advance(2 * FIRST_PAUSE)
        self.reactor.adoptStreamConnection = adopt  # type: ignore[method-assign]
        self.assertEqual(len(self.plans), 2)
        self.reactor.advance(4 * FIRST_PAUSE)
        self.assertEqual([plan.index for plan in self.plans], [0, 1, 1])
        self.assertEqual(len([each for each in self.errors() if "cannot be started" in each]), 2)
        self.reactor.advance(NOTICE_SECONDS)
        self.assertEqual(len(self.plans), 3)

    def test_a_link_that_ends(self) -> None:
        """Nobody says how the worker ended, but it has."""
        self.ready()
        self.reactor.links[0].connectionLost()
        self.reactor.advance(NOTICE_SECONDS)
        self.reactor.advance(FIRST_PAUSE)
        self.assertEqual([plan.index for plan in self.plans], [0, 1, 0])

    def test_a_worker_that_hangs(self) -> None:
        """It is killed; others answer, and are not."""
        self.ready()
        for _ in range(29):
            self.reactor.advance(PING_SECONDS)
            self.say(1, Kind.PONG, "[]")
        self.assertEqual(self.killed, [])
        self.reactor.advance(PING_SECONDS)
        self.assertEqual(self.killed, [101])

    def test_a_worker_that_is_forked_late(self) -> None:
        """The fork server took its time to start: the worker has all of its own to answer."""
        for worker in self.supervisor._workers:
            worker.pid = None
        for _ in range(60):
            self.reactor.advance(PING_SECONDS)
        for index in (0, 1):
            self.supervisor._forked(index, 200 + index)
        self.reactor.advance(PING_SECONDS)
        self.assertEqual(self.killed, [])

    def test_a_supervisor_that_stood_still(self) -> None:
        """Workers that could not be heard meanwhile are not killed for that."""
        self.ready()
        for _ in range(20):
            self.reactor.advance(60.0)
            self.answer()
        self.assertEqual(self.killed, [])

    def test_readiness(self) -> None:
        """Each worker is told why others are not ready."""
        self.say(0, Kind.READY)
        self.reactor.advance(PING_SECONDS)
        self.assertEqual(self.told(0)[-1], ("ping", '["worker 1: it is starting"]'))
        self.assertEqual(self.told(1)[-1], ("ping", "[]"))
        self.say(1, Kind.READY)
        self.say(1, Kind.PONG, '["a disk is full"]')
        self.reactor.advance(PING_SECONDS)
        self.assertEqual(self.told(0)[-1], ("ping", '["worker 1: a disk is full"]'))

    def test_log(self) -> None:
        """What a worker logs is in the supervisor's log, with the worker's name."""
        event = {"log_format": "it is {what}", "what": "late", "log_level": LogLevel.warn, "log_namespace": "logbus.x"}
        self.say(1, Kind.LOG, eventAsJSON({**event, "log_time": 7.0}))
        [found] = [each for each in self.events if each.get("what") == "late"]
        self.assertEqual((found["log_level"], found["log_system"]), (LogLevel.warn, "logbus.x#warn] [worker 1"))

    def test_metrics(self) -> None:
        """Those of the others are collected for the worker that is scraped; one that is late is left out."""
        self.ready()
        self.told(0)
        self.say(0, Kind.SCRAPED, "7")
        self.assertEqual(self.told(1)[-1], ("collect", "1"))
        self.say(1, Kind.COLLECTED, "1 [of worker 1]")
        self.say(1, Kind.COLLECTED, "1 [more]")
        self.say(1, Kind.COLLECTED, "1 ")
        told = ["7 1 [of worker 1]", "7 1 [more]", "7 1 ", "7"]
        self.assertEqual(self.told(0), [("others", text) for text in told])
        self.say(0, Kind.SCRAPED, "8")
        self.reactor.advance(COLLECT_SECONDS)
        self.assertEqual(self.told(0)[-1], ("others", "8"))
        self.say(1, Kind.COLLECTED, "2 []")
        self.say(1, Kind.COLLECTED, "2 ")
        self.assertEqual(self.told(0), [])
        self.assertEqual(len(self.supervisor._collections), 0)

    def test_two_scrapes_at_once(self) -> None:
        """Each gets what was collected for it."""
        self.ready()
        self.told(0), self.told(1)
        self.say(0, Kind.SCRAPED, "1")
        self.say(1, Kind.SCRAPED, "1")
        self.say(0, Kind.COLLECTED, "2 [of 0]")
        self.say(1, Kind.COLLECTED, "1 [of 1]")
        self.say(0, Kind.COLLECTED, "2 ")
        self.assertEqual(self.told(0), [("collect", "2"), ("others", "1 1 [of 1]")])
        self.assertEqual(
            self.told(1), [("collect", "1"), ("others", "1 0 [of 0]"), ("others", "1 0 "), ("others", "1")]
        )

    def test_stop(self) -> None:
        """One after the other, and then the store."""
        self.ready()
        self.told(0), self.told(1)
        store: Any = self.supervisor._store
        stopped = self.supervisor.stopService()
        self.assertEqual((self.told(0), self.told(1)), ([], [("stop", "")]))
        self.supervisor._ended(102, 0)
        self.assertEqual(self.told(0), [("stop", "")])
        self.assertFalse(store.closed)
        self.supervisor._ended(101, 0)
        self.successResultOf(stopped)
        self.assertTrue(store.closed)
        self.assertEqual(len(self.plans), 2)

    def test_a_worker_that_hangs_as_it_stops(self) -> None:
        """It is killed when it has not answered for long, and the others stop in order."""
        self.ready()
        stopped = self.supervisor.stopService()
        for _ in range(30):
            self.reactor.advance(PING_SECONDS)
            self.say(0, Kind.PONG, "[]")
        self.assertEqual(self.killed, [102])
        self.told(0)
        self.supervisor._ended(102, -signal.SIGKILL)
        self.assertEqual(self.told(0), [("stop", "")])
        self.supervisor._ended(101, 0)
        self.successResultOf(stopped)
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_stop_asked_for_over_http(self) -> None:
        """Any worker passes it on."""
        asked: list[bool] = []
        self.supervisor.stop_process = lambda: asked.append(True)
        self.say(1, Kind.STOP_ALL)
        self.assertEqual(asked, [True])

    def test_reload(self) -> None:
        """All workers read certificates again, and get what has changed, as those that are started later do."""
        before = [worker.plan.settings for worker in self.supervisor._workers]
        self.assertIn("log.dirs", before[0])
        changed = {"log.retention.ms": "5", "log.dirs": None}
        self.supervisor.hang_up(changed)
        told = [("hangup", json.dumps(changed))]
        self.assertEqual((self.told(0), self.told(1)), (told, told))
        for worker, settings in zip(self.supervisor._workers, before, strict=True):
            wanted = {**settings, "log.retention.ms": "5"}
            del wanted["log.dirs"]
            self.assertEqual(worker.plan.settings, wanted)

    def test_another_supervisor(self) -> None:
        """A directory has one."""
        other = self.make()
        failure = self.failureResultOf(other.startService(), ConfigError)
        self.assertIn("another supervisor", str(failure.value))

    def test_a_directory_that_cannot_be_created(self) -> None:
        """It is named, as a single broker does."""
        file = self.directory / "file"
        file.touch()
        failure = self.failureResultOf(self.make(file / "data").startService(), ConfigError)
        self.assertIn(f"the log directory {file / 'data'} cannot be created", str(failure.value))

    def test_the_store_fails(self) -> None:
        """Then nothing can go on."""
        self.ready()
        store: Any = self.supervisor._store
        for listener in store.listeners:
            listener(module.SessionState.CLOSED)
        [failure] = self.lost
        self.assertIn("the metadata store", str(failure.value))
