"""
Runs a broker in the foreground, for ``logbus start``: what ``twistd -n --pidfile= logbus`` runs, by the same options.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from twisted.application.service import Application
from twisted.scripts._twistd_unix import ServerOptions, UnixApplicationRunner

from logbus import __version__
from logbus.config import keys
from logbus.ilogbus import Listener
from logbus.listener_config import ADMIN, KAFKA
from logbus.server_options import Options
from logbus.tap import ProcessRunner, makeService


class StartOptions(Options):
    """The options of ``twistd logbus``, by the name of the command."""

    def getSynopsis(self) -> str:
        """Return the first line of the help."""
        return "Usage: logbus start [options]"

    def opt_version(self) -> None:
        """Display the version of logbus and exit."""
        sys.stdout.write(f"logbus {__version__}\n")
        raise SystemExit(0)

    opt_h = Options.opt_help


class _TwistdOptions(ServerOptions):
    """The options of twistd, which looks for no plugins."""

    subCommands = ()


class _Runner(UnixApplicationRunner):
    """Runs one service as twistd does."""

    def __init__(self, config: _TwistdOptions, service: Any) -> None:
        super().__init__(config)
        self._service = service

    def createOrGetApplication(self) -> Any:
        application = Application("logbus")
        self._service.setServiceParent(application)
        return application


def run_foreground(arguments: Sequence[str]) -> int:
    """
    Run a broker until a signal stops it.

    :param arguments: the options of ``twistd logbus``.
    :return: the exit status.
    """
    options = StartOptions()
    options.parseOptions(arguments)
    service = makeService(options)
    assert isinstance(service, ProcessRunner)
    directories = service.config.get(keys.LOG_DIRS)
    if sys.stdout.isatty():
        greet(sys.stdout, service.listeners, directories)
    config = _TwistdOptions()
    config.parseOptions(["--nodaemon", "--pidfile=", "--no_save"])
    runner = _Runner(config, service)
    runner.run()
    # SIGTERM and Ctrl-C have stopped it in order.
    return 0 if runner._exitSignal in (None, signal.SIGTERM, signal.SIGINT) else 1


def greet(terminal: TextIO, listeners: Iterable[Listener], directories: Iterable[str]) -> None:
    """Tell whoever started the broker where to find it."""
    places = [("Kafka", at) for at in listeners if at.protocol == KAFKA]
    places += [("HTTP", at) for at in listeners if at.protocol == ADMIN]
    lines = [f"logbus {__version__}"]
    lines += [f"  {what:<6} {address(at)}" for what, at in places]
    lines += [f"  Data   {os.fsencode(Path(each).absolute()).decode(errors='replace')}" for each in directories]
    terminal.write("\n".join([*lines, "  Ctrl-C stops the broker.", ""]) + "\n")
    terminal.flush()


def address(listener: Listener) -> str:
    """Return an endpoint as its clients write it; one that is not TCP, as it is."""
    kind, _, rest = listener.endpoint.partition(":")
    if not kind.startswith(("tcp", "ssl")):
        return listener.endpoint
    port, _, options = rest.replace("\\:", "\0").partition(":")
    host = next((each[10:] for each in options.split(":") if each.startswith("interface=")), "").replace("\0", ":")
    where = f"[{host}]" if ":" in host else host or "*"
    text = f"{where}:{port}" if port != "0" else f"{where}, a free port: the log says which"
    scheme = "" if listener.protocol == KAFKA else "https://" if listener.has_tls else "http://"
    return f"{scheme}{text}"
