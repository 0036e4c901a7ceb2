"""
A real cluster for tests: several brokers, each a process with a data directory of its own, and their ZooKeeper.

.. code-block:: python

    with Cluster() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        ...
        led = cluster.leader("orders", 0)
        led.kill()
        cluster.leader("orders", 0, other_than=led)  # returns once another one leads

Brokers can be killed, frozen, cut off from each other and from ZooKeeper (clients still reach them), and their sessions
made to expire.  What waits, waits for the event in ZooKeeper and returns as soon as it is there.

ZooKeeper is Debian's, as :mod:`logbus.testing.zookeeper` runs it.  Where it or Java is not installed, :class:`Cluster`
fails with :class:`~logbus.testing.zookeeper.ZooKeeperFailed`, which names the packages: a test that wants a cluster
does not pass without one.
"""

from __future__ import annotations

import atexit
import os
import struct
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

from logbus.client.validators import names_options
from logbus.testing.arguments import cluster_arguments, ensemble_size, settings_of
from logbus.testing.broker import TEST_CONFIG, Broker, BrokerRunner
from logbus.testing.broker_process import BrokerProcess, local_listener
from logbus.testing.errors import BrokerFailed
from logbus.testing.network_proxy import EVERYBODY, NetworkProxy, Way
from logbus.testing.reactor_thread import ReactorThread
from logbus.testing.resettable_cluster import ResettableCluster
from logbus.testing.settings import Setting, as_texts
from logbus.testing.snapshots import ClusterSnapshot
from logbus.testing.temporary import remove_temporary, temporary_directory
from logbus.testing.zookeeper import ZooKeeper, ZooKeeperFailed
from logbus.testing.zookeeper_copy import read_nodes, write_nodes
from logbus.testing.zookeeper_view import ZooKeeperView

T = TypeVar("T")

CHROOT = "/logbus"
ZOOKEEPER = "zookeeper"
REPLICATION = "replication"
"""The listener that brokers use among themselves."""

#: Short timeouts, so that a lost broker is noticed soon.
CLUSTER_CONFIG: Mapping[str, str] = {
    "zookeeper.session.timeout.ms": "4000",
    "replica.lag.time.max.ms": "4000",
}


