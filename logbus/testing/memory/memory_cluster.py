"""Several whole brokers in memory: one metadata store, one virtual clock, connections that can be cut, and clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure
from typing_extensions import Unpack

from logbus.client.cluster.cluster import Cluster, ClusterArguments
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.ilogbus import Listener
from logbus.metastore.memory_store import MemoryEnsemble
from logbus.testing.broker import TEST_CONFIG
from logbus.testing.memory.memory_broker import NOW_S, MemoryBroker
from logbus.testing.memory.memory_network import PORT, MemoryNetwork, host_of
from logbus.testing.settings import Setting, as_texts
from logbus.testing.simulation.environment.inodes import Directory, PowerCutOutcome
from logbus.testing.simulation.environment.memory_disk import MemoryDisk

__all__ = ["FIRST_CLIENT", "MemoryCluster"]

FIRST_CLIENT = 101
"""The machine of the first client; the others follow. Lower numbers are for brokers."""
_STEP = 0.05
"""The seconds by which time passes."""


class _MortalReactor:
    """A broker's part in the shared reactor: nothing of what it planned happens once it is dead."""

    def __init__(self, shared: MemoryReactorClock) -> None:
        self._shared = shared
        self.dead = False

    def callLater(self, delay: float, function: Callable[..., object], *args: Any, **kwargs: Any) -> Any:
        def call() -> None:
            if not self.dead:
                function(*args, **kwargs)

        return self._shared.callLater(delay, call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shared, name)


