"""
The ``twistd logbus`` command: its options, and the service.

Errors in the configuration, the ports or the directories are reported before anything is changed: one line on standard
error, exit status 1; wrong options, with exit status 2.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, NoReturn

from twisted.application.service import IService, Service
from twisted.internet.defer import CancelledError
from twisted.logger import ILogObserver, Logger
from twisted.python import usage
from twisted.python.components import Componentized
from twisted.python.failure import Failure

from logbus.attrs_code import kept_attrs_code

# They declare attrs classes, too.
with kept_attrs_code():
    from logbus.compiled import IS_USED
    from logbus.config import ConfigView, keys
    from logbus.config.key_table import broker_key
    from logbus.config.properties import numbered_properties
    from logbus.errors import ConfigError, LogbusError
    from logbus.ilogbus import Listener
    from logbus.interpreter import InterpreterBuild, advice
    from logbus.listener_config import ADMIN, KAFKA, may_need_tls, resolve_listeners
    from logbus.log_levels import process_levels
    from logbus.log_output import LogOutput
    from logbus.metastore.connect_string import ConnectString
    from logbus.metastore.zookeeper_security import ZooKeeperSecurity
    from logbus.metastore.zookeeper_store import require_kazoo
    from logbus.net.garbage_collection import GarbageCollection, StartupCollection
    from logbus.net.reactor_choice import install_reactor
    from logbus.net.without_tls import import_without_tls
    from logbus.records.implementations import IS_COMPILED
    from logbus.sd_notify import ServiceManager
    from logbus.signals import ProcessSignals
    from logbus.wire.kafka_releases import DEFAULT_RELEASE, RELEASES
    from logbus.workers.left_over import refuse_left_over

if TYPE_CHECKING:
    from logbus.broker import Broker
    from logbus.workers.supervisor import Supervisor

_log = Logger(namespace="logbus")


class Options(usage.Options):
    """The options of ``twistd logbus``."""

    synopsis = "[options]"
    longdesc = (
        "Runs a Kafka-compatible broker. Without options: Kafka clients on 127.0.0.1:9092, HTTP on 127.0.0.1:8080, "
        "data in ./logbus-data. Every key of Kafka's server.properties that means something here can be given in a "
        "file (--config) or by itself (--set)."
    )
    optParameters = [
        ["config", "c", None, "A Kafka-style server.properties file."],
        ["data-dir", "d", None, "Where the data goes: short for log.dirs. [default: logbus-data]"],
        ["port", "p", None, "The port for Kafka clients: of the first of listeners. [default: 9092]"],
        ["admin-port", None, None, "The port for HTTP: of the first of admin.listeners. [default: 8080]"],
        ["broker-id", "b", None, "This broker's number: short for broker.id. [default: 0]"],
        ["zookeeper", "z", None, "Short for zookeeper.connect; without it the metadata is kept in the data directory."],
        [
            "workers",
            "w",
            None,
            "Processes that serve, a number or auto (a processor each): short for workers. [default: 1]",
        ],
        ["log-format", None, None, "text or json: short for logger.format. [default: text]"],
        ["log-file", None, None, "Short for logger.file. [default: standard output]"],
        [
            "as-version",
            None,
            None,
            f"Advertise only what this Kafka release has: {', '.join(RELEASES)}. [default: {DEFAULT_RELEASE}]",
        ],
    ]

    def __init__(self) -> None:
        super().__init__()
        self["set"] = []
        self["listen"] = []
        self["advertise"] = []

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse a command line; what is wrong with it is one line on standard error, and exit status 2."""
        try:
            super().parseOptions(options)
        except usage.UsageError as error:
            fail(usage_error(str(error), [name.rstrip("=") for name in self.longOpt]), status=2)

    def parseArgs(self, *arguments: str) -> None:
        """Refuse what is no option."""
        if arguments:
            raise usage.UsageError(f"{arguments[0]}: options begin with --, settings with --set")

    def getUsage(self, width: int | None = None) -> str:
        """Return the help, as wide as the terminal."""
        return super().getUsage(width or get_terminal_size().columns)

    def opt_set(self, setting: str) -> None:
        """KEY=VALUE: one configuration key; may be repeated, and wins over --config."""
        self["set"].append(setting)

    opt_s = opt_set

    def opt_listen(self, listener: str) -> None:
        """
        [NAME=]PROTOCOL:ENDPOINT: where to listen; may be repeated. PROTOCOL is kafka, admin or a plugin's; ENDPOINT a
        Twisted server endpoint. It replaces the listener of its name, or is one more.
        [default: kafka:tcp:9092:interface=127.0.0.1 and admin:tcp:8080:interface=127.0.0.1]
        """
        self["listen"].append(listener)

    opt_l = opt_listen

    def opt_cluster(self, zookeeper: str) -> None:
        """HOST:PORT/CHROOT: the ZooKeeper of the cluster that this broker joins; the same as --zookeeper."""
        self["zookeeper"] = zookeeper

    def opt_advertise(self, where: str) -> None:
        """NAME=HOST:PORT: the advertised address of the listener NAME; may be repeated."""
        self["advertise"].append(where)


