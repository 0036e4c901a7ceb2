"""A complete broker in memory: memory disks, a memory metadata store, and a port that needs no socket."""

from __future__ import annotations

import gc
import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any, Self

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure

from logbus.broker import Broker
from logbus.cluster.peers import ConnectTo
from logbus.config import ConfigView
from logbus.ilogbus import Listener
from logbus.metastore.memory_store import MemoryEnsemble, MemoryStore
from logbus.net.factory import KafkaServerFactory
from logbus.testing.simulation.environment.memory_disk import Directory, MemoryDisk

__all__ = ["NOW_S", "MemoryBroker"]

_MADE = itertools.count(1)

NOW_S = 1_700_000_000.0
"""The default wall-clock time at which a virtual clock is at 0, in seconds since 1970."""


class _Factory(Factory):
    """Hides that ours would like a transport of its own, so that no port is opened."""

    noisy = False

    def __init__(self, factory: KafkaServerFactory) -> None:
        self.factory = factory

    def buildProtocol(self, addr: Any) -> Any:
        return self.factory.buildProtocol(addr)

    def drain(self) -> Deferred[None]:
        return self.factory.drain()

    def doStart(self) -> None:
        self.factory.doStart()

    def doStop(self) -> None:
        self.factory.doStop()


@define(eq=False)
class _Plugin:
    """The Kafka protocol on a port of the memory reactor."""

    name: str = "kafka"
    summary: str = "Kafka"
    factories: dict[str, KafkaServerFactory] = field(factory=dict)

    def factory(self, broker: Any, listener: Listener) -> _Factory:
        made = self.factories[listener.name] = broker.kafka_factory(listener)
        return _Factory(made)


class _Store(MemoryStore):
    """A metadata store that has no address."""

    path = "memory"


@define(eq=False)
class MemoryBroker:
    """
    A broker on a virtual clock; a :class:`~logbus.testing.memory.MemoryCluster` makes them.

    :ivar config: settings by Kafka's names.
    :ivar disks: one for each log directory.
    :ivar reactor: the virtual clock.
    :ivar ensemble: the metadata store that the brokers share.
    :ivar lost: the errors for which the broker gave up.
    :ivar connect_to: how it reaches other brokers; None: by the reactor.
    :ivar seed: of its random choices; brokers of one cluster need different ones.
    :ivar siblings: the broker ids of the workers of its machine.
    :ivar epoch: the wall-clock time when the virtual clock is at 0, in seconds since 1970.
    :ivar broker: the composed broker; its parts are not a public interface.
    """

    config: Mapping[str, str] = field(factory=dict)
    disks: list[MemoryDisk] = field(factory=lambda: [MemoryDisk()])
    listeners: Sequence[Listener] = (Listener("kafka", "kafka", "tcp:9092"),)
    reactor: Any = field(factory=MemoryReactorClock)
    ensemble: MemoryEnsemble = field(factory=MemoryEnsemble)
    plugin: _Plugin = field(factory=_Plugin)
    lost: list[Failure] = field(factory=list)
    connect_to: ConnectTo | None = None
    seed: int = 7
    siblings: Sequence[int] = ()
    epoch: float = NOW_S
    broker: Broker = field(init=False)

    def __attrs_post_init__(self) -> None:
        # Each file on a memory disk holds a descriptor, until the broker of a test before is really gone.
        if not next(_MADE) % 10:
            gc.collect()
        settings = {
            "log.dirs": ",".join(f"/memory{i}" for i in range(len(self.disks))),
            "log.flush.before.ack": "false",
            **self.config,
        }
        self.broker = Broker(
            self.reactor,
            ConfigView.load(set=settings),
            self.listeners,
            wall_clock=lambda: self.epoch + self.reactor.seconds(),
            randomness=random.Random(self.seed),
            plugins={"kafka": self.plugin},  # type: ignore[dict-item]
            disks=list(self.disks),
            store=self._store(),
            connect_to=self.connect_to,
            siblings=self.siblings,
        )
        self.broker.when_lost(self.lost.append)

    def _store(self) -> _Store:
        store = _Store(self.ensemble)
        self.ensemble.clients.append(store)
        return store

    def begin(self) -> Deferred[None]:
        """Start, as far as it goes at once; fires when it is ready."""
        started = self.broker.startService()
        self._serve()
        return started

    def _serve(self) -> None:
        """Have the factories of open listeners begin what they do with time, such as closing idle connections."""
        for factory in self.plugin.factories.values():
            if not factory.numPorts:
                factory.doStart()

    def start(self) -> Self:
        """Start it; it is ready on return."""
        self.now(self.begin())
        self._serve()  # Listeners were opened since.
        return self

    def stop(self) -> None:
        """Stop it in order; time passes meanwhile."""
        stopped = self.broker.stopService()
        for _ in range(100):
            if stopped.called:
                break
            self.reactor.advance(0.1)
        self.now(stopped)
        for factory in self.plugin.factories.values():
            factory.doStop()

    def close(self) -> None:
        """Stop, and let go of the disks: each file on them holds a descriptor, and test cases live long."""
        self.stop()
        for disk in self.disks:
            disk.tree = Directory()

    def now(self, answer: Any) -> Any:
        """The result of a Deferred that needs no time."""
        if not isinstance(answer, Deferred):
            return answer
        results: list[Any] = []
        answer.addBoth(results.append)
        for _ in range(20):
            if results:
                break
            self.reactor.advance(0)
        assert results, "it waits for something"
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]

    def create(self, name: str = "t", partitions: int = 1, **configs: str) -> None:
        """Create a topic; in names of settings ``_`` stands for a dot."""
        overrides = {key.replace("_", "."): value for key, value in configs.items()}
        self.now(self.broker.plugin_services.create_topic(name, partitions, overrides))
