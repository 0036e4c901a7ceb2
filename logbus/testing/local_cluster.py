"""
A cluster for tests in this process: real brokers, replication and elections, without ZooKeeper.

.. code-block:: python

    with LocalCluster() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        ...
        led = cluster.leader("orders", 0)
        led.kill()
        cluster.leader("orders", 0, other_than=led)  # returns once another one leads

The brokers share one thread and one reactor, and talk to each other over TCP, as those of different machines do.  The
metadata store is in memory; it lasts as long as the cluster does, so that brokers come back to what they left.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from logbus.client.validators import names_options
from logbus.metastore.tree import Row, Tree
from logbus.testing.arguments import cluster_arguments, settings_of
from logbus.testing.broker import TEST_CONFIG, Broker, BrokerRunner
from logbus.testing.broker_thread import BrokerThread
from logbus.testing.errors import BrokerFailed
from logbus.testing.reactor_thread import ReactorThread
from logbus.testing.resettable_cluster import ResettableCluster
from logbus.testing.settings import Setting, as_texts
from logbus.testing.snapshots import ClusterSnapshot
from logbus.testing.store_view import MemoryView
from logbus.testing.temporary import remove_temporary, temporary_directory

if TYPE_CHECKING:
    from logbus.metastore.memory_store import MemoryStore
    from logbus.testing.broker_links import BrokerLinks

STORE = "store"
"""Stands for the metadata store among those that a broker is cut off from."""

WAYS = ("both", "from", "to")
"""Which way nothing comes through, as seen by a broker that is cut off."""

#: Short timeouts, so that a follower that does not follow leaves the ISR soon, and one that comes back is in it soon.
CLUSTER_CONFIG: Mapping[str, str] = {"replica.fetch.backoff.ms": "50", "replica.lag.time.max.ms": "4000"}


class LocalBroker(Broker):
    """
    One broker of a :class:`LocalCluster`, as :class:`~logbus.testing.broker.Broker`.

    :ivar id: its ``broker.id``: its index in :attr:`LocalCluster.brokers`.
    """

    def __init__(self, cluster: LocalCluster, number: int, config: Mapping[str, Setting], data_dir: Path) -> None:
        super().__init__(config, data_dir=data_dir, timeout=cluster.timeout)
        self.id = number
        self._cluster = cluster

    @property
    def kafka_port(self) -> int:
        """The port for clients and other brokers."""
        return self._port("kafka")

    @property
    def epoch(self) -> int:
        """The broker epoch: of its registration; −1 while there is none."""
        return self._cluster.epoch(self)

    def expire_session(self) -> None:
        """
        Have the metadata store end its session, as if it had not been heard of for too long; it gets another one.

        :raise BrokerFailed: it does not run.
        """
        self._require_running("expire_session")
        self._on_store(lambda store: store.expire())

    def cut_off(self, *others: LocalBroker | str, way: str = "both") -> None:
        """
        Let nothing through between this broker and others, until :meth:`reconnect`; clients still reach it.

        Both ways, connections are closed.  One way, they stay, and hold what is sent that way.  None can be made.

        :param others: brokers, and ``"store"``, the metadata store; nobody named: all of them.
        :param way: ``"both"``, ``"from"`` (nothing that this broker says arrives) or ``"to"`` (it hears nothing): of
            brokers only.
        :raise BrokerFailed: the connections have TLS; they cannot be cut; or the broker does not run.
        :raise ValueError: one of them is neither; there is no such way.
        """
        self._require_running("cut_off")
        if way not in WAYS:
            raise ValueError(f"cut_off: way is {way!r}; it is both, from or to")
        brokers = [each for each in self._cluster.brokers if each is not self]
        named = others or (*brokers, *([STORE] if way == "both" else []))
        for one in named:
            if one != STORE and one not in brokers:
                raise ValueError(f"cut_off: {one!r} is neither another broker of the cluster nor {STORE!r}")
            if one == STORE and way != "both":
                raise ValueError(f"cut_off: way={way!r} is of brokers; the metadata store is cut off both ways")
            if one != STORE and self._has_tls:
                raise BrokerFailed("cut_off: connections with TLS cannot be cut; have brokers connect without")
        if STORE in named:
            self._on_store(lambda store: store.suspend())
        links = self._cluster.links
        if links is not None and len(named) > (STORE in named):
            ends = [one.id for one in named if isinstance(one, LocalBroker)]
            cut = [(self.id, end) for end in ends if way != "to"] + [(end, self.id) for end in ends if way != "from"]
            self._cluster.thread.run(lambda: succeed_with(links.cut, cut), self.timeout)

    def reconnect(self) -> None:
        """End all cuts of this broker; where there are none, it does nothing."""
        if self._closed:
            return
        self._on_store(lambda store: store.resume())
        links = self._cluster.links
        if links is not None:
            self._cluster.thread.run(lambda: succeed_with(links.mend, self.id), self.timeout)

    def _on_store(self, do: Callable[[MemoryStore], object]) -> None:
        runner = self._runner
        if isinstance(runner, BrokerThread) and runner.store is not None:
            runner.thread.call(do, runner.store)

    def _run(self) -> BrokerRunner:
        self._cluster._require_started()
        config = as_texts(self.config)
        ports = {name: self._port(name) for name in ("kafka", "admin")}
        thread, ensemble = self._cluster.thread, self._cluster.ensemble
        from logbus.testing.broker_links import BrokerLinks

        if self._cluster.links is None:
            self._cluster.links = BrokerLinks(self._cluster.broker_at, self._cluster.accepted_by)
        links = None if self._has_tls else partial(self._cluster.links.from_broker, self.id)
        return BrokerThread(
            config,
            self.data_dir,
            ports,
            self._book,
            self._history,
            self._filling,
            shared=thread,
            store=ensemble.client,
            links=links,
            release=self.as_version,
        )

    @property
    def _has_tls(self) -> bool:
        return "SSL" in str(self.config.get("listener.security.protocol.map", ""))

    def __repr__(self) -> str:
        where = self.bootstrap if self.started and self.running else "stopped"
        return f"<logbus.testing.LocalBroker {self.id} {where}>"


class LocalCluster(ResettableCluster[LocalBroker]):
    """
    :param brokers: how many; their ids count from 0.
    :param config: settings of all of them, as :class:`~logbus.testing.broker.Broker` has them.
    :param racks: ``broker.rack`` of each.
    :param as_version: advertise the API versions of this Kafka release, as :class:`~logbus.testing.broker.Broker` does.
    :param data_dir: where the brokers' data goes and stays, a directory for each; None: temporary, removed at the end.
    :param timeout: seconds to wait for a start, a stop and an event.

    :ivar brokers: in the order of their ids.  Each can be stopped, killed, started and restarted.
    :ivar tree: the content of the metadata store.
    """

    @names_options("a LocalCluster", settings_of("LocalCluster"))
    def __init__(
        self,
        brokers: int = 3,
        config: Mapping[str, Setting] | None = None,
        *,
        racks: Sequence[str] | None = None,
        as_version: str | None = None,
        data_dir: str | Path | None = None,
        timeout: float = 120.0,
    ) -> None:
        from logbus.metastore.memory_store import MemoryEnsemble

        cluster_arguments(brokers, racks, timeout, as_version)
        given = as_texts(config or {})
        for name in ("broker.id", "workers", "zookeeper.connect"):
            if name in given:
                raise ValueError(f"{name} is not for a cluster in one process: it numbers its brokers from 0 on")
        self.timeout = timeout
        self._pid = os.getpid()
        factor = str(min(3, brokers))
        shared = {
            **TEST_CONFIG,
            **CLUSTER_CONFIG,
            "default.replication.factor": factor,
            "offsets.topic.replication.factor": factor,
            "share.coordinator.state.topic.replication.factor": factor,
            "transaction.state.log.replication.factor": factor,
            **given,
        }
        self._temporary = data_dir is None
        self._home = temporary_directory("cluster") if data_dir is None else Path(data_dir)
        self.ensemble = MemoryEnsemble()
        self.links: BrokerLinks | None = None
        self.thread: ReactorThread
        self.brokers: list[LocalBroker] = []
        for number in range(brokers):
            own = {"broker.id": str(number)}
            if racks is not None:
                own["broker.rack"] = racks[number]
            broker = LocalBroker(self, number, {**shared, **own}, self._home / f"broker-{number}")
            broker.as_version = as_version
            self.brokers.append(broker)

    def start(self) -> Self:
        """
        Start all brokers, and wait until each of them knows all.

        :raise BrokerFailed: a broker did not start; or the cluster runs, or is closed.
        """
        self._require_open()
        if not hasattr(self, "thread"):
            self.thread = ReactorThread("logbus-test-cluster")
            self._tree = MemoryView(self.ensemble, self.thread, self.timeout)
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.wait_ready()
        self.wait_known()
        return self

    def _inspector_at(self) -> tuple[str, dict[str, str], ReactorThread | None]:
        self._require_started()
        if not self.running:
            raise BrokerFailed("no broker of the cluster runs; start one first")
        return self.bootstrap, {}, self.thread

    def snapshot(self) -> ClusterSnapshot:
        """
        The data of all brokers and the metadata as they are now, for :meth:`restore`.

        The brokers are ended for it, as a crash does, and all are started again: clients connect again.

        :raise BrokerFailed: the cluster was never started, or is closed; a broker did not start.
        """
        self._require_started("snapshot")
        self._close_inspector()
        tree = self.thread.run(self._end_at_once, self.timeout)
        for broker in self.brokers:
            broker.stop()
        made = ClusterSnapshot([broker.data_dir for broker in self.brokers], *tree)
        self._start_on(made)
        return made

    async def _end_at_once(self) -> tuple[list[Row], int]:
        """Have all brokers begin to end, before any of them hears of it and takes over; the metadata until then."""
        tree = self.ensemble.tree
        kept = [node.row for node in tree.nodes.values() if not node.row.owner], tree.zxid
        runners = [broker._runner for broker in self.brokers if isinstance(broker._runner, BrokerThread)]
        for each in runners:
            each.isolate()
        for each in runners:
            each.vanish()
        return kept

    def _kill_all(self) -> None:
        self._close_inspector()
        for broker in self.brokers:
            # Nobody needs another leader.
            broker.kill()

    def _start_on(self, snapshot: ClusterSnapshot | None) -> None:
        """Start on a new metadata store, with what a snapshot has."""
        from logbus.metastore.memory_store import MemoryEnsemble

        self.ensemble = MemoryEnsemble()
        if snapshot is not None:
            self.ensemble.tree = Tree.load(snapshot.rows, snapshot.zxid)
        self.links = None
        self._tree = MemoryView(self.ensemble, self.thread, self.timeout)
        self.start()

    def broker_at(self, port: int) -> int | None:
        """The id of the broker whose Kafka port this is."""
        return next((each.id for each in self.brokers if each._port("kafka") == port), None)

    def accepted_by(self, number: int) -> list[Any]:
        """In the thread of the brokers: the transports of the connections that a broker has accepted."""
        runner = self.brokers[number]._runner
        return runner.accepted() if isinstance(runner, BrokerThread) else []

    def close(self) -> None:
        """Stop everything, and remove temporary data. A second time, and in a forked process, it does nothing."""
        if self._pid != os.getpid():
            return
        self._closed = True
        try:
            self._close_inspector()
            if self._temporary:
                self._kill_all()
            for broker in self.brokers:
                broker.close()
        finally:
            if hasattr(self, "thread"):
                self.thread.stop()
                self.thread.join(self.timeout)
            if self._temporary:
                remove_temporary(self._home)


async def succeed_with(fn: Callable[..., object], *args: Any) -> None:
    """Call a function, as a coroutine."""
    fn(*args)
