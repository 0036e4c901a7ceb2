"""The process of ``logbus test-server``: starts, tells where it is, and ends in order."""

from __future__ import annotations

import gc
import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import define, field

from logbus import __version__
from logbus.attrs_code import kept_attrs_code
from logbus.config import ConfigView
from logbus.errors import ConfigError, LogbusError
from logbus.net.garbage_collection import StartupCollection
from logbus.net.reactor_choice import install_reactor
from logbus.net.without_tls import import_without_tls
from logbus.testing.placement import Placement
from logbus.testing.server.options import ServerOptions
from logbus.testing.server.port_file import PortFile

if TYPE_CHECKING:
    from twisted.python.failure import Failure

RESERVED_KEYS: Mapping[str, str] = {
    "broker.id": "brokers are numbered from 0",
    "listeners": "see --host and --port",
    "advertised.listeners": "see --advertise",
    "admin.listeners": "see --host and --admin-port",
    "log.dir": "the data is in a temporary directory",
    "log.dirs": "the data is in a temporary directory",
    "zookeeper.connect": "a cluster has its own",
}
"""Keys that the settings must not have, and why."""
FORMAT = 1


class StartFailed(LogbusError):
    """The server did not start."""


def run_server(options: ServerOptions) -> None:
    """
    Run a server until a signal, a request or the end of its parent ends it.

    :raise LogbusError: it did not start; the port file has the error, if it could be written.
    """
    port_file = None if options.port_file is None else PortFile(options.port_file)
    if port_file is not None:
        port_file.check()
    collection = StartupCollection(gc)
    collection.begin()
    try:
        _check(options)
        with kept_attrs_code():
            import_without_tls()
            install_reactor()
            from logbus.testing.server import brokers_under_test, control_site  # noqa: F401  # slow, and kept
    except LogbusError as e:
        _tell_failure(port_file, str(e))
        raise
    from twisted.internet import reactor

    _Server(options, port_file, reactor, collection).run()


def _check(options: ServerOptions) -> None:
    """
    Check the settings, before anything is started.

    :raise ConfigError: names the wrong one.
    """
    if options.brokers > 1 and options.placement != Placement():
        raise ConfigError("--host, --port, --admin-port and --advertise are for a single broker, not for --brokers")
    for name in sorted(RESERVED_KEYS.keys() & options.config.keys()):
        raise ConfigError(f"--set {name}: is not for a test server: {RESERVED_KEYS[name]}")
    ConfigView.load(set=options.config, origins=dict.fromkeys(options.config, "--set"))


def _tell_failure(port_file: PortFile | None, error: str) -> None:
    if port_file is not None:
        port_file.write({"format": FORMAT, "version": __version__, "pid": os.getpid(), "error": error})


@define(eq=False)
class _Server:
    """A server on the process's reactor."""

    options: ServerOptions
    port_file: PortFile | None
    reactor: Any
    collection: StartupCollection
    failure: str | None = field(default=None, init=False)
    control_url: str = field(default="", init=False)
    token: str = field(init=False)

    @token.default
    def _make_token(self) -> str:
        return self.options.token or secrets.token_urlsafe(24)

    def run(self) -> None:
        """
        Run the reactor until the server has ended.

        :raise StartFailed: it did not start.
        """
        from twisted.internet.defer import Deferred

        # Before any timer exists: a step of the wall clock must not affect timers.
        self.reactor.seconds = time.monotonic
        log = self._begin_log()
        ended: Deferred[str] = Deferred()

        def end(why: str) -> None:
            if not ended.called:
                ended.callback(why)

        def interrupt(number: int, frame: object) -> None:
            self.reactor.callFromThread(end, signal.Signals(number).name)

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, interrupt)

        def begin() -> None:
            done = Deferred.fromCoroutine(self._serve(ended, end))
            done.addErrback(self._failed).addBoth(lambda _: self.reactor.stop())

        self.reactor.callWhenRunning(begin)
        self.reactor.run(installSignalHandlers=False)
        if log is not None:
            log.close()
        if self.failure is not None:
            raise StartFailed(self.failure)

    async def _serve(self, ended: Any, end: Any) -> None:
        from logbus.testing.server.brokers_under_test import BrokersUnderTest
        from logbus.testing.server.control_site import ControlSite
        from logbus.testing.server.control_views import control_router
        from logbus.testing.server.parent_watch import ParentWatch
        from logbus.testing.server.server_routes import ControlledBrokers
        from logbus.testing.server.worker_thread import WorkerThread

        options = self.options
        watch = None if options.detached else ParentWatch(self.reactor, end)
        worker = WorkerThread(self.reactor)
        brokers = BrokersUnderTest(options)

        def described() -> dict[str, Any]:
            head = {"format": FORMAT, "version": __version__, "pid": os.getpid()}
            return {**head, **brokers.addresses(), "control_url": self.control_url}

        controlled = ControlledBrokers(brokers, worker)
        router = control_router(
            controlled, self.reactor, described, lambda: self.reactor.callLater(0, end, "a request")
        )
        site = ControlSite(self.reactor, time.time, self.token, router, any_host=options.placement.host != "127.0.0.1")
        if watch is not None:
            watch.start()
        try:
            port = self._listen(site)
            try:
                await worker.run(brokers.open)
                if not ended.called:
                    self._print_line({**described(), "token": self.token})
                self.collection.freeze()
                await ended
            finally:
                if self.port_file is not None:
                    self.port_file.remove()
                await port.stopListening()
                await site.drain()
        finally:
            if watch is not None:
                watch.stop()
            await worker.run(brokers.close)
            worker.stop()

    def _listen(self, site: Any) -> Any:
        from twisted.internet.error import CannotListenError

        options = self.options
        try:
            port = self.reactor.listenTCP(options.control_port, site, interface=options.placement.host)
        except CannotListenError as e:
            raise StartFailed(f"--control-port {options.control_port}: {e.socketError}") from e
        host = "127.0.0.1" if options.placement.host == "0.0.0.0" else options.placement.host
        self.control_url = f"http://{host}:{port.getHost().port}/api/v1"
        return port

    def _print_line(self, content: Mapping[str, Any]) -> None:
        if self.port_file is not None:
            self.port_file.write(content)
        else:
            sys.stdout.write(json.dumps(content) + "\n")
            sys.stdout.flush()

    def _failed(self, failure: Failure) -> None:
        from logbus.testing.server.brokers_under_test import in_one_line

        assert failure.value is not None
        self.failure = in_one_line(failure.value)
        try:
            _tell_failure(self.port_file, self.failure)
        except LogbusError:
            pass  # that the file cannot be written is the failure, or follows from it

    def _begin_log(self) -> Any:
        from twisted.logger import globalLogBeginner, textFileLogObserver

        log = None if self.options.log_file is None else self.options.log_file.open("a", encoding="utf-8", buffering=1)
        observers = [] if log is None else [textFileLogObserver(log)]
        globalLogBeginner.beginLoggingTo(observers, redirectStandardIO=False, discardBuffer=log is None)
        return log
