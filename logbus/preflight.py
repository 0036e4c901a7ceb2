"""
The checks before a broker starts: protocols, ports, directories, certificates.  Nothing is changed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path

from twisted.internet.endpoints import (
    SSL4ServerEndpoint,
    TCP4ServerEndpoint,
    TCP6ServerEndpoint,
    UNIXServerEndpoint,
    serverFromString,
)
from twisted.internet.error import CannotListenError
from twisted.internet.protocol import ServerFactory
from twisted.python.failure import Failure

from logbus.config import ConfigView, keys
from logbus.errors import ConfigError, short_reason
from logbus.extras import install_hint
from logbus.ilogbus import Listener
from logbus.listener_config import (
    check_inter_broker,
    http_login_config,
    inter_broker_listener,
    listener_sasl_config,
    require_kafka,
)
from logbus.metastore.embedded_store import FILE_NAME
from logbus.portability import CAN_SHARE_PORTS
from logbus.protocols import protocol_plugins
from logbus.socket_server import listener_tls, plugin_for
from logbus.storage.checkpoints import META_PROPERTIES, UNFINISHED_RESTORE, MetaProperties
from logbus.storage.delete_policy import delete_policy
from logbus.storage.filesystem.directory_lock import LOCK_FILE
from logbus.storage.log_snapshots import BACKUP, MANIFEST


def preflight(config: ConfigView, listeners: list[Listener], workers: int = 1) -> None:
    """
    Check whether the broker can start, without changing anything.

    :param workers: their number; several are brokers that connect to each other.
    :raise ConfigError: a protocol is unknown, a port is taken, a directory cannot be used or is another broker's, or
        the system has no workers.
    """
    if workers > 1 and not CAN_SHARE_PORTS:
        raise ConfigError(f"workers = {workers}: workers share a port as only Linux lets them; use 1 on this system")
    delete_policy(config.get(keys.LOG_DELETE_POLICY))
    plugins = protocol_plugins()
    among = None
    if config.get(keys.ZOOKEEPER_CONNECT) or workers > 1:
        check_inter_broker(listeners, config, "workers" if workers > 1 else "brokers")
        among = inter_broker_listener(listeners, config)
    with ExitStack() as held:
        probe = PortProbe(held)
        for listener in listeners:
            plugin_for(listener, plugins)
            try_listener(listener, probe)
            listener_sasl_config(config, listener)
            if listener.protocol == "admin":
                http_login_config(config, listener)
            if listener.has_tls:
                listener_tls(listener, between_brokers=listener == among).check(config)
    require_kafka(listeners)
    directories = [Path(directory) for directory in config.get(keys.LOG_DIRS)]
    check_apart(directories)
    for directory in directories:
        try_directory(directory, config.get(keys.BROKER_ID))
    if not config.get(keys.ZOOKEEPER_CONNECT):
        check_metadata(directories)


_CHECKED = (TCP4ServerEndpoint, TCP6ServerEndpoint, SSL4ServerEndpoint, UNIXServerEndpoint)
"""Endpoints that listen on a port or at a path."""
_ALL = frozenset({"", "0.0.0.0", "::"})
"""Interfaces that stand for all of a machine's."""


class PortProbe:
    """
    A reactor for endpoints that only binds ports, and holds them during the checks.

    :ivar bound: the interface and port of each.
    """

    def __init__(self, held: ExitStack) -> None:
        self._held = held
        self.bound: list[tuple[str, int]] = []

    def listenTCP(self, port: int, factory: object, backlog: int = 50, interface: str = "") -> None:
        """Bind the port as Twisted would."""
        family = socket.AF_INET6 if ":" in interface else socket.AF_INET
        probe = self._held.enter_context(socket.socket(family, socket.SOCK_STREAM))
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((interface, port))
            if port:
                # Bound sockets of a process may share an address; listening ones may not.
                probe.listen(0)
        except OSError as e:
            raise CannotListenError(interface, port, e) from e
        self.bound.append((interface, port))

    def listenSSL(
        self, port: int, factory: object, contextFactory: object, backlog: int = 50, interface: str = ""
    ) -> None:
        """Bind the port as Twisted would."""
        self.listenTCP(port, factory, backlog, interface)

    def listenUNIX(
        self, address: str | bytes, factory: object, backlog: int = 50, mode: int | None = 0o666, wantPID: bool = False
    ) -> None:
        """Check the directory of a socket, in which Twisted makes a lock beside it."""
        if os.fsdecode(address).startswith("\0"):
            return  # in no directory
        directory = Path(os.path.abspath(os.fsdecode(address))).parent
        reason = 0
        if not directory.is_dir():
            reason = errno.ENOTDIR if directory.exists() else errno.ENOENT
        elif not os.access(directory, os.W_OK | os.X_OK):
            reason = errno.EACCES
        if reason:
            raise CannotListenError("any", os.fsdecode(address), OSError(reason, os.strerror(reason), str(directory)))


