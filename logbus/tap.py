"""
The ``twistd logbus`` command: the service, and its process.

Errors in the configuration, the ports or the directories are reported before anything is changed: one line on standard
error, exit status 1; wrong options, with exit status 2.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twisted.application.service import IService, Service
from twisted.internet.defer import CancelledError
from twisted.logger import ILogObserver, Logger
from twisted.python.components import Componentized
from twisted.python.failure import Failure

from logbus.attrs_code import kept_attrs_code

# They declare attrs classes, too.
with kept_attrs_code():
    from logbus.compiled import IS_USED
    from logbus.config import ConfigView, keys
    from logbus.config.key_table import broker_key
    from logbus.errors import ConfigError, LogbusError
    from logbus.ilogbus import Listener
    from logbus.interpreter import InterpreterBuild, advice
    from logbus.listener_config import may_need_tls
    from logbus.log_levels import process_levels
    from logbus.log_output import LogOutput
    from logbus.net.garbage_collection import StartupCollection
    from logbus.net.reactor_choice import install_reactor, process_reactor
    from logbus.net.without_tls import import_without_tls
    from logbus.portability import CAN_SHARE_PORTS
    from logbus.processors import processors
    from logbus.records.implementations import IS_COMPILED
    from logbus.sd_notify import ServiceManager
    from logbus.server_options import Options, fail, load
    from logbus.signals import ProcessSignals
    from logbus.wire.kafka_releases import RELEASES
    from logbus.workers.left_over import refuse_left_over

if TYPE_CHECKING:
    from logbus.broker import Broker
    from logbus.workers.supervisor import Supervisor

_log = Logger(namespace="logbus")


def log_output(config: ConfigView, twistd: Mapping[str, Any]) -> LogOutput | None:
    """
    Return where the log goes; None: where an option of twistd has it go.

    :param twistd: the options of twistd: ``logfile``, ``logger``, ``syslog``, ``nodaemon``; empty: there is none.
    """
    if twistd.get("logger") or twistd.get("syslog"):
        return None
    path = config.get(keys.LOGGER_FILE) or twistd.get("logfile") or None
    if path is None and twistd and not twistd.get("nodaemon"):
        path = "twistd.log"
    if path == "-":
        if twistd and not twistd.get("nodaemon"):
            raise ConfigError("--logfile - is standard output, which a daemon does not have; use twistd -n")
        path = None
    return LogOutput(
        config.get(keys.LOGGER_FORMAT),
        process_levels,
        sys.stdout,
        None if path is None else Path(path),
        config.get(keys.LOGGER_FILE_MAX_BYTES),
        config.get(keys.LOGGER_FILE_BACKUPS),
    )


class ProcessRunner(Service):
    """
    Runs a service on the global reactor, and the reactor's process: signals, and exit status 1 if the service fails.
    """

    def __init__(self, options: Options, config: ConfigView, listeners: list[Listener]) -> None:
        self.config = config
        self.listeners = listeners
        self._options = options
        self._release = options["as-version"]
        self._log_output: LogOutput | None = None
        self._reactor: Any = None
        self._service: Any = None
        self._signals: ProcessSignals | None = None
        self._manager: ServiceManager | None = None
        self._collection = StartupCollection(gc)

    def _make(self, reactor: Any, stop: Callable[[], object]) -> Any:
        """
        Make the service, which may fail; its ``startService`` and ``stopService`` return Deferreds.

        :param stop: stops the process in order.
        """
        raise NotImplementedError

    def _hung_up(self, changed: Mapping[str, str | None]) -> None:
        """
        Read certificates again.

        :param changed: settings that were read again; None: those of the defaults.
        """
        raise NotImplementedError

    def setServiceParent(self, parent: Any) -> None:
        """Become the service of an application, whose log is opened then: twistd logs nothing before."""
        if isinstance(parent, Componentized):
            self._open_log(parent)
        super().setServiceParent(parent)

    def _open_log(self, application: Componentized) -> None:
        process_levels.configure(self.config.get(keys.LOGGER_LEVELS))
        try:
            self._log_output = log_output(self.config, getattr(self._options, "parent", None) or {})
            if self._log_output is not None:
                application.setComponent(ILogObserver, self._log_output.observer())
        except ConfigError as e:
            fail(e)

    def startService(self) -> None:
        super().startService()
        self._collection.begin()
        # Imported and built after twistd became a daemon: threads do not survive a fork.
        reactor = self._reactor = process_reactor()
        self._manager = ServiceManager.of_environment(reactor, os.environ, os.getpid())
        self._manager.starting()
        self._signals = signals = ProcessSignals(reactor)
        signals.hung_up = self._reload
        signals.rotate = self._rotate_log
        signals.install()
        for warning in self.config.warnings:
            _log.warn("{warning}", warning=warning)
        for line in advice(IS_COMPILED and IS_USED, InterpreterBuild.running()):
            _log.info("{line}", line=line)
        try:
            # Later, so that a request for the stop is answered.
            with kept_attrs_code():
                self._service = self._make(reactor, lambda: reactor.callLater(0, signals.stop))
        except LogbusError:
            self._lost(Failure())
            return
        self._service.startService().addCallbacks(self._serving, self._lost)

    def _serving(self, _: None) -> None:
        self._collection.freeze()
        self._tell_service_manager(ServiceManager.ready)

    def _rotate_log(self) -> None:
        if self._log_output is not None:
            self._log_output.rotate()

    def _reload(self) -> None:
        self._tell_service_manager(ServiceManager.reloading)
        if self._log_output is not None:
            self._log_output.reopen()
        self._hung_up(self._reload_config())
        self._tell_service_manager(ServiceManager.ready)

    def _reload_config(self) -> Mapping[str, str | None]:
        """Read the configuration again; return what has changed."""
        try:
            given = load(self._options)[0]
            process_levels.configure(given.get(keys.LOGGER_LEVELS))
            changed, later = self.config.reload(given.static)
        except ConfigError as e:
            _log.error("the configuration is left as it is: {reason}", reason=e)
            return {}
        except ExceptionGroup:
            _log.failure("the configuration was read again, but not all of it is in use")
            return {}
        for name, text in changed.items():
            _log.info("{name} is {text} now", name=name, text=shown_setting(name, text))
        if rest := [name for name in later if name != keys.LOGGER_LEVELS.name]:
            _log.warn("{names}: used after the next start", names=", ".join(rest))
        return changed

    def _tell_service_manager(self, what: Callable[[ServiceManager], None]) -> None:
        if self._manager is not None:
            what(self._manager)

    def stopService(self) -> Any:
        super().stopService()
        if self._signals is not None:
            self._signals.stopping()
        self._tell_service_manager(ServiceManager.stopping)
        return self._service.stopService() if self._service is not None else None

    def _lost(self, failure: Failure) -> None:
        if failure.check(CancelledError):
            return  # stopped while it was starting
        if failure.check(LogbusError):
            _log.critical("logbus: {reason}", reason=failure.value)
        else:
            _log.failure("logbus cannot go on", failure)
        if sys.__stderr__ is not None:
            # twistd redirects sys.stderr to the log, which has the error already: this line is for the terminal.
            sys.__stderr__.write(f"logbus: {failure.getErrorMessage()}\n")
        # twistd cannot be given an exit status; this runs at the very end, after the pid file was removed.
        atexit.register(_exit_with_failure)
        assert self._signals is not None, "a service that is lost was started"
        if self._reactor.running:
            self._signals.stop()
        else:
            self._reactor.callWhenRunning(self._signals.stop)


class BrokerRunner(ProcessRunner):
    """Runs a broker in this process."""

    def _make(self, reactor: Any, stop: Callable[[], object]) -> Broker:
        from logbus.broker.garbage_collection import delay_collections
        from logbus.settings import raise_descriptor_limit

        raise_descriptor_limit()
        broker = self._broker(reactor)
        delay_collections(broker)
        broker.when_lost(self._lost)
        broker.when_asked_to_stop(stop)
        return broker

    def _broker(self, reactor: Any) -> Broker:
        from logbus.broker import Broker

        return Broker(reactor, self.config, self.listeners, release=self._release)

    def _hung_up(self, changed: Mapping[str, str | None]) -> None:
        if self._service is not None and self._service.running:
            self._service.security.reload()


class SupervisorRunner(ProcessRunner):
    """Runs the supervisor of worker processes."""

    def __init__(self, options: Options, config: ConfigView, listeners: list[Listener], count: int) -> None:
        super().__init__(options, config, listeners)
        self._count = count

    def _make(self, reactor: Any, stop: Callable[[], object]) -> Supervisor:
        from logbus.workers.supervisor import Supervisor

        supervisor = Supervisor(reactor, self.config, self.listeners, self._count, self._release, time.time, self._lost)
        supervisor.stop_process = stop
        return supervisor

    def _hung_up(self, changed: Mapping[str, str | None]) -> None:
        if self._service is not None:
            self._service.hang_up(changed)


def shown_setting(name: str, text: str | None) -> str:
    """Return a setting's text for the log, which must not have secrets."""
    key = broker_key(name)
    if text is None:
        return "the default"
    return "another one" if key is None or key.sensitive else repr(text)


def _exit_with_failure() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


@kept_attrs_code()
def makeService(options: Options) -> IService:
    """Return the service that ``twistd`` runs."""
    try:
        config, listeners = load(options)
        if not may_need_tls(config, listeners):
            import_without_tls()
        install_reactor()
        from logbus.preflight import preflight  # imports Twisted's TCP
        from logbus.workers.earlier_workers import wait_for_earlier_workers

        count = config.get(keys.WORKERS) or (processors() if CAN_SHARE_PORTS else 1)
        directories = config.get(keys.LOG_DIRS)
        if count > 1:
            wait_for_earlier_workers(directories, lambda line: print(f"logbus: {line}", file=sys.stderr))
        preflight(config, listeners, count)
        refuse_left_over(directories, count)
        if options["as-version"] is not None and options["as-version"] not in RELEASES:
            raise ConfigError(f"--as-version {options['as-version']}: expected one of {', '.join(RELEASES)}")
    except ConfigError as e:
        fail(e)
    if count > 1:
        return SupervisorRunner(options, config, listeners, count)
    return BrokerRunner(options, config, listeners)