class ClusterBroker(Broker):
    """
    One broker of a :class:`Cluster`, as :class:`~logbus.testing.broker.Broker`, in a process of its own.

    :ivar id: its ``broker.id``: its index in :attr:`Cluster.brokers`.
    :ivar connect: its ways to ZooKeeper, once they are laid.
    """

    def __init__(self, cluster: Cluster, number: int, config: Mapping[str, str], data_dir: Path) -> None:
        super().__init__(config, data_dir=data_dir, in_process=False, timeout=cluster.timeout)
        # The cluster ends its brokers.
        atexit.unregister(self._at_exit)
        self.id = number
        self.node = str(number)
        self._cluster = cluster
        self._session: tuple[int, bytes] | None = None
        # An address without outgoing connections: a port that is free now is so when the broker binds it.
        self._at = (f"127.0.8.{number + 1}", 0)
        self.connect = ""
        self._advertised = ""

    def cut_off(self, *others: ClusterBroker | str, way: str = "both") -> None:
        """
        Let nothing through between this broker and others, until :meth:`reconnect`; clients still reach it.

        :param others: brokers, and ``"zookeeper"``; nobody named: all of them.
        :param way: ``"both"``, ``"from"`` (nothing that this broker says arrives) or ``"to"`` (it hears nothing).
        :raise BrokerFailed: the broker is closed.
        :raise ValueError: one of them is neither; there is no such way.
        """
        self._require_open("cut_off")
        self._cluster.network.cut(self._ways(others, way))

    def reconnect(self) -> None:
        """End all cuts of this broker; held data come through.  Where there are none, it does nothing."""
        self._cluster.network.mend(
            [(a, b) for a, b in self._cluster.network.ways() if self.node in (a, b)],
        )

    def expire_session(self) -> None:
        """
        Have ZooKeeper end its session, as if it had not been heard of for too long.

        :raise BrokerFailed: it has none, or does not run.
        """
        self._require_running("expire_session")
        until = time.monotonic() + self.timeout
        while (session := self._session) is not None:
            try:
                return self._cluster.zookeeper.expire(*session)
            except ZooKeeperFailed:
                # That one had ended already; the broker makes another.
                while self._session == session:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.02)
        raise BrokerFailed(f"broker {self.id} has no session with ZooKeeper")

    @property
    def epoch(self) -> int:
        """The broker epoch: of its registration; −1 while there is none."""
        return self._cluster.epoch(self)

    def _ways(self, others: Iterable[ClusterBroker | str], way: str) -> list[Way]:
        for one in others:
            if one != ZOOKEEPER and (one is self or one not in self._cluster.brokers):
                raise ValueError(f"cut_off: {one!r} is neither another broker of the cluster nor {ZOOKEEPER!r}")
        names = [one if isinstance(one, str) else one.node for one in others] or [EVERYBODY]
        outward = [(self.node, name) for name in names] if way in ("both", "from") else []
        inward = [(name, self.node) for name in names] if way in ("both", "to") else []
        if not outward and not inward:
            raise ValueError(f"cut_off: way is {way!r}; it is both, from or to")
        return outward + inward

    def _wire(self, network: NetworkProxy, servers: Sequence[tuple[str, int]]) -> str:
        """Lay its ways to ZooKeeper, and everybody's to it; ``zookeeper.connect`` of it."""
        self._at = (self._at[0], self._held.free(self._at[0]))
        host, port = network.add(self.node, self._at)
        self._advertised = f"{REPLICATION}={host}:{port}"
        ways = [network.add(ZOOKEEPER, server, self.node, self._note_session) for server in servers]
        return ",".join(f"{host}:{port}" for host, port in ways)

    def _note_session(self, said: bytes) -> None:
        """What ZooKeeper answers first: length, version, time-out, the session's id, and its password."""
        if len(said) >= 40:
            session_id, size = struct.unpack_from(">qi", said, 12)
            if session_id and 0 < size <= len(said) - 24:
                self._session = session_id, said[24 : 24 + size]

    def _run(self) -> BrokerRunner:
        listeners = [local_listener(name, self._port(name)) for name in ("kafka", "admin")]
        host, port = self._at
        listeners.append(f"{REPLICATION}=kafka:tcp:{port}:interface={host}")
        return BrokerProcess(
            as_texts(self.config),
            self.data_dir,
            listeners,
            [self._advertised],
            release=self.as_version,
            with_parent=True,
            control=self._control(),
        )

    def __repr__(self) -> str:
        where = self.bootstrap if self._addresses and self.running else "stopped"
        return f"<logbus.testing.ClusterBroker {self.id} {where}>"


