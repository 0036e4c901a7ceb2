"""
Starts, watches and restarts the workers of a machine, and stops them in order.

A worker that ends is started again, as is the fork server (:mod:`.restart_backoff` says when). A worker that does not
answer for ``workers.answer.timeout.ms`` is killed first. If a worker cannot start at all when the machine starts,
nothing runs, as with a broker that cannot start.

The metadata store is here, so that it outlives workers, unless there is ZooKeeper.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from attrs import define, evolve, field
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger, eventFromJSON, globalLogPublisher
from twisted.python.failure import Failure

from logbus.config import ConfigView, keys
from logbus.coroutines import returns_deferred
from logbus.errors import ConfigError, LogbusError, short_reason
from logbus.ilogbus import Listener
from logbus.listener_config import KAFKA, may_need_tls
from logbus.log_levels import WORKER
from logbus.metastore.embedded_store import FILE_NAME, EmbeddedStore
from logbus.metastore.operations import SessionState
from logbus.metastore.store_server import StoreServer
from logbus.workers.collection import Collections
from logbus.workers.earlier_workers import LOCK_FILE
from logbus.workers.fork_client import ForkClient
from logbus.workers.port_reservation import PortReservation
from logbus.workers.restart_backoff import RestartBackoff
from logbus.workers.worker_link import Kind, WorkerLink, adopt
from logbus.workers.worker_plan import WorkerPlan, address, at_port, own_ports, plan_workers, with_changes

PING_SECONDS = 1.0
NOTICE_SECONDS = 0.5
"""
A worker's end is noticed twice, by its link and by the fork server: how long to wait for the other notice. Likewise a
signal to a worker may be for all processes: how long to wait for this process's own.
"""
FORKS_PATIENCE = 30.0
"""Seconds without an answer after which the fork server is killed, at least: its imports take a while."""

SOCKET = "metadata.sock"


class WorkerFailed(LogbusError):
    """A worker could not start, or the metadata store failed."""


@define(eq=False)
class _Worker:
    plan: WorkerPlan
    restarts: RestartBackoff
    link: WorkerLink | None = None
    pid: int | None = None
    ready: bool = False
    reasons: list[str] = field(factory=list)
    why: str = ""
    how: str = ""
    unanswered: int = 0
    silent: float = 0.0
    gone: Deferred[None] | None = None

    @property
    def name(self) -> str:
        return f"worker {self.plan.index}"

    @property
    def not_ready(self) -> list[str]:
        """The reasons why clients should not use it."""
        reasons = self.reasons if self.ready and self.link is not None else ["it is starting"]
        return [f"{self.name}: {reason}" for reason in reasons]


@define(eq=False)
class Supervisor(Service):
    """
    The workers of this machine.

    :param listeners: those of the machine.
    :param count: how many workers.
    :param release: advertise this Kafka release's versions; None: the default table.
    :param lost: called when it cannot go on.
    :ivar stop_process: stops the process in order; asked for over HTTP.
    """

    _reactor: Any
    _config: ConfigView
    _listeners: Sequence[Listener]
    _count: int
    _release: str | None
    _wall_clock: Callable[[], float]
    _lost: Callable[[Failure], object]
    stop_process: Callable[[], object] = lambda: None
    running: bool = field(default=False, init=False)
    _workers: list[_Worker] = field(factory=list, init=False)
    _ports: PortReservation = field(factory=PortReservation, init=False)
    _store: EmbeddedStore | None = field(default=None, init=False)
    _server: StoreServer | None = field(default=None, init=False)
    _lock: Any = field(default=None, init=False)
    _forks: ForkClient = field(init=False)
    _fork_restarts: RestartBackoff = field(init=False)
    _pings: LoopingCall = field(init=False)
    _pinged_at: float = field(default=0.0, init=False)
    _collections: Collections = field(init=False)
    _started: Deferred[None] | None = field(default=None, init=False)
    _log = Logger(namespace="logbus.workers")

    def __attrs_post_init__(self) -> None:
        tls = may_need_tls(self._config, self._listeners)
        self._forks = ForkClient(self._reactor, self._forked, self._ended, self._forks_lost, tls)
        self._fork_restarts = RestartBackoff(self._reactor)
        self._collections = Collections(self._reactor)
        self._pings = LoopingCall(self._ping)
        self._pings.clock = self._reactor

    @returns_deferred
    async def startService(self) -> None:
        """
        Start all workers; fires when all serve.

        :raise ConfigError: a port is taken, or a directory is in use, cannot be created, or has partitions of a worker
            that there is not.
        :raise WorkerFailed: a worker could not start.
        """
        Service.startService(self)
        self._forks.start()
        self._fork_restarts.started()
        directories = [Path(each) for each in self._config.get(keys.LOG_DIRS)]
        # Ports first: if one is taken, no directory is made.
        listeners = self._reserve()
        first_port = self._config.get(keys.WORKERS_FIRST_PORT)
        own = {
            name: [self._ports.reserve(self._interface(name), port) for port in ports]
            for name, ports in own_ports(self._listeners, self._count, first_port).items()
        }
        try:
            directories[0].mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"the log directory {directories[0]} cannot be created: {short_reason(error)}") from error
        self._take_lock(directories[0])
        path = None
        if not self._config.get(keys.ZOOKEEPER_CONNECT):
            path = str(await self._open_store(directories[0]))
        self._workers = [
            _Worker(plan, RestartBackoff(self._reactor))
            for plan in plan_workers(
                self._config,
                listeners,
                self._count,
                own,
                host_name=socket.gethostname(),
                socket=path,
                release=self._release,
            )
        ]
        self._started = Deferred()
        for worker in self._workers:
            self._launch(worker)
        self._pinged_at = self._reactor.seconds()
        self._pings.start(PING_SECONDS, now=False)
        await self._started
        first = self._config.get(keys.BROKER_ID)
        shown = " ".join(f"{each.name}={self._shown(each)}" for each in listeners)
        self._log.info(
            "logbus brokers {first} to {last} ready: {listeners}",
            first=first,
            last=first + self._count - 1,
            listeners=shown,
        )

    @returns_deferred
    async def stopService(self) -> None:
        """Stop the workers, one after the other, as the rest take over what they can; then what they need."""
        Service.stopService(self)
        self._collections.end()
        for worker in self._workers:
            worker.restarts.cancel()
        self._fork_restarts.cancel()
        for worker in reversed(self._workers):
            if worker.link is not None:
                worker.gone = Deferred()
                worker.link.tell(Kind.STOP)
                # One that stands still is killed, as at any other time: the pings go on.
                await worker.gone
        if self._pings.running:
            self._pings.stop()
        self._forks.stop()
        if self._server is not None:
            await self._server.stop()
        if self._store is not None:
            await self._store.close()
        self._ports.release()
        if self._lock is not None:
            self._lock.truncate(0)
            self._lock.close()

    def hang_up(self, changed: Mapping[str, str | None]) -> None:
        """
        Have all workers read certificates again.

        :param changed: the settings that have changed; None: a setting has its default again.
        """
        for worker in self._workers:
            worker.plan = evolve(worker.plan, settings=with_changes(worker.plan.settings, changed))
            if worker.link is not None:
                worker.link.tell(Kind.HANGUP, json.dumps(changed))

    # The start.

    def _take_lock(self, directory: Path) -> None:
        lock = (directory / LOCK_FILE).open("a+b", buffering=0)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise ConfigError(f"log.dirs: {directory} is in use by another supervisor (it holds {LOCK_FILE})") from None
        self._lock = lock
        # It has content until all workers have ended in order: the next supervisor can tell.
        lock.truncate(0)
        lock.write(b"%d\n" % os.getpid())

    def _reserve(self) -> list[Listener]:
        """The listeners, with the ports that workers share."""
        return [at_port(each, self._ports.reserve(*address(each))) for each in self._listeners]

    def _interface(self, listener: str) -> str:
        return next(address(each)[0] for each in self._listeners if each.name == listener and each.protocol == KAFKA)

    def _shown(self, listener: Listener) -> str:
        interface, port = address(listener)
        host = interface or socket.gethostname()
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def _open_store(self, directory: Path) -> Path:
        store = EmbeddedStore(directory / FILE_NAME, self._reactor, self._wall_clock)
        await store.open()
        self._store = store
        store.subscribe(self._store_changed)
        self._server = StoreServer(store, directory / SOCKET, self._reactor)
        self._server.start()
        return directory / SOCKET

    def _store_changed(self, state: SessionState) -> None:
        if state is SessionState.CLOSED and self.running:
            self._fail(f"the metadata store {self._store and self._store.path} failed; all workers must stop")

    # A worker's life.

    def _launch(self, worker: _Worker) -> None:
        ours, theirs = socket.socketpair()
        link = WorkerLink(lambda kind, text: self._told(worker, kind, text), lambda: self._link_lost(worker, link))
        worker.link, worker.ready, worker.pid, worker.why, worker.reasons = link, False, None, "", []
        worker.unanswered = 0
        worker.silent = 0.0
        worker.restarts.started()
        try:
            with ours:
                adopt(self._reactor, ours.fileno(), ours.family, link)
        except OSError:
            worker.link = None
            theirs.close()
            raise
        self._forks.fork(worker.plan, theirs)

    def _forked(self, index: int, pid: int) -> None:
        worker = self._workers[index]
        # It was not silent while the fork server itself was started.
        worker.pid, worker.silent = pid, 0.0

    def _told(self, worker: _Worker, kind: Kind, text: str) -> None:
        worker.silent = 0.0
        if kind is Kind.LOG:
            event = eventFromJSON(text)
            level = getattr(event.get("log_level"), "name", "info")
            event["log_system"] = f"{event.get('log_namespace', '-')}#{level}] [{worker.name}"
            event[WORKER] = worker.name
            globalLogPublisher(event)
        elif kind is Kind.READY:
            worker.ready, worker.reasons = True, []
            self._share_readiness()
        elif kind is Kind.PONG:
            worker.reasons = json.loads(text)
            worker.unanswered -= 1
            if self._started is not None and all(each.ready and not each.unanswered for each in self._workers):
                # Each knows that all are ready.
                started, self._started = self._started, None
                started.callback(None)
        elif kind is Kind.SCRAPED:
            if worker.link is not None:
                others = [each for each in self._workers if each is not worker and each.ready]
                links = {each.plan.index: each.link.tell for each in others if each.link is not None}
                self._collections.begin(text, worker.link.tell, links)
        elif kind is Kind.COLLECTED:
            self._collections.take(worker.plan.index, text)
        elif kind is Kind.FAILED:
            worker.why = text
        elif kind is Kind.STOP_ALL:
            self.stop_process()
        elif kind is Kind.TERMINATED:
            self._reactor.callLater(NOTICE_SECONDS, self._stop_alone, worker, worker.link)

    def _ended(self, pid: int, status: int) -> None:
        for worker in self._workers:
            if worker.pid == pid:
                how = f"by signal {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
                if status > 0 and not worker.why and worker.link is not None:
                    # It has sent the reason, behind its log events, which are not all read yet.
                    worker.pid, worker.how = None, how
                    self._give_notice(worker, worker.link)
                else:
                    self._gone(worker, how)

    def _link_lost(self, worker: _Worker, link: WorkerLink) -> None:
        """The worker has ended; the fork server usually reports how."""
        if worker.link is link and worker.how:
            self._gone(worker, worker.how)
        else:
            self._give_notice(worker, link)

    def _give_notice(self, worker: _Worker, link: WorkerLink) -> None:
        def go_on() -> None:
            if worker.link is link:
                self._gone(worker, worker.how or "somehow")

        self._reactor.callLater(NOTICE_SECONDS, go_on)

    def _stop_alone(self, worker: _Worker, link: WorkerLink) -> None:
        """Stop a worker that got a signal, unless all workers are being stopped, one after the other."""
        if self.running and worker.link is link:
            link.tell(Kind.STOP)

    def _gone(self, worker: _Worker, how: str) -> None:
        worker.link, worker.pid, worker.how = None, None, ""
        if worker.gone is not None:
            worker.gone.callback(None)
        if not self.running:
            return
        self._share_readiness()
        why = f": {worker.why}" if worker.why else ""
        if self._started is not None:
            started, self._started = self._started, None
            started.errback(WorkerFailed(worker.why or f"{worker.name} ended {how} before it was ready"))
            return
        pause = worker.restarts.ended(partial(self._restart, worker), was_ready=worker.ready)
        self._log.error(
            "{worker} ended {how}{why}; it is started again in {pause:g} s",
            worker=worker.name,
            how=how,
            why=why,
            pause=pause,
        )

    def _restart(self, worker: _Worker) -> None:
        try:
            self._launch(worker)
        except OSError as error:
            pause = worker.restarts.ended(partial(self._restart, worker), was_ready=False)
            self._log.error(
                "{worker} cannot be started: {error}; this is tried again in {pause:g} s",
                worker=worker.name,
                error=short_reason(error),
                pause=pause,
            )

    def _forks_lost(self) -> None:
        if self.running:
            self._fork_restarts.ended(self._restart_forks)

    def _restart_forks(self) -> None:
        self._fork_restarts.started()
        try:
            self._forks.start()
        except OSError as error:
            self._log.error("the process that starts workers cannot be started: {error}", error=short_reason(error))
            self._forks_lost()

    def _ping(self) -> None:
        # Time in which this process itself stood still, stopped or with its machine, was no chance to answer.
        passed, self._pinged_at = self._reactor.seconds() - self._pinged_at, self._reactor.seconds()
        patience = self._config.get(keys.WORKERS_ANSWER_TIMEOUT_MS) / 1000
        self._forks.ping(min(passed, 2 * PING_SECONDS), max(patience, FORKS_PATIENCE))
        for worker in self._workers:
            worker.silent += min(passed, 2 * PING_SECONDS)
            if worker.link is not None and worker.pid is not None and worker.silent >= patience:
                self._log.error(
                    "{worker} (process {pid}) has not answered for {seconds:g} s: it is killed",
                    worker=worker.name,
                    pid=worker.pid,
                    seconds=patience,
                )
                worker.silent = 0.0
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGKILL)
        self._share_readiness()

    def _share_readiness(self) -> None:
        """Tell each worker why clients should not use the others; during a stop, the others do not count."""
        for worker in self._workers:
            if worker.link is not None:
                rest = [each for each in self._workers if each is not worker] if self.running else []
                others = [reason for each in rest for reason in each.not_ready]
                worker.unanswered += 1
                worker.link.tell(Kind.PING, json.dumps(others))

    def _fail(self, why: str) -> None:
        self._lost(Failure(WorkerFailed(why)))
