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
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

from logbus.metastore.cluster_znodes import ControllerZnode
from logbus.metastore.znodes import BROKER_IDS, CONTROLLER, TOPICS, BrokerIdZnode, StateZnode, TopicZnode
from logbus.model import LeaderAndIsr
from logbus.testing.broker import TEST_CONFIG, Broker, BrokerRunner
from logbus.testing.broker_process import BrokerFailed, BrokerProcess, local_listener
from logbus.testing.closable import Closable
from logbus.testing.network_proxy import EVERYBODY, NetworkProxy, Way
from logbus.testing.settings import Setting, as_texts
from logbus.testing.zookeeper import ZooKeeper, ZooKeeperFailed
from logbus.testing.zookeeper_view import WaitTimedOut, ZooKeeperView

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
        self._advertised = ""

    def cut_off(self, *others: ClusterBroker | str, way: str = "both") -> None:
        """
        Let nothing through between this broker and others, until :meth:`reconnect`; clients still reach it.

        :param others: brokers, and ``"zookeeper"``; nobody named: all of them.
        :param way: ``"both"``, ``"from"`` (nothing that this broker says arrives) or ``"to"`` (it hears nothing).
        """
        self._cluster.network.cut(self._ways(others, way))

    def reconnect(self) -> None:
        """End all cuts of this broker; held data come through."""
        self._cluster.network.mend(
            [(a, b) for a, b in self._cluster.network.ways() if self.node in (a, b)],
        )

    def expire_session(self) -> None:
        """
        Have ZooKeeper end its session, as if it had not been heard of for too long.

        :raise BrokerFailed: it has none.
        """
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
        found = self._cluster.tree.read(BrokerIdZnode.path(self.id))
        return -1 if found is None else int(found[1].czxid)

    def _ways(self, others: Iterable[ClusterBroker | str], way: str) -> list[Way]:
        names = [one if isinstance(one, str) else one.node for one in others] or [EVERYBODY]
        outward = [(self.node, name) for name in names] if way in ("both", "from") else []
        inward = [(name, self.node) for name in names] if way in ("both", "to") else []
        if not outward and not inward:
            raise ValueError(f"way={way!r}: expected both, from or to")
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
        return BrokerProcess(as_texts(self.config), self.data_dir, listeners, [self._advertised])

    def __repr__(self) -> str:
        where = self.bootstrap if self._addresses and self.running else "stopped"
        return f"<logbus.testing.ClusterBroker {self.id} {where}>"