def load(options: Options) -> tuple[ConfigView, list[Listener]]:
    """
    Load the configuration from the options and the file.

    :raise ConfigError: names what is wrong and what is accepted.
    """
    file, origins = read_file(options["config"]) if options["config"] else ({}, {})
    settings = dict(parse_set(text) for text in options["set"])
    origins |= dict.fromkeys(settings, "--set")
    for option, key in (
        ("data-dir", keys.LOG_DIRS),
        ("broker-id", keys.BROKER_ID),
        ("zookeeper", keys.ZOOKEEPER_CONNECT),
        ("workers", keys.WORKERS),
        ("log-format", keys.LOGGER_FORMAT),
        ("log-file", keys.LOGGER_FILE),
    ):
        if options[option] is not None:
            settings[key.name] = options[option]
            origins[key.name] = f"--{option}"
    config = ConfigView.load(file, settings, origins)
    zookeeper = config.get(keys.ZOOKEEPER_CONNECT)
    if zookeeper:
        ConnectString.parse(zookeeper)
        require_kazoo()
    try:
        ZooKeeperSecurity.of(config)
    except ConfigError as error:
        # Its message begins with the key.
        raise config.located(str(error).partition(":")[0].partition("=")[0].partition(" ")[0], error) from None
    ports = {
        protocol: parse_port(option, options[option])
        for protocol, option in ((KAFKA, "port"), (ADMIN, "admin-port"))
        if options[option] is not None
    }
    listeners = resolve_listeners(options["listen"], options["advertise"], config, ports)
    return config, listeners


def read_file(path: str) -> tuple[dict[str, str], dict[str, str]]:
    """
    Read a ``server.properties`` file.

    :return: the values by key, and where each is set, such as ``server.properties, line 3``.
    :raise ConfigError: it cannot be read.
    """
    values: dict[str, str] = {}
    origins: dict[str, str] = {}
    try:
        for number, key, value in numbered_properties(Path(path).read_text(encoding="utf-8")):
            values[key] = value
            origins[key] = f"{path}, line {number}"
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"--config {path}: cannot be read: {e}") from e
    except ConfigError as e:
        raise ConfigError(f"{path}, {e}") from None
    return values, origins


def parse_set(text: str) -> tuple[str, str]:
    """
    Parse the value of ``--set``: ``KEY=VALUE``.

    :raise ConfigError: it does not have this form.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {text}: expected KEY=VALUE, such as num.partitions=3")
    return key.strip(), value


def parse_port(option: str, text: str) -> int:
    """
    Parse the value of ``--port`` or ``--admin-port``.

    :raise ConfigError: it is no port.
    """
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 65535):
        raise ConfigError(f"--{option} {text}: expected a port from 1 to 65535, or 0 for any free one")
    return int(text)


def usage_error(error: str, names: Sequence[str]) -> str:
    """
    Return the line for an error of getopt.

    :param names: the long options that there are, of which it names the nearest.
    """
    unknown = re.fullmatch(r"option -(-?.*) not recognized", error, re.DOTALL)
    if unknown is None:
        return f"{error}; --help lists the options"
    import difflib  # needed only here

    near = difflib.get_close_matches(unknown[1].lstrip("-"), names, 1)
    return f"there is no option -{unknown[1]}; " + (f"did you mean --{near[0]}?" if near else "--help lists them")


def fail(message: object, status: int = 1) -> NoReturn:
    """Print one line on standard error, and exit with a status."""
    sys.stderr.write(f"logbus: {escaped_line(message)}\n")
    raise SystemExit(status)


def escaped_line(message: object) -> str:
    """Return a message as one line that leaves the terminal alone."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in str(message))


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
        from twisted.internet import reactor

        # Before any timer exists: a step of the wall clock must not affect timers.
        reactor.seconds = time.monotonic  # type: ignore[method-assign]
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
        self._tell(ServiceManager.ready)

    def _rotate_log(self) -> None:
        if self._log_output is not None:
            self._log_output.rotate()

    def _reload(self) -> None:
        self._tell(ServiceManager.reloading)
        if self._log_output is not None:
            self._log_output.reopen()
        self._hung_up(self._reload_config())
        self._tell(ServiceManager.ready)

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

    def _tell(self, what: Callable[[ServiceManager], None]) -> None:
        if self._manager is not None:
            what(self._manager)

    def stopService(self) -> Any:
        super().stopService()
        if self._signals is not None:
            self._signals.stopping()
        self._tell(ServiceManager.stopping)
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
        from twisted.internet import reactor

        # twistd cannot be given an exit status; this runs at the very end, after the pid file was removed.
        atexit.register(_exit_with_failure)
        assert self._signals is not None, "a service that is lost was started"
        if reactor.running:
            self._signals.stop()
        else:
            reactor.callWhenRunning(self._signals.stop)


class BrokerRunner(ProcessRunner):
    """Runs a broker in this process."""

    def _make(self, reactor: Any, stop: Callable[[], object]) -> Broker:
        from logbus.settings import raise_descriptor_limit

        raise_descriptor_limit()
        broker = self._broker(reactor)
        # This process runs only the broker, so the garbage collector may be tuned.
        garbage = broker.env.slice_scheduler.garbage = GarbageCollection(gc, reactor)
        broker.replication.replicas.added = garbage.replica_added
        for coordinator in (broker.coordinators.groups, broker.coordinators.transactions):
            coordinator.slices.garbage, coordinator.loaded = garbage, garbage.loaded
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

        count = config.get(keys.WORKERS) or len(os.sched_getaffinity(0))
        directories = config.get(keys.LOG_DIRS)
        if count > 1:
            wait_for_earlier_workers(directories, lambda line: print(f"logbus: {line}", file=sys.stderr))
        preflight(config, listeners)
        refuse_left_over(directories, count)
        if options["as-version"] is not None and options["as-version"] not in RELEASES:
            raise ConfigError(f"--as-version {options['as-version']}: expected one of {', '.join(RELEASES)}")
    except ConfigError as e:
        fail(e)
    if count > 1:
        return SupervisorRunner(options, config, listeners, count)
    return BrokerRunner(options, config, listeners)
