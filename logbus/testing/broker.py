"""
A real broker for tests, in this process or in one of its own.

.. code-block:: python

    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})

In-process (the default) the broker runs on a private reactor in a thread of its own, ready in a few milliseconds, and
whatever reactor the test uses is left alone.  As a subprocess it can be killed, as a machine that loses power would
kill it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, Self

from logbus.client.validators import names_options
from logbus.testing.arguments import broker_arguments, not_placed, settings_of
from logbus.testing.broker_process import BrokerProcess
from logbus.testing.broker_thread import BrokerThread
from logbus.testing.closable import Closable
from logbus.testing.controlled import Controlled
from logbus.testing.errors import OF_ITS_OWN, BrokerFailed, is_closed
from logbus.testing.held_ports import HeldPorts
from logbus.testing.inspected import Inspected
from logbus.testing.logged import Logged, LogSource
from logbus.testing.placement import Placement
from logbus.testing.reactor_thread import ReactorThread
from logbus.testing.settings import Setting, as_texts
from logbus.testing.snapshots import Snapshot
from logbus.testing.temporary import remove_temporary, temporary_directory

__all__ = ["TEST_CONFIG", "Broker", "BrokerFailed"]

#: Settings of a broker for tests that differ from the defaults; the test's own settings override them.
TEST_CONFIG: Mapping[str, str] = {
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "log.flush.before.ack": "false",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "workers.first.port": "0",
}


class BrokerRunner(LogSource, Protocol):
    """A running broker: a process, or a thread of this one."""

    def wait_ready(self, timeout: float) -> Mapping[str, str]: ...
    def stop(self, timeout: float) -> None: ...
    def kill(self) -> None: ...
    def abandon(self) -> None: ...


class Broker(Inspected, Controlled, Logged, Closable):
    """
    A broker on free ports of 127.0.0.1, with a data directory of its own.

    :param config: settings by Kafka's names, ``{"num.partitions": 3}``, or in Python's spelling, ``{"num_partitions":
        3}``; a value is a text, a number, a bool, a timedelta, or a list of them.
    :param users: names and passwords of those who may log in, by SASL/PLAIN without TLS; None: nobody must.
    :param data_dir: where the data goes and stays; None: a temporary directory that is removed when the broker is
        closed, and at the latest when the process ends. ``log.dirs`` in ``config`` replaces it.
    :param in_process: False runs ``twistd -n logbus`` as a subprocess, which :meth:`kill` can kill; so it is with
        ``workers`` in ``config``, which are processes.
    :param controlled: False: a broker in a process of its own has nothing of the test kit in it, such as faults and the
        history of requests, and is as fast as in production: for measurements.
    :param snapshot: the data to begin with: what :meth:`snapshot` of another broker gave.
    :param as_version: advertise the API versions of this Kafka release, such as ``"3.9"``, for tests of clients that
        meet older brokers. What is set later holds from the next start on: a broker that is upgraded.
    :param placement: where it listens, and what it tells its clients, for a broker that others than this machine's
        programs use; what is set later holds from the next start on.
    :param timeout: seconds to wait for a start or a stop.

    :ivar bootstrap: ``"127.0.0.1:PORT"`` for clients, while it runs.  The ports stay the same over a restart.
    :ivar admin_url: the HTTP address, ``"http://127.0.0.1:PORT"``.
    :ivar data_dir: the data directory.
    """

    @names_options("a Broker", settings_of("Broker"))
    def __init__(
        self,
        config: Mapping[str, Setting] | None = None,
        *,
        users: Mapping[str, str] | None = None,
        data_dir: str | Path | None = None,
        in_process: bool = True,
        controlled: bool = True,
        snapshot: Snapshot | None = None,
        as_version: str | None = None,
        placement: Placement | None = None,
        timeout: float = 120.0,
    ) -> None:
        super().__init__()
        broker_arguments(users, data_dir, timeout, as_version, in_process=in_process, controlled=controlled)
        if placement is not None and not isinstance(placement, Placement):
            raise TypeError(f"placement: {placement!r} is none: expected Placement(...), of logbus.testing.placement")
        self.as_version = as_version
        self.placement = placement or Placement()
        self.config: dict[str, Setting] = {**TEST_CONFIG, **_logins(users or {}), **as_texts(config or {})}
        not_placed(self.config)
        self.in_process = in_process and self.config.get("workers", "1") == "1"
        self.controlled = controlled or self.in_process
        self.timeout = timeout
        self._users = dict(users or {})
        self._temporary = data_dir is None
        self.data_dir = temporary_directory("broker") if data_dir is None else Path(data_dir)
        self._addresses: dict[str, str] = {}
        self._held = HeldPorts()
        self._ports: dict[str, int] = {}
        self._worker_ports: dict[int, int] = {}
        self._runner: BrokerRunner | None = None
        self._last_runner: BrokerRunner | None = None
        self._pid = os.getpid()
        if snapshot is not None:
            self._begin_from(snapshot)
        atexit.register(self._at_exit)

    @property
    def bootstrap(self) -> str:
        """
        HOST:PORT for Kafka clients.

        :raise BrokerFailed: it was never started, or is closed.
        """
        return self._address("kafka")

    @property
    def admin_url(self) -> str:
        """The HTTP address of metrics, health and the REST API."""
        return f"http://{self._address('admin')}"

    @property
    def kafka_port(self) -> int:
        """
        The port that it listens on for Kafka clients.

        :raise BrokerFailed: it is closed.
        """
        self._require_open("kafka_port")
        return self._port("kafka")

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._runner is not None

    @property
    def started(self) -> bool:
        """Whether it was ever ready: then it has addresses, until it is closed."""
        return bool(self._addresses)

    @property
    def pid(self) -> int:
        """
        Its process.

        :raise BrokerFailed: it has none of its own, or does not run.
        """
        return self._process.process.pid

    def start(self) -> Self:
        """
        Start, and wait until clients are served.

        :raise BrokerFailed: it did not come up; the message has its last words.
        """
        self.launch()
        self.wait_ready()
        return self

    def launch(self) -> None:
        """
        Begin to start, and return at once, so that others can do so at the same time.

        :raise BrokerFailed: it is running, or closed.
        """
        self._check_process()
        if self._runner is not None:
            raise BrokerFailed("the broker is already running")
        if self._closed:
            raise is_closed("start")
        self._runner = self._last_runner = self._run()

    def wait_ready(self) -> None:
        """
        Wait until clients are served, after :meth:`launch`.

        :raise BrokerFailed: it did not come up; the message has its last words.
        """
        if self._runner is None:
            self._require_open("wait_ready")
            raise BrokerFailed("the broker was not started")
        try:
            self._addresses = dict(self._runner.wait_ready(self.timeout))
        except BrokerFailed:
            self._runner = None
            if not self.started:
                self._remove_data()
            raise

    def stop(self) -> None:
        """Stop as SIGTERM does: in order, with nothing left to recover. One that does not run stays so."""
        self._check_process()
        self._close_inspector()
        if self._runner is not None:
            runner, self._runner = self._runner, None
            runner.stop(self.timeout)
        self._frozen(False)

    def kill(self) -> None:
        """
        Stop as a crash does: nothing is flushed, nothing is marked clean.

        :raise BrokerFailed: it runs in this process, where it cannot be killed.
        """
        self._check_process()
        self._close_inspector()
        if self._runner is not None:
            self._runner.kill()
            self._runner = None
        self._frozen(False)

    def freeze(self) -> None:
        """
        Have it do nothing, with its connections open, until :meth:`thaw`.

        :raise BrokerFailed: it runs in this process.
        """
        self._process.freeze()
        self._frozen(True)

    def thaw(self) -> None:
        """End a :meth:`freeze`."""
        self._process.thaw()
        self._frozen(False)

    def restart(self) -> Broker:
        """Stop in order and start again, on the same ports and data."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """
        Stop, and remove a temporary data directory.

        A second time it does nothing; nor does it in a process that was forked, which the broker is not of.

        Of a closed broker, :attr:`requests` and the log can still be read, and what only ends something, such as a
        fault, does nothing; all else is refused.

        :raise BrokerFailed: it did not stop in time; nothing of it is left nevertheless.
        """
        if self._pid != os.getpid():
            return
        self._closed = True
        try:
            self.stop()
        finally:
            atexit.unregister(self._at_exit)
            self._held.close()
            self._close_controls()
            self._remove_data()

    def refuse_nesting(self) -> None:
        if self._runner is not None:
            raise BrokerFailed("the broker is already running; a with block of it cannot be nested in another")

    def _inspector_at(self) -> tuple[str, dict[str, str], ReactorThread | None]:
        self._check_process()
        if self._runner is None:
            self._require_open()
            raise BrokerFailed("the broker does not run; start it first")
        login: dict[str, str] = {}
        for name, password in list(self._users.items())[:1]:
            login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
            login |= {"sasl.username": name, "sasl.password": password}
        runner = self._own_thread()
        return self.bootstrap, login, None if runner is None else runner.thread

    def _own_thread(self) -> BrokerThread | None:
        return self._runner if isinstance(self._runner, BrokerThread) else None

    def _frozen(self, is_frozen: bool) -> None:
        if self._channel is not None:
            self._channel.is_frozen = is_frozen

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise BrokerFailed(f"the broker is of process {self._pid}, which forked this one: here, only connect to it")

    def _address(self, listener: str) -> str:
        if self._closed:
            raise BrokerFailed("the broker is closed, and has no address any more")
        if listener not in self._addresses:
            raise BrokerFailed("the broker has no address before it is started")
        return self._addresses[listener]

    def _remove_data(self) -> None:
        if self._temporary and self.data_dir.exists():
            remove_temporary(self.data_dir)

    def _at_exit(self) -> None:
        """It was not closed: end it at once, and remove temporary data."""
        if self._pid != os.getpid():
            return
        runner, self._runner = self._runner, None
        if runner is not None and self._temporary:
            runner.abandon()
        elif runner is not None:
            with contextlib.suppress(BrokerFailed):
                runner.stop(self.timeout)
        for _ in range(3):
            # A thread may still create a file while the others are removed.
            self._remove_data()

    @property
    def _log_source(self) -> BrokerRunner | None:
        return self._last_runner

    @property
    def _process(self) -> BrokerProcess:
        self._require_open()
        if not isinstance(self._runner, BrokerProcess):
            raise BrokerFailed(f"the broker has no process of its own; {OF_ITS_OWN}, and start it")
        return self._runner

    def _run(self) -> BrokerRunner:
        ports = {name: self._port(name) for name in ("kafka", "admin")}
        config = as_texts(self.config)
        workers = config.get("workers", "1")
        if workers.isdecimal() and config.get("workers.first.port") == "0":
            config["workers.first.port"] = str(self._ports_of_workers(int(workers)))
        if self.in_process:
            return BrokerThread(
                config,
                self.data_dir,
                ports,
                self._book,
                self._history,
                self._filling,
                release=self.as_version,
                placement=self.placement,
            )
        listen, advertise = self.placement.options(ports)
        return BrokerProcess(
            config,
            self.data_dir,
            listen,
            advertise,
            release=self.as_version,
            with_parent=True,
            control=self._control(),
        )

    def _ports_of_workers(self, count: int) -> int:
        """The first of the ports that workers have of their own: the same at every start, too."""
        if count < 2:
            return 0  # none needs a port, or the broker says that there cannot be so few
        if count not in self._worker_ports:
            self._worker_ports[count] = self._held.free_run("127.0.0.1", count)
        return self._worker_ports[count]

    def _port(self, name: str) -> int:
        """The port of a listener: the same at every start until the broker is closed."""
        if name not in self._ports:
            self._ports[name] = self.placement.ports.get(name) or self._held.free(self.placement.host)
        return self._ports[name]

    def __repr__(self) -> str:
        where = self._addresses.get("kafka", "starts") if self.running else "closed" if self._closed else "stopped"
        return f"<logbus.testing.Broker {where} data={self.data_dir}>"


def _logins(users: Mapping[str, str]) -> dict[str, str]:
    """The settings of a listener where these users log in."""
    if not users:
        return {}
    options = " ".join(f"user_{name}={_quoted(password)}" for name, password in users.items())
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,KAFKA:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.kafka.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {options};"
        ),
        "connection.failed.authentication.delay.ms": "10",
    }


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
