"""
A real ZooKeeper for tests: Debian's, one server or an ensemble, on free ports of this machine.

.. code-block:: python

    with ZooKeeper() as zookeeper:
        broker = Broker({"zookeeper.connect": zookeeper.connect})

Servers can be killed, frozen and started again, and sessions made to expire.  Nothing is left behind: the processes end
with this one, and their data is removed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Self

from attrs import define, field

from logbus.errors import LogbusError
from logbus.testing.closable import Closable
from logbus.testing.held_ports import HeldPorts

JAR = Path("/usr/share/java/zookeeper.jar")

#: Session timeouts that these servers accept, in seconds.
MIN_SESSION_SECONDS = 1.0
MAX_SESSION_SECONDS = 60.0

# Small, and quick to start.
_JAVA = (
    "-Xms64m",
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dzookeeper.jmx.log4j.disable=true",
)
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
# The jar names those that it needs without TLS.
_CLASS_PATH = ":".join([str(JAR), *(f"/usr/share/java/netty-{part}.jar" for part in ("codec", "resolver"))])
_CLOSE_SESSION = -11


class ZooKeeperFailed(LogbusError):
    """ZooKeeper cannot be run here, or did not start."""


@define(eq=False)
class _Server:
    """One server: its address, its directory, and its process while it runs; Ctrl-C can be kept from it."""

    host: str
    port: int
    directory: Path
    own_group: bool = False
    process: subprocess.Popen[bytes] | None = field(default=None)

    def start(self) -> None:
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                ["java", *_JAVA, "-cp", _CLASS_PATH, _MAIN, str(self.directory / "zoo.cfg")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                start_new_session=self.own_group,
            )

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def end(self, how: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(how)
            # One that is frozen takes notice of nothing but SIGKILL.
            process.send_signal(signal.SIGCONT)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def mode(self) -> str | None:
        """``standalone``, ``leader`` or ``follower``; None: it does not serve."""
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                said = b"".join(iter(lambda: connection.recv(65536), b""))
        except OSError:
            return None
        for line in said.decode("utf-8", "replace").splitlines():
            name, _, value = line.partition(": ")
            if name == "Mode":
                return value
        return None

    def last_words(self) -> str:
        lines = (self.directory / "log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-20:])


class ZooKeeper(Closable):
    """
    :param servers: how many; three are an ensemble that survives the loss of one.
    :param timeout: seconds to wait until they serve.
    :param home: where their data are, and stay, whatever happens to the machine; None: temporary, and quick.
    :param tls: key store and trust store, as PEM files: they serve TLS too, and ask clients for certificates.

    :ivar connect: what ``zookeeper.connect`` takes.  The addresses stay the same over a restart.
    :ivar tls_connect: the same with the ports of TLS; empty without it.
    """

    def __init__(
        self,
        servers: int = 1,
        *,
        timeout: float = 120.0,
        home: Path | None = None,
        tls: tuple[Path, Path] | None = None,
    ) -> None:
        self.timeout = timeout
        self._closed = False
        self._pid = os.getpid()
        self._temporary = home is None
        self._home = Path(tempfile.mkdtemp(prefix="logbus-zookeeper-")) if home is None else home
        self._held = HeldPorts()
        atexit.register(self.close)
        ports = [[self._held.free(_host(number)) for _ in range(3)] for number in range(1, servers + 1)]
        members = [
            f"server.{number}={_host(number)}:{peers}:{election}"
            for number, (_, peers, election) in enumerate(ports, 1)
        ]
        secure = [] if tls is None else [self._held.free(_host(number)) for number in range(1, servers + 1)]
        self._tls = tls
        self.tls_connect = ",".join(f"{_host(number)}:{port}" for number, port in enumerate(secure, 1))
        self._servers = [
            self._configure(number, client, members if servers > 1 else [], secure[number - 1] if secure else None)
            for number, (client, _, _) in enumerate(ports, 1)
        ]
        self.connect = ",".join(f"{server.host}:{server.port}" for server in self._servers)

    def start(self) -> Self:
        """
        Start the servers that do not run, and wait until all of them serve.

        :raise ZooKeeperFailed: Java or ZooKeeper is not installed, or a server did not come up; or it is closed.
        """
        self._require_open()
        self.require()
        for server in self._servers:
            if not server.runs:
                server.start()
        deadline = time.monotonic() + self.timeout
        for server in self._servers:
            while server.mode() is None:
                assert server.process is not None
                if server.process.poll() is not None or time.monotonic() > deadline:
                    words = server.last_words()
                    self.stop()
                    raise ZooKeeperFailed(f"ZooKeeper at {server.host}:{server.port} does not serve:\n{words}")
                time.sleep(0.05)
        return self

    @staticmethod
    def require() -> None:
        """
        Whether ZooKeeper can be run here.

        :raise ZooKeeperFailed: Java or ZooKeeper is not installed; says what to install.
        """
        if shutil.which("java") is None:
            raise ZooKeeperFailed("there is no java: apt-get install default-jre-headless")
        if not JAR.exists():
            raise ZooKeeperFailed(f"{JAR} is missing: apt-get install --no-install-recommends libzookeeper-java")

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each server."""
        return [(server.host, server.port) for server in self._servers]

    def stop(self, server: int | None = None) -> None:
        """End one server in order, or all; their data stays."""
        for one in self._chosen(server):
            one.end(signal.SIGTERM)

    def kill(self, server: int | None = None) -> None:
        """End one server, or all, as a crash does."""
        for one in self._chosen(server):
            one.end(signal.SIGKILL)

    def wait_ended(self) -> None:
        """Returns when no server runs, whoever ended them."""
        for server in self._servers:
            if (process := server.process) is not None:
                process.wait()

    def freeze(self, server: int | None = None) -> None:
        """Have one server, or all, answer nothing, with their connections open, until :meth:`thaw`."""
        self._require_open()
        for one in self._chosen(server):
            if one.process is not None:
                one.process.send_signal(signal.SIGSTOP)
                # Its threads run on for a moment.
                os.waitid(os.P_PID, one.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self, server: int | None = None) -> None:
        """End a :meth:`freeze`."""
        for one in self._chosen(server):
            if one.process is not None:
                one.process.send_signal(signal.SIGCONT)

    @property
    def leader(self) -> int:
        """
        Number of the server that leads the ensemble, from 0.

        :raise ZooKeeperFailed: none does.
        """
        deadline = time.monotonic() + self.timeout
        while True:
            for number, server in enumerate(self._servers):
                if server.process is not None and server.mode() in ("leader", "standalone"):
                    return number
            if time.monotonic() > deadline or not any(server.process for server in self._servers):
                raise ZooKeeperFailed("no server leads")
            time.sleep(0.05)

    def expire(self, session_id: int, password: bytes) -> None:
        """
        Expire a session, as after a timeout.

        :raise ZooKeeperFailed: there is no such session.
        """
        self._require_open()
        server = self._servers[self.leader]
        until = time.monotonic() + self.timeout
        tried = False
        while not (ended := self._close_session(server, session_id, password)):
            if ended is None and not tried:
                raise ZooKeeperFailed(f"there is no session {session_id:#x}")
            if ended is None:
                return
            if time.monotonic() > until:
                raise ZooKeeperFailed(f"session {session_id:#x} was taken back again and again")
            # Whose it is was quicker, and took it back before it was closed.
            tried = True

    def _close_session(self, server: _Server, session_id: int, password: bytes) -> bool | None:
        """Take a session over and close it: whether that went well, and None if there is no such session."""
        with closing(socket.create_connection((server.host, server.port), timeout=self.timeout)) as connection:
            connect = struct.pack(">iqiqi16s?", 0, 0, 10_000, session_id, len(password), password, False)
            try:
                # Both at once: whose session it is will be back soon to take it over again.
                connection.sendall(_framed(connect) + _framed(struct.pack(">ii", 1, _CLOSE_SESSION)))
                timeout_ms = struct.unpack_from(">i", _receive(connection), 4)[0]
                if timeout_ms <= 0:
                    return None
                _receive(connection)
            except (ZooKeeperFailed, ConnectionError):
                return False
        return True

    def close(self) -> None:
        """End all, and remove their data. A second time, and in a forked process, it does nothing."""
        if self._pid != os.getpid() or self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        if self._temporary:
            self.kill()
            shutil.rmtree(self._home, ignore_errors=True)
        else:
            self.stop()
        self._held.close()

    def _configure(self, number: int, port: int, members: list[str], secure_port: int | None) -> _Server:
        directory = self._home / str(number)
        directory.mkdir(parents=True, exist_ok=True)
        settings = {
            "dataDir": directory,
            "clientPort": port,
            "clientPortAddress": _host(number),
            "tickTime": 500,
            "initLimit": 20,
            "syncLimit": 10,
            "minSessionTimeout": int(MIN_SESSION_SECONDS * 1000),
            "maxSessionTimeout": int(MAX_SESSION_SECONDS * 1000),
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            # What tests leave behind is of no use to anybody when the machine fails.
            "forceSync": "no" if self._temporary else "yes",
            "autopurge.purgeInterval": "1",
        }
        if self._tls is not None:
            key_store, trust_store = self._tls
            settings |= {
                "secureClientPort": secure_port,
                "secureClientPortAddress": _host(number),
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
                "ssl.keyStore.location": key_store,
                "ssl.trustStore.location": trust_store,
                "ssl.clientAuth": "want",
            }
        lines = [f"{name}={value}" for name, value in settings.items()]
        (directory / "zoo.cfg").write_text("\n".join([*lines, *members, ""]))
        (directory / "myid").write_text(f"{number}\n")
        return _Server(_host(number), port, directory, own_group=not self._temporary)

    def _chosen(self, server: int | None) -> list[_Server]:
        if server is None:
            return self._servers
        if not isinstance(server, int) or not 0 <= server < len(self._servers):
            raise ZooKeeperFailed(f"there is no server {server!r}; they are 0 to {len(self._servers) - 1}")
        return [self._servers[server]]

    def _require_open(self) -> None:
        if self._closed:
            raise ZooKeeperFailed("ZooKeeper is closed, and gave up its ports and data; make another one")


def _host(number: int) -> str:
    """An address for each server: one can be cut off from the others."""
    return f"127.0.7.{number}" if os.uname().sysname == "Linux" else "127.0.0.1"


def _framed(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


def _receive(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            raise ZooKeeperFailed("ZooKeeper hung up")
        found += more
    return found
