"""
Several whole brokers in memory: one metadata store, one virtual clock, and connections between them that can be cut.

.. code-block:: python

    class SomeTests(ClusterCase):
        brokers = 3

        def test_something(self) -> None:
            self.cluster[1].create("t", 3)           # by way of any broker
            self.cluster.cut(1, 2)                   # nothing gets through between these two
            self.cluster.kill(0)                     # as by SIGKILL; its session has expired
            self.cluster.settle(5)                   # seconds pass
            self.cluster.boot(0)                     # again, with what its disks hold
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone, ConnectionRefusedError
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.ilogbus import Listener
from logbus.metastore.memory_store import MemoryEnsemble
from logbus.testing.simulation.environment.inodes import PowerCutOutcome
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.handlers.kit import MemoryBroker

PORT = 9092


class MortalReactor:
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


class _End(StringTransport):
    """One end of a connection; what is written arrives in a later turn, unless the way is cut."""

    other: _End
    protocol: Any

    def __init__(self, network: Network, mine: int, theirs: int) -> None:
        host = host_of(theirs)
        super().__init__(IPv4Address("TCP", host_of(mine), PORT), IPv4Address("TCP", host, PORT))
        self.network, self.mine, self.theirs = network, mine, theirs
        self.open = True

    def write(self, data: bytes) -> None:
        if self.open:
            self.network.clock.callLater(0, self.other.receive, bytes(data))

    def writeSequence(self, data: Any) -> None:
        self.write(b"".join(data))

    def receive(self, data: bytes) -> None:
        if self.open and not self.network.is_cut(self.theirs, self.mine):
            self.protocol.dataReceived(data)

    def loseConnection(self) -> None:
        self.network.clock.callLater(0, self.lost)
        self.network.clock.callLater(0, self.other.hear_of_the_end)

    abortConnection = loseConnection

    def hear_of_the_end(self) -> None:
        if not self.network.is_cut(self.theirs, self.mine):
            self.lost()

    def lost(self) -> None:
        if self.open:
            self.open = False
            if self in self.network.ends:
                self.network.ends.remove(self)
            self.protocol.connectionLost(Failure(ConnectionDone()))


@implementer(IStreamClientEndpoint)
@define(eq=False)
class _Way:
    """An endpoint: from one broker to another."""

    network: Network
    mine: int
    host: str

    def connect(self, factory: Any) -> Deferred[Any]:
        theirs = next((id for id in self.network.servers if host_of(id) == self.host), None)
        if theirs is None:
            return fail(ConnectionRefusedError(self.host))
        if self.network.is_cut(self.mine, theirs) or self.network.is_cut(theirs, self.mine):
            return Deferred()  # Nobody answers.
        server = self.network.servers[theirs]
        factories = server.plugin.factories
        if not factories:
            return fail(ConnectionRefusedError(self.host))
        client, accepted = _End(self.network, self.mine, theirs), _End(self.network, theirs, self.mine)
        client.other, accepted.other = accepted, client
        client.protocol = factory.buildProtocol(client.getPeer())
        accepted.protocol = next(iter(factories.values())).buildProtocol(accepted.getPeer())
        self.network.ends += [client, accepted]
        accepted.protocol.makeConnection(accepted)
        client.protocol.makeConnection(client)
        return succeed(client.protocol)


@define(eq=False)
class Network:
    """
    What brokers connect over.

    :ivar cuts: (from, to) pairs that nothing gets through between.
    :ivar ends: both ends of each open connection.
    """

    clock: MemoryReactorClock
    servers: dict[int, MemoryBroker] = field(factory=dict)
    cuts: set[tuple[int, int]] = field(factory=set)
    ends: list[_End] = field(factory=list)

    def is_cut(self, source: int, target: int) -> bool:
        return (source, target) in self.cuts

    def from_broker(self, broker_id: int) -> Callable[[str, int], IStreamClientEndpoint]:
        return lambda host, port: _Way(self, broker_id, host)


@define(eq=False)
class Several:
    """
    A cluster.

    :ivar config: settings of all brokers, by Kafka's names.
    :ivar siblings: the brokers that are workers of one machine.
    """

    config: Mapping[str, str] = field(factory=dict)
    clock: MemoryReactorClock = field(factory=MemoryReactorClock)
    ensemble: MemoryEnsemble = field(factory=MemoryEnsemble)
    network: Network = field(init=False)
    disks: dict[int, list[MemoryDisk]] = field(factory=dict)
    siblings: Sequence[int] = ()
    _reactors: dict[int, MortalReactor] = field(factory=dict, init=False)
    _lives: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.network = Network(self.clock)

    def __getitem__(self, broker_id: int) -> MemoryBroker:
        """A broker that runs."""
        return self.network.servers[broker_id]

    @property
    def alive(self) -> list[int]:
        return sorted(self.network.servers)

    def boot(self, broker_id: int, *, wait: bool = True, **config: str) -> MemoryBroker:
        """
        Start a broker, with what its disks hold from before; in names of settings ``_`` stands for a dot.

        :param wait: until it is ready.
        """
        self._lives += 1
        reactor = self._reactors[broker_id] = MortalReactor(self.clock)
        disks = self.disks.setdefault(broker_id, [MemoryDisk()])
        broker = MemoryBroker(
            {"broker.id": str(broker_id), **self.config, **{key.replace("_", "."): v for key, v in config.items()}},
            disks,
            (Listener("kafka", "kafka", f"tcp:{PORT}", advertised=(host_of(broker_id), PORT)),),
            reactor,
            self.ensemble,
            connect_to=self.network.from_broker(broker_id),
            seed=1000 * broker_id + self._lives,
            siblings=self.siblings if broker_id in self.siblings else (),
        )
        self.network.servers[broker_id] = broker
        started = broker.broker.startService()
        for factory in broker.plugin.factories.values():
            factory.doStart()
        if wait:
            self.now(started)
        else:
            started.addErrback(broker.lost.append)
        return broker

    def stop(self, broker_id: int) -> None:
        """Stop a broker in order."""
        broker = self[broker_id]
        broker.stop()
        del self.network.servers[broker_id]

    def kill(self, broker_id: int, *, expire: bool = True, power: PowerCutOutcome | None = None) -> None:
        """
        End a broker as SIGKILL does; what it wrote is in its disks.

        :param expire: its session has expired, too.
        :param power: its machine lost power: what becomes of what was not synced.
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
        store = broker.broker.member.store
        if expire:
            store.suspend()
            store.expire()
        if store in self.ensemble.clients:
            self.ensemble.clients.remove(store)
        self.settle()

    def cut(self, one: int, other: int, *, both: bool = True) -> None:
        """Let nothing through from ``one`` to ``other``, nor back."""
        self.network.cuts.add((one, other))
        if both:
            self.network.cuts.add((other, one))

    def mend(self) -> None:
        """Let everything through again (what was sent meanwhile is lost, and so its connections hang)."""
        self.network.cuts.clear()

    def settle(self, seconds: float = 0.0) -> None:
        """Let time pass, and everything that is due happen."""
        for _ in range(max(1, round(seconds / 0.05))):
            self.clock.advance(0.05 if seconds else 0)
        for _ in range(20):
            self.clock.advance(0)

    def now(self, answer: Any, seconds: float = 5.0) -> Any:
        """The result of a Deferred that comes about in a few seconds."""
        if not isinstance(answer, Deferred):
            return answer
        results: list[Any] = []
        answer.addBoth(results.append)
        for _ in range(round(seconds / 0.05)):
            if results:
                break
            self.settle()
            if not results:
                self.clock.advance(0.05)
        assert results, "it waits for something"
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]

    def metadata(self, broker_id: int) -> ClusterMetadata:
        """What a broker knows."""
        return self[broker_id].broker.member.metadata

    @property
    def controller(self) -> int:
        """The broker that holds office; −1: none does."""
        holders = [id for id in self.alive if self[id].broker.control.controller.active is not None]
        assert len(holders) <= 1, holders
        return holders[0] if holders else -1

    def close(self) -> None:
        """Stop all, the controller last."""
        self.mend()
        for broker_id in sorted(self.alive, key=lambda id: id == self.controller):
            self.stop(broker_id)


class ClusterCase(SynchronousTestCase):
    """Some brokers that run; broker 0 is the controller."""

    brokers: int = 3
    config: Mapping[str, str] = {}

    def setUp(self) -> None:
        self.cluster = Several(self.config)
        self.addCleanup(self.cluster.close)
        for broker_id in range(self.brokers):
            self.cluster.boot(broker_id)
        self.cluster.settle()

    def leaders(self, topic: str, broker_id: int = 0) -> Sequence[int]:
        """Who leads a topic's partitions, as a broker knows it."""
        image = self.cluster.metadata(broker_id).topic(topic)
        assert image is not None
        return [partition.leader for partition in image.partitions]


def host_of(broker_id: int) -> str:
    """A broker's address."""
    return f"10.1.0.{broker_id}"