class Cluster(Closable):
    """
    :param brokers: how many; their ids count from 0.
    :param config: settings of all of them, by Kafka's names: texts, numbers, bools, or lists of them.
    :param zookeepers: servers of the ensemble: 1, or 3, which survive the loss of one.
    :param racks: ``broker.rack`` of each.
    :param data_dir: where the brokers' data goes and stays, a directory for each; None: temporary, removed at the end.
    :param timeout: seconds to wait for a start, a stop and an event.

    :ivar brokers: in the order of their ids.
    :ivar zookeeper: can be stopped, killed and frozen: see :class:`~logbus.testing.zookeeper.ZooKeeper`.
    :ivar tree: the content of ZooKeeper, below the chroot of the cluster.
    """

    tree: ZooKeeperView

    def __init__(
        self,
        brokers: int = 3,
        config: Mapping[str, Setting] | None = None,
        *,
        zookeepers: int = 1,
        racks: Sequence[str] | None = None,
        data_dir: str | Path | None = None,
        timeout: float = 120.0,
    ) -> None:
        if racks is not None and len(racks) != brokers:
            raise ValueError(f"{len(racks)} racks for {brokers} brokers")
        self.timeout = timeout
        self._temporary = data_dir is None
        factor = str(min(3, brokers))
        shared = {
            **TEST_CONFIG,
            **CLUSTER_CONFIG,
            "default.replication.factor": factor,
            "offsets.topic.replication.factor": factor,
            "transaction.state.log.replication.factor": factor,
            **as_texts(config or {}),
        }
        self._home = Path(tempfile.mkdtemp(prefix="logbus-cluster-")) if data_dir is None else Path(data_dir)
        self.zookeeper = ZooKeeper(zookeepers, timeout=timeout)
        self.brokers: list[ClusterBroker] = []
        for number in range(brokers):
            own = {"broker.id": str(number), "inter.broker.listener.name": REPLICATION}
            if racks is not None:
                own["broker.rack"] = racks[number]
            self.brokers.append(ClusterBroker(self, number, {**shared, **own}, self._home / f"broker-{number}"))
        self.network = NetworkProxy(self._processes)
        atexit.register(self.close)

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of all brokers that were started, for Kafka clients."""
        return ",".join(broker.bootstrap for broker in self.brokers if broker.started)

    @property
    def running(self) -> list[ClusterBroker]:
        """The brokers that were started and not stopped; frozen ones are among them."""
        return [broker for broker in self.brokers if broker.running]

    # Start and stop.

    def start(self) -> Self:
        """
        Start ZooKeeper and all brokers side by side, and wait until each of them knows all.

        :raise ZooKeeperFailed: it is not installed, or did not start.
        :raise BrokerFailed: a broker did not start.
        """
        self.zookeeper.require()
        self.network.start()
        for broker in self.brokers:
            connect = broker._wire(self.network, self.zookeeper.addresses)
            broker.config["zookeeper.connect"] = connect + CHROOT
            # It waits for ZooKeeper by itself: its imports take as long as ZooKeeper does.
            broker.launch()
        self.zookeeper.start()
        for broker in self.brokers:
            broker.wait_ready()
        self.tree = ZooKeeperView(self.zookeeper.connect + CHROOT, self.timeout)
        self.wait_known()
        return self

    def close(self) -> None:
        """Stop everything, and remove temporary data."""
        atexit.unregister(self.close)
        try:
            self.network.mend()
            self._stop_brokers()
        finally:
            if hasattr(self, "tree"):
                self.tree.close()
            self.network.stop()
            self.zookeeper.close()
            if self._temporary:
                shutil.rmtree(self._home, ignore_errors=True)

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

    # Roles.

    def state(self, topic: str, partition: int = 0) -> LeaderAndIsr | None:
        """Leader and in-sync replicas as ZooKeeper has them now; None: there is no such partition."""
        found = self.tree.read(StateZnode.path(topic, partition))
        return None if found is None else StateZnode.decode(topic, partition, found[0], found[1].version)

    def leader(self, topic: str, partition: int = 0, *, other_than: ClusterBroker | None = None) -> ClusterBroker:
        """
        The leader of a partition, as soon as a live broker leads it.

        :param other_than: wait until it is not this one.
        :raise WaitTimedOut: there was none in time.
        """

        def look() -> ClusterBroker | None:
            state = self.state(topic, partition)
            alive = state is not None and str(state.leader) in self.tree.children(BROKER_IDS)
            found = self.brokers[state.leader] if state is not None and alive else None
            return None if found is other_than else found

        return self.tree.wait_for(look, f"a{' new' if other_than else ''} leader of {topic}-{partition}")

    def followers(self, topic: str, partition: int = 0) -> list[ClusterBroker]:
        """The other replicas of a partition, in the order of its assignment."""
        leader = self.leader(topic, partition)
        data = self.tree.get(TopicZnode.path(topic)) or b""
        replicas = TopicZnode.decode(topic, data).partitions[partition]
        return [self.brokers[number] for number in replicas if number != leader.id]

    def controller(self, *, other_than: ClusterBroker | None = None) -> ClusterBroker:
        """
        The controller, as soon as there is one.

        :param other_than: wait until it is not this one.
        :raise WaitTimedOut: none was elected in time.
        """

        def look() -> ClusterBroker | None:
            data = self.tree.get(CONTROLLER)
            found = None if data is None else self.brokers[ControllerZnode.decode(data).broker_id]
            return None if found is other_than else found

        return self.tree.wait_for(look, f"a{' new' if other_than else ''} controller")

    # Waiting.

    def wait_in_sync(self, *topics: str, timeout: float | None = None) -> None:
        """
        Wait until all replicas of all partitions are in sync, and have a leader.

        :param topics: only these; without any: all topics.
        :raise WaitTimedOut: they are not.
        """

        def look() -> bool:
            return all(self._in_sync(topic) for topic in topics or self.tree.children(TOPICS))

        self.tree.wait_for(look, "all replicas in sync", timeout)

    def _in_sync(self, topic: str) -> bool:
        data = self.tree.get(TopicZnode.path(topic))
        if data is None:
            return False
        for partition, replicas in enumerate(TopicZnode.decode(topic, data).partitions):
            state = self.state(topic, partition)
            if state is None or state.leader < 0 or set(state.isr) != set(replicas):
                return False
        return True

    def wait_gone(self, broker: ClusterBroker) -> None:
        """Wait until a broker is not registered (its session has ended)."""
        path = BrokerIdZnode.path(broker.id)
        self.tree.wait_for(lambda: self.tree.get(path) is None, f"the end of broker {broker.id}'s registration")

    def wait_back(self, broker: ClusterBroker, *, after: int = -1) -> int:
        """Wait until a broker is registered, with an epoch above ``after``; that epoch."""

        def look() -> int | None:
            epoch = broker.epoch
            return epoch if epoch > after else None

        return self.tree.wait_for(look, f"the registration of broker {broker.id}")

    def wait_known(self) -> None:
        """Wait until every running broker tells its clients of all that run."""
        wanted = len(self.running)
        for broker in self.running:
            self.wait_until(lambda broker=broker: known_brokers(broker.bootstrap) == wanted, "a full list of brokers")  # type: ignore[misc]

    def wait_until(self, condition: Callable[[], T | None], what: str, timeout: float | None = None) -> T:
        """
        The result of ``condition`` once it is true, polled every 20 ms: for conditions without an event.

        :raise WaitTimedOut: it did not become true.
        """
        seconds = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise WaitTimedOut(f"{what} did not come about within {seconds:g} s")
            time.sleep(0.02)
        return found

    def _processes(self) -> dict[str, int]:
        return {broker.node: broker.pid for broker in self.brokers if broker.running}


_METADATA_V1 = struct.pack(">ihhihi", 14, 3, 1, 1, 0, 0)
"""A request without a client id, for no topics."""


def known_brokers(address: str) -> int:
    """The number of brokers in the metadata of the one at ``HOST:PORT``; 0 while it does not answer."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(_METADATA_V1)
            answer = b""
            while len(answer) < 12:
                more = connection.recv(4096)
                if not more:
                    return 0
                answer += more
    except OSError:
        return 0
    return int(struct.unpack_from(">i", answer, 8)[0])
