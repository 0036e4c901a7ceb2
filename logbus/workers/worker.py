"""
A worker's process: an ordinary broker, whose log lines, start and end are the supervisor's.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import CancelledError, Deferred, maybeDeferred, succeed
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.logger import LogEvent, Logger, PredicateResult, eventAsJSON, globalLogBeginner
from twisted.python.failure import Failure

from logbus.errors import ConfigError, LogbusError
from logbus.log_levels import process_levels
from logbus.metrics import Family
from logbus.workers.worker_link import LONGEST_EVENT, Kind, WorkerLink, adopt
from logbus.workers.worker_metrics import merge_families
from logbus.workers.worker_plan import WorkerPlan, with_changes
from logbus.workers.worker_scrapes import WorkerScrapes

if TYPE_CHECKING:
    from logbus.broker import Broker
    from logbus.config import ConfigView
    from logbus.metastore.local_store import LocalStore

_log = Logger(namespace="logbus.workers")

_LAST_WORDS = 5.0
"""Seconds for what a worker has said to be sent at its end."""


class Worker:
    """
    A broker that a supervisor started.

    :ivar status: the exit status of the process.
    """

    def __init__(self, reactor: Any, plan: WorkerPlan, descriptor: int) -> None:
        self.status = 0
        self._reactor = reactor
        self._plan = plan
        self._broker: Any = None
        self._store: LocalStore | None = None
        self._stopping = False
        self._terminated = False
        self._link = WorkerLink(self._told, self._orphaned)
        self._scrapes = WorkerScrapes(reactor, self._link.tell, self._families)
        with socket.socket(fileno=descriptor) as end:
            adopt(reactor, end.fileno(), end.family, self._link)
        observer: Any = self._tell_event
        globalLogBeginner.beginLoggingTo([observer], discardBuffer=True, redirectStandardIO=False)

    def start(self) -> None:
        """Start the broker."""
        # What a terminal sends to all processes; the supervisor says when to stop.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._reactor.addSystemEventTrigger("before", "shutdown", self._stopped)
        signal.signal(signal.SIGTERM, lambda *_: self._reactor.callFromThread(self.terminated))
        maybeDeferred(self._build).addCallbacks(self._serving, self._failed)

    def _build(self) -> Deferred[None]:
        from logbus.broker.garbage_collection import delay_collections
        from logbus.config import ConfigView, keys
        from logbus.metastore.local_store import LocalStore
        from logbus.settings import raise_descriptor_limit

        raise_descriptor_limit()
        plan = self._plan
        config = ConfigView.load(set=plan.settings)
        process_levels.configure(config.get(keys.LOGGER_LEVELS))
        if plan.socket is not None:
            seconds = config.get(keys.ZOOKEEPER_SESSION_TIMEOUT_MS) / 1000
            self._store = LocalStore.at(plan.socket, self._reactor, seconds)
        broker = self._broker_of(config, release=plan.release, store=self._store, siblings=plan.siblings)
        delay_collections(broker)
        broker.when_lost(self._failed)
        broker.combine_metrics(self._combine)
        broker.when_asked_to_stop(lambda: self._link.tell(Kind.STOP_ALL))
        self._broker = broker
        started: Deferred[None] = broker.startService()
        return started

    def _broker_of(self, config: ConfigView, **options: Any) -> Broker:
        from logbus.broker import Broker

        return Broker(self._reactor, config, self._plan.listeners, **options)

    def _serving(self, _: None) -> None:
        gc.collect()
        gc.freeze()
        self._link.tell(Kind.READY)

    def _told(self, kind: Kind, text: str) -> None:
        if kind is Kind.PING:
            readiness = None if self._broker is None else self._broker.readiness
            if readiness is not None:
                readiness.elsewhere = json.loads(text)
            self._link.tell(Kind.PONG, json.dumps([] if readiness is None else readiness.here()))
        elif kind is Kind.COLLECT:
            self._scrapes.collect(text)
        elif kind is Kind.OTHERS:
            self._scrapes.came(text)
        elif kind is Kind.STOP:
            self.stop()
        elif kind is Kind.HANGUP and self._broker is not None and self._broker.running:
            self._reload(self._broker, json.loads(text))

    def _reload(self, broker: Broker, changed: dict[str, str | None]) -> None:
        config = broker.config
        try:
            config.reload(with_changes(config.static, changed))
        except (ConfigError, ExceptionGroup):
            _log.failure("the configuration was read again, but not all of it is in use")
        broker.security.reload()

    def terminated(self) -> None:
        """
        A signal said to stop. The supervisor may have had it, too, and then says which worker's turn it is: workers
        that stop at the same time have nobody to whom they could hand over. A second signal does not wait for it.
        """
        if self._terminated:
            self.stop()
        self._terminated = True
        self._link.tell(Kind.TERMINATED)

    def stop(self) -> None:
        """Stop in order."""
        if not self._stopping:
            self._stopping = True
            self._reactor.stop()

    def _stopped(self) -> Any:
        stopping = succeed(None) if self._broker is None else maybeDeferred(self._broker.stopService)
        stopping.addErrback(lambda failure: _log.failure("the broker did not stop in order", failure))
        # The supervisor is to hear all of it, the reason of a failure above all; but it may stand still.
        stopping.addCallback(lambda _: self._link.end().addTimeout(_LAST_WORDS, self._reactor))
        return stopping.addErrback(lambda failure: failure.trap(DeferredTimeout))

    def _orphaned(self) -> None:
        if not self._stopping:
            # Whoever read standard error may be gone as well.
            with suppress(OSError):
                os.write(2, f"logbus: worker {self._plan.index} stops, as its supervisor is gone\n".encode())
            if self._store is not None:
                # It is gone, too: nothing waits for it, and nobody can take leaderships over.
                self._store.abandon()
            self.stop()

    def _failed(self, failure: Failure) -> None:
        if failure.check(CancelledError):
            return  # stopped while it was starting
        if not failure.check(LogbusError):
            _log.failure("the worker cannot go on", failure)
        self._link.tell(Kind.FAILED, failure.getErrorMessage())
        self.status = 1
        self.stop()

    def _tell_event(self, event: LogEvent) -> None:
        if event.get("log_namespace", "").startswith("logbus.workers.link"):
            return
        if process_levels(event) is PredicateResult.no:
            return
        text = eventAsJSON(event)
        if len(text) <= LONGEST_EVENT:
            self._link.tell(Kind.LOG, text)

    # Metrics of all workers.

    def _combine(self, families: Iterable[Family]) -> Deferred[Iterable[Family]]:
        """Have the others' collected; what they do not say in time is missing."""

        def merge(others: dict[int, Iterable[Family]]) -> Iterable[Family]:
            return merge_families(dict(sorted({**others, self._plan.index: families}.items())))

        return self._scrapes.others().addCallback(merge)

    def _families(self) -> Iterable[Family] | None:
        """Return the metrics of this worker; only while it serves: they change then."""
        return self._broker.metric_families() if self._broker is not None and self._broker.running else None