def try_listener(listener: Listener, probe: PortProbe) -> None:
    """
    Check that a listener's endpoint is valid, and its port free, or the directory of its socket there.  Other endpoints
    are checked at the start.

    :raise ConfigError: the check failed.
    """
    try:
        endpoint = serverFromString(probe, listener.endpoint)
    except (ValueError, TypeError, KeyError, OSError) as e:
        raise ConfigError(
            f"listener {listener.name}: {listener.endpoint!r} is not a server endpoint such as "
            f"tcp:9092:interface=127.0.0.1 ({e})"
        ) from e
    except ImportError as e:
        raise ConfigError(
            f"listener {listener.name} ({listener.endpoint}): TLS needs a package that is not installed ({e}): "
            f"{install_hint('tls')}"
        ) from e
    except Exception as e:  # errors of a TLS library about a certificate
        raise ConfigError(f"listener {listener.name} ({listener.endpoint}): {e}") from e
    if isinstance(endpoint, _CHECKED):
        problems: list[Failure] = []
        endpoint.listen(ServerFactory()).addErrback(problems.append)
        for problem in problems:
            raise ConfigError(
                f"listener {listener.name} ({listener.endpoint}): {problem.value}{_remedy(problem.value, probe.bound)}"
            )


def _remedy(error: BaseException | None, bound: Collection[tuple[str, int]]) -> str:
    """
    Return what to do about a port that cannot be bound, as the end of a sentence.

    :param bound: the interfaces and ports of the listeners before this one.
    """
    reason = getattr(getattr(error, "socketError", None), "errno", None)
    if not isinstance(getattr(error, "port", None), int):
        return ""
    if reason == errno.EACCES:
        return " Choose a port from 1024, or give the process CAP_NET_BIND_SERVICE."
    if reason == errno.EADDRINUSE:
        interface, port = getattr(error, "interface", ""), getattr(error, "port", 0)
        if any(number == port and (where == interface or _ALL & {where, interface}) for where, number in bound):
            return " Another listener of this broker has that port: give each one of its own."
        return " Choose another port, or stop what listens there (ss -ltnp shows it)."
    return ""


def check_apart(directories: Sequence[Path]) -> None:
    """
    Check that no log directory is in another one, or the same by another name.

    :raise ConfigError: one is.
    """
    real = [(Path(os.path.realpath(directory)), directory) for directory in directories]
    for (one, first), (other, second) in combinations(real, 2):
        if one == other:
            raise ConfigError(f"log.dirs: {first} and {second} are the same directory, {one}: leave one of them out")
        for inner, outer, inner_name, outer_name in ((one, other, first, second), (other, one, second, first)):
            if outer in inner.parents:
                raise ConfigError(
                    f"log.dirs: {inner_name} is in {outer_name}, which is a log directory itself: choose directories "
                    "beside each other"
                )


def check_metadata(directories: Sequence[Path]) -> None:
    """
    Check that the first directory of a broker without ZooKeeper has the metadata, if any directory was used before.

    :raise ConfigError: it has none; a broker would begin new metadata, which know no topic.
    """
    if (directories[0] / FILE_NAME).exists():
        return
    used = [directory for directory in directories if (directory / META_PROPERTIES).exists()]
    if used:
        raise ConfigError(
            f"log.dirs: {directories[0]}, the first directory, has no {FILE_NAME}, but {used[0]} was used by a broker: "
            "is its disk mounted? Was another directory the first, or the metadata in ZooKeeper (zookeeper.connect)?"
        )


def try_directory(directory: Path, broker_id: int) -> None:
    """
    Check whether a log directory can be used, without writing.

    :raise ConfigError: it cannot be created or written, another process holds it, a backup was not restored to it as a
        whole, it is a backup itself, or another broker's.
    """
    existing = directory
    try:
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        is_directory = existing.is_dir()
    except OSError as e:
        raise ConfigError(
            f"log.dirs: {directory} cannot be used by this user (uid {os.geteuid()}): {short_reason(e)}"
        ) from e
    if not is_directory:
        raise ConfigError(f"log.dirs: {directory}: {existing} is not a directory")
    if not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        if os.statvfs(existing).f_flag & os.ST_RDONLY:
            raise ConfigError(f"log.dirs: {directory}: {existing} is on a file system that is mounted read-only")
        raise ConfigError(f"log.dirs: {directory}: {existing} is not writable by this user (uid {os.geteuid()})")
    try:
        with (directory / LOCK_FILE).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        pass  # a new directory
    except BlockingIOError:
        raise ConfigError(f"log.dirs: {directory} is in use by another broker (it holds {LOCK_FILE})") from None
    except OSError as e:
        raise ConfigError(f"log.dirs: {directory}/{LOCK_FILE}: {short_reason(e)}") from e
    if (directory / BACKUP).exists() or (directory / MANIFEST).exists():
        raise ConfigError(
            f"log.dirs: {directory} is a backup, which a broker would change: make a data directory of it (logbus "
            "restore), and start on that"
        )
    if (directory / UNFINISHED_RESTORE).exists():
        raise ConfigError(
            f"log.dirs: {directory}: a restore to it was not finished, logs are missing: remove the directory, and "
            "restore the backup again (logbus restore)"
        )
    try:
        meta = MetaProperties.decode((directory / META_PROPERTIES).read_bytes(), str(directory))
    except FileNotFoundError:
        return
    except OSError as e:
        raise ConfigError(f"log.dirs: {directory}/{META_PROPERTIES}: {short_reason(e)}") from e
    if meta.broker_id != broker_id:
        raise ConfigError(
            f"log.dirs: {directory} belongs to broker {meta.broker_id}, and this is broker {broker_id}: set broker.id "
            f"to {meta.broker_id}, or choose another directory"
        )