class Cluster(ResettableCluster[ClusterBroker]):
    """
    :param brokers: how many; their ids count from 0.
    :param config: settings of all of them, by Kafka's names: texts, numbers, bools, or lists of them.
    :param zookeepers: servers of the ensemble: 1, or 3, which survive the loss of one, or another odd number up to 9.
    :param racks: ``broker.rack`` of each.
    :param as_version: advertise the API versions of this Kafka release, as :class:`~logbus.testing.broker.Broker` does.
    :param data_dir: where the brokers' data goes and stays, a directory for each; None: temporary, removed at the end.
    :param timeout: seconds to wait for a start, a stop and an event.

    :ivar brokers: in the order of their ids.
    :ivar zookeeper: can be stopped, killed and frozen: see :class:`~logbus.testing.zookeeper.ZooKeeper`.
    :ivar tree: the content of ZooKeeper, below the chroot of the cluster.
    """

    @names_options("a Cluster", settings_of("Cluster"))
    def __init__(
        self,
        brokers: int = 3,
        config: Mapping[str, Setting] | None = None,
        *,
        zookeepers: int = 1,
        racks: Sequence[str] | None = None,
        as_version: str | None = None,
        data_dir: str | Path | None = None,
        timeout: float = 120.0,
    ) -> None:
        cluster_arguments(brokers, racks, timeout, as_version)
        ensemble_size(zookeepers)
        self.timeout = timeout
        self._resets = 0
        self._pid = os.getpid()
        self._temporary = data_dir is None
        factor = str(min(3, brokers))
        shared = {
            **TEST_CONFIG,
            **CLUSTER_CONFIG,
            "default.replication.factor": factor,
            "offsets.topic.replication.factor": factor,
            "share.coordinator.state.topic.replication.factor": factor,
            "transaction.state.log.replication.factor": factor,
            **as_texts(config or {}),
        }
        self._home = temporary_directory("cluster") if data_dir is None else Path(data_dir)
        self.zookeeper = ZooKeeper(zookeepers, timeout=timeout)
        self.brokers: list[ClusterBroker] = []
        for number in range(brokers):
            own = {"broker.id": str(number), "inter.broker.listener.name": REPLICATION}
            if racks is not None:
                own["broker.rack"] = racks[number]
            broker = ClusterBroker(self, number, {**shared, **own}, self._home / f"broker-{number}")
            broker.as_version = as_version
            self.brokers.append(broker)
        self.network = NetworkProxy(self._processes)
        atexit.register(self.close)

    # Start and stop.

    def start(self) -> Self:
        """
        Start ZooKeeper and all brokers side by side, and wait until each of them knows all.

        :raise ZooKeeperFailed: it is not installed, or did not start.
        :raise BrokerFailed: a broker did not start; or the cluster runs, or is closed.
        """
        self._require_open()
        self.zookeeper.require()
        self.network.start()
        for broker in self.brokers:
            broker.connect = broker._wire(self.network, self.zookeeper.addresses)
        self._launch()
        self.zookeeper.start()
        self._wait_ready()
        return self

    def snapshot(self) -> ClusterSnapshot:
        """
        The data of all brokers and the metadata as they are now, for :meth:`restore`.

        The brokers are ended for it, as a crash does, and all are started again: clients connect again, and all cuts
        have ended.

        :raise BrokerFailed: the cluster was never started, or is closed; a broker did not start.
        """
        self._require_started("snapshot")
        for broker in self.running:
            # Otherwise those that end later take over from those that end first.
            broker.freeze()
        rows = read_nodes(self.zookeeper.connect, self._chroot, self.timeout)
        self._kill_all()
        made = ClusterSnapshot([broker.data_dir for broker in self.brokers], rows, max(row.mzxid for row in rows))
        self._start_on(made)
        return made

    def _kill_all(self) -> None:
        self._close_inspector()
        self.network.mend()
        for broker in self.running:
            # Nothing of it is wanted any more: a crash is quicker than an orderly end.
            broker.kill()

    def _start_on(self, snapshot: ClusterSnapshot | None) -> None:
        """Start with what a snapshot has, or anew."""
        self._tree.close()
        # A place of its own in ZooKeeper: the sessions of those killed still have their nodes in the old one.
        self._resets += 1
        if snapshot is not None:
            write_nodes(self.zookeeper.connect, self._chroot, snapshot.rows, self.timeout)
        self._launch()
        self._wait_ready()

    def _launch(self) -> None:
        for broker in self.brokers:
            broker.config["zookeeper.connect"] = broker.connect + self._chroot
            # It waits for ZooKeeper by itself: its imports take as long as ZooKeeper does.
            broker.launch()

    def _wait_ready(self) -> None:
        for broker in self.brokers:
            broker.wait_ready()
        self._tree = ZooKeeperView(self.zookeeper.connect + self._chroot, self.timeout)
        self.wait_known()

    @property
    def _chroot(self) -> str:
        return f"{CHROOT}-{self._resets}" if self._resets else CHROOT

    def close(self) -> None:
        """Stop everything, and remove temporary data. A second time, and in a forked process, it does nothing."""
        if self._pid != os.getpid() or self._closed:
            return
        atexit.unregister(self.close)
        self._closed = True
        try:
            self._close_inspector()
            self.network.mend()
            self._stop_brokers()
        finally:
            if self._tree is not None:
                self._tree.close()
            self.network.stop()
            self.zookeeper.close()
            if self._temporary:
                remove_temporary(self._home)

    def _inspector_at(self) -> tuple[str, dict[str, str], ReactorThread | None]:
        self._require_started()
        if not self.running:
            raise BrokerFailed("no broker of the cluster runs; start one first")
        return self.bootstrap, {}, None

    def _stop_brokers(self) -> None:
        # Nothing of it is wanted any more: a crash is quicker than an orderly end.
        for broker in self.running:
            if self._temporary:
                broker.kill()
        threads = [threading.Thread(target=broker.close) for broker in self.brokers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _processes(self) -> dict[str, int]:
        return {broker.node: broker.pid for broker in self.brokers if broker.running}
