"""The brokers of a simulation on one clock, with their network and their metadata store."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from attrs import define, field

from logbus.testing.simulation.environment.broker_node import EPOCH_S, PORT, BrokerNode, World, host_of
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from logbus.testing.simulation.environment.network import Network
from logbus.testing.simulation.environment.node_reactor import NodeReactor
from logbus.testing.simulation.environment.remote_objects import RemoteObjects
from logbus.testing.simulation.environment.simulated_store import Ensemble
from logbus.testing.simulation.environment.virtual_clock import VirtualClock
from logbus.testing.simulation.environment.worker_store import WorkerStoreHost
from logbus.testing.simulation.settings import TIERED, Settings


@define(eq=False)
class SimulatedCluster:
    """
    The world of a run, and the brokers in it.

    :ivar random: what is drawn from it seeds all generators; in this order, so that a seed gives the same run.
    :ivar note: called with a line for each segment that arrives.
    :ivar nodes: the brokers by id, once :meth:`start` was called.
    """

    settings: Settings
    clock: VirtualClock
    random: Random
    note: Callable[[str], None]
    world: World = field(init=False)
    nodes: dict[int, BrokerNode] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        settings, clock, random = self.settings, self.clock, self.random
        network = Network(clock, Random(random.getrandbits(64)), self.note)
        network.links.latency = settings.latency
        ensemble = Ensemble(
            wall_clock=self.wall_clock,
            time=clock,
            random=Random(random.getrandbits(64)),
            session_timeout=settings.session_timeout,
        )
        self.world = World(clock, network, ensemble, Random(random.getrandbits(64)))
        if TIERED in settings.workloads:
            self.world.remote_objects = RemoteObjects(clock, self.world.generator())
        if settings.workers:
            self.world.worker_store = WorkerStoreHost(
                clock, network, self.world.generator(), self.wall_clock, settings.session_timeout
            )
            self.world.worker_disk = MemoryDisk("/log")

    def wall_clock(self) -> float:
        """Seconds since 1970, by a clock that is right."""
        return EPOCH_S + self.clock.now

    @property
    def broker_ids(self) -> list[int]:
        """The ids of all brokers."""
        return list(range(1, self.settings.brokers + 1))

    @property
    def addresses(self) -> dict[int, tuple[str, int]]:
        """Hosts and ports of the brokers, by id."""
        return {each: (host_of(each), PORT) for each in self.broker_ids}

    def start(
        self,
        started: Callable[[BrokerNode], object] = lambda node: None,
        power_lost: Callable[[int], object] = lambda broker_id: None,
    ) -> None:
        """Start the brokers; the arguments are those of :class:`.BrokerNode`."""
        for broker_id in self.broker_ids:
            siblings = self.broker_ids if self.settings.workers else ()
            node = BrokerNode(self.world, broker_id, self.settings.config(), started, power_lost, siblings)
            self.nodes[broker_id] = node
            node.start()

    def client(self, host: str) -> NodeReactor:
        """The reactor of a client's process, which has started at an address."""
        reactor = NodeReactor(self.clock, self.world.network, host)
        self.world.network.started(reactor)
        return reactor

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Advance time until a condition is true; return whether it is, after so many seconds at the latest."""
        end = self.clock.now + seconds
        while not condition():
            if self.clock.now >= end:
                return False
            self.clock.run_until(min(self.clock.now + 0.25, end))
        return True

    def wait_until_ready(self, seconds: float) -> list[int]:
        """Advance time until all brokers are ready; return the ids of those that are not after so many seconds."""
        self.wait(lambda: not self._not_ready(), seconds)
        return self._not_ready()

    def _not_ready(self) -> list[int]:
        return [node.broker_id for node in self.nodes.values() if not node.ready]

    def end(self) -> None:
        """End all brokers' processes."""
        for node in self.nodes.values():
            node.reactor.dead = True
            node.threads.kill()