@define(eq=False)
class MemoryCluster:
    """
    Brokers that tests start, kill and cut off, and clients of them. Broker 0, if started first, is the controller.

    .. code-block:: python

        brokers = MemoryCluster.started(3)
        brokers[1].create("orders", 3)              # by way of any broker
        cluster = brokers.client()                  # of logbus.client, on a machine of its own
        brokers.cut(1, 2)                           # nothing gets through between these two
        brokers.kill(0)                             # as by SIGKILL; its session has expired
        brokers.settle(5)                           # five seconds pass
        brokers.boot(0)                             # again, with what its disks hold
        brokers.close()

    :ivar config: settings of all brokers, by Kafka's names.
    :ivar clock: the virtual time, which the program under test uses as its reactor.
    :ivar ensemble: the metadata store, whose sessions can be expired.
    :ivar network: the connections.
    :ivar disks: of each broker; they outlive it.
    :ivar siblings: the brokers that are workers of one machine.
    :ivar epoch: the wall-clock time when the virtual clock is at 0, in seconds since 1970.
    """

    config: Mapping[str, str] = field(factory=dict)
    clock: MemoryReactorClock = field(factory=MemoryReactorClock)
    ensemble: MemoryEnsemble = field(factory=MemoryEnsemble)
    network: MemoryNetwork = field(init=False)
    disks: dict[int, list[MemoryDisk]] = field(factory=dict)
    siblings: Sequence[int] = ()
    epoch: float = NOW_S
    _reactors: dict[int, _MortalReactor] = field(factory=dict, init=False)
    _lives: int = field(default=0, init=False)
    _clients: list[Cluster] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.network = MemoryNetwork(self.clock)

    @classmethod
    def started(cls, brokers: int = 1, config: Mapping[str, Setting] | None = None) -> Self:
        """
        Brokers that run, with the settings of :data:`logbus.testing.broker.TEST_CONFIG`. Their wall clocks begin at the
        present time, so that they accept the timestamps of programs that look at the computer's.

        :param brokers: their number; the ids count from 0.
        :param config: further settings by Kafka's names; a value is a text, a number, a bool, or a list of them.
        :raises ConfigError: a setting is wrong.
        :raises ValueError: there is no broker, or more than 100.
        """
        if not 1 <= brokers < FIRST_CLIENT:
            raise ValueError(f"brokers is {brokers}; a cluster in memory has 1 to {FIRST_CLIENT - 1}")
        cluster = cls({**TEST_CONFIG, **as_texts(config or {})}, epoch=time.time())
        for broker_id in range(brokers):
            cluster.boot(broker_id)
        cluster.settle()
        return cluster

    def __getitem__(self, broker_id: int) -> MemoryBroker:
        """
        A broker that runs.

        :raises KeyError: it does not.
        """
        return self.network.servers[broker_id]

    @property
    def alive(self) -> list[int]:
        """The ids of the brokers that run."""
        return sorted(self.network.servers)

    @property
    def bootstrap(self) -> str:
        """The addresses of the brokers that run, for clients that are given :meth:`endpoint` as well."""
        return ",".join(f"{host_of(broker_id)}:{PORT}" for broker_id in self.alive)

    def wall_clock(self) -> float:
        """The brokers' time, in seconds since 1970: the ``wall_clock`` of a producer whose records' times matter."""
        return self.epoch + self.clock.seconds()

    @property
    def controller(self) -> int:
        """The id of the active controller; −1: there is none."""
        holders = [id for id in self.alive if self[id].broker.control.controller.active is not None]
        assert len(holders) <= 1, holders
        return holders[0] if holders else -1

    def metadata(self, broker_id: int) -> ClusterMetadata:
        """The cluster's metadata as a broker has it."""
        return self[broker_id].broker.member.metadata

    # Clients.

    def endpoint(self, host: str, port: int) -> Any:
        """
        An endpoint of a broker, for a program that makes its own ``Cluster``:
        ``Cluster(brokers.clock, brokers.bootstrap, endpoint=brokers.endpoint)``.
        """
        return self.network.from_machine(FIRST_CLIENT - 1)(host, port)

    def client(self, **options: Unpack[ClusterArguments]) -> Cluster:
        """
        A client's ``Cluster`` on a machine of its own: the first is machine 101, the next 102 and so on, for
        :meth:`cut`. It is closed with the brokers.

        :param options: of :class:`logbus.client.Cluster`.
        """
        machine = FIRST_CLIENT + len(self._clients)
        client = Cluster(self.clock, self.bootstrap, endpoint=self.network.from_machine(machine), **options)
        self._clients.append(client)
        return client

    # Faults.

    def boot(self, broker_id: int, *, wait: bool = True, **config: str) -> MemoryBroker:
        """
        Start a broker, with what its disks hold from before; in names of settings ``_`` stands for a dot.

        :param wait: until it is ready.
        """
        self._lives += 1
        reactor = self._reactors[broker_id] = _MortalReactor(self.clock)
        broker = self.network.servers[broker_id] = self._made(
            config={
                "broker.id": str(broker_id),
                **self.config,
                **{key.replace("_", "."): value for key, value in config.items()},
            },
            disks=self.disks.setdefault(broker_id, [MemoryDisk()]),
            listeners=(Listener("kafka", "kafka", f"tcp:{PORT}", advertised=(host_of(broker_id), PORT)),),
            reactor=reactor,
            ensemble=self.ensemble,
            connect_to=self.network.from_machine(broker_id),
            seed=1000 * broker_id + self._lives,
            siblings=self.siblings if broker_id in self.siblings else (),
            epoch=self.epoch,
        )
        started = broker.begin()
        if wait:
            self.result(started)
        else:
            started.addErrback(broker.lost.append)
        return broker

    def _made(self, **how: Any) -> MemoryBroker:
        return MemoryBroker(**how)

    def stop(self, broker_id: int) -> None:
        """Stop a broker in order."""
        self[broker_id].stop()
        del self.network.servers[broker_id]

    def kill(self, broker_id: int, *, expire: bool = True, power: PowerCutOutcome | None = None) -> None:
        """
        End a broker as SIGKILL does; what it wrote is in its disks.

        :param expire: its session has expired, too.
        :param power: its machine lost power: the outcome for what was not synced.
        """
        broker = self.network.servers.pop(broker_id)
        self._reactors[broker_id].dead = True
        for end in list(self.network.ends):
            if end.mine == broker_id:
                end.open = False
                self.network.ends.remove(end)
                end.other.lost()
        self.disks[broker_id] = [
            disk.after_kill() if power is None else disk.after_power_cut(power) for disk in broker.disks
        ]
        store: Any = broker.broker.member.store
        if expire:
            store.suspend()
            store.expire()
        if store in self.ensemble.clients:
            self.ensemble.clients.remove(store)
        self.settle()

    def cut(self, one: int, other: int, *, both: bool = True) -> None:
        """Let nothing through from machine ``one`` to ``other``, nor back."""
        self.network.cuts.add((one, other))
        if both:
            self.network.cuts.add((other, one))

    def mend(self) -> None:
        """Let everything through again. What was sent meanwhile is lost, so connections of before hang."""
        self.network.cuts.clear()

    # Time.

    def settle(self, seconds: float = 0.0) -> None:
        """Let time pass, and everything happen that is due."""
        for _ in range(max(1, round(seconds / _STEP))):
            self.clock.advance(_STEP if seconds else 0)
        for _ in range(20):
            self.clock.advance(0)

    def result(self, answer: Any, seconds: float = 5.0) -> Any:
        """
        The result of a Deferred; time passes until it is there.

        :param seconds: the most that it may take.
        :raises AssertionError: it takes longer.
        :raises Exception: the Deferred fails with it.
        """
        if not isinstance(answer, Deferred):
            return answer
        results: list[Any] = []
        answer.addBoth(results.append)
        for _ in range(round(seconds / _STEP)):
            if results:
                break
            self.settle()
            if not results:
                self.clock.advance(_STEP)
        assert results, f"no result within {seconds:g} s of the virtual clock"
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]

    def close(self) -> None:
        """Close the clients, stop the brokers, the controller last, and drop what the disks hold."""
        self.mend()
        clients, self._clients = self._clients, []
        for client in clients:
            self.result(client.close())
        for broker_id in sorted(self.alive, key=lambda id: id == self.controller):
            self.stop(broker_id)
        for disk in [disk for disks in self.disks.values() for disk in disks]:
            disk.tree = Directory()
