"""A simulated machine with a broker: its processes one after the other, and the disk and clock that outlive them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.broker import Broker
from logbus.config import ConfigView
from logbus.ilogbus import Listener
from logbus.protocols import KafkaPlugin
from logbus.testing.simulation.environment.inodes import Directory, Inode, PowerCutOutcome
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from logbus.testing.simulation.environment.network import Network
from logbus.testing.simulation.environment.node_reactor import NodeReactor
from logbus.testing.simulation.environment.remote_objects import RemoteObjects
from logbus.testing.simulation.environment.simulated_store import Ensemble, SimulatedStore
from logbus.testing.simulation.environment.simulated_threads import SimulatedThreads
from logbus.testing.simulation.environment.timed_disk import TimedDisk
from logbus.testing.simulation.environment.virtual_clock import VirtualClock
from logbus.testing.simulation.environment.worker_store import WorkerStoreHost

PORT = 9092
EPOCH_S = 1_700_000_000.0
"""The wall clock at the beginning."""


def host_of(broker_id: int) -> str:
    """The address of a broker's machine."""
    return f"10.0.0.{broker_id}"


@define(eq=False)
class World:
    """
    The parts that all nodes share.

    :ivar random: seeds the generators of all parts of the simulation.
    :ivar worker_store: the metadata store, if the brokers are workers; ``worker_disk``: the disk of their machine, in
        which each has a directory.
    :ivar remote_objects: the object store of tiered storage, if there is one.
    """

    clock: VirtualClock
    network: Network
    ensemble: Ensemble
    random: Random
    worker_store: WorkerStoreHost | None = None
    worker_disk: MemoryDisk | None = None
    remote_objects: RemoteObjects | None = None

    def generator(self) -> Random:
        """A new generator."""
        return Random(self.random.getrandbits(64))


@define(eq=False)
class BrokerNode:
    """
    One broker and its machine.

    :ivar config: settings by Kafka's names.
    :ivar siblings: the ids of all workers of the machine, if it is one.
    :ivar tree: the content of its disk, or of its directory on the workers' disk.
    :ivar clock_offset: seconds that its wall clock is ahead.
    :ivar broker: the running one, or the last one.
    :ivar up: whether it runs, frozen or not.
    :ivar lives: the number of its processes so far.
    :ivar started: called with each broker before it starts; ``power_lost``: called with its id when it loses power.
    :ivar trouble: errors that no fault explains.
    """

    world: World
    broker_id: int
    config: Mapping[str, str]
    started: Callable[[BrokerNode], object] = lambda node: None
    power_lost: Callable[[int], object] = lambda broker_id: None
    siblings: Sequence[int] = ()
    tree: Directory = field(factory=Directory, init=False)
    clock_offset: float = field(default=0.0, init=False)
    up: bool = field(default=False, init=False)
    ready: bool = field(default=False, init=False)
    lives: int = field(default=0, init=False)
    trouble: list[str] = field(factory=list, init=False)
    reactor: NodeReactor = field(init=False)
    broker: Broker = field(init=False)
    disk: TimedDisk = field(init=False)
    store: SimulatedStore = field(init=False)
    threads: SimulatedThreads = field(init=False)
    _stopping: bool = field(default=False, init=False)
    _adopted_before: int = field(default=0, init=False)

    @property
    def host(self) -> str:
        """Its address."""
        return host_of(self.broker_id)

    @property
    def adopted(self) -> int:
        """How many of its logs began as links to those of another worker, over all its processes."""
        return self._adopted_before + self.broker.replication.copies.adopted

    @property
    def leads(self) -> bool:
        """Whether it leads a partition, as far as it knows."""
        return any(replica.partition.is_leader for replica in self.broker.replication.replicas)

    def start(self) -> None:
        """Start a broker on the machine's disk."""
        world = self.world
        if self.lives:
            self._adopted_before = self.adopted
        self.lives += 1
        self.up, self.ready, self._stopping = True, False, False
        reactor = self.reactor = NodeReactor(world.clock, world.network, self.host)
        root = "/log"
        if world.worker_disk is not None:
            directory = world.worker_disk.below(f"workers/{self.broker_id}")
            root, self.tree = directory.root, directory.tree
        self.disk = TimedDisk(root, self.tree, world.clock, reactor, world.generator(), world.worker_disk)
        self.store = (
            SimulatedStore(world.ensemble, reactor)
            if world.worker_store is None
            else cast(SimulatedStore, world.worker_store.client(reactor))
        )
        world.network.started(reactor)
        threads = self.threads = SimulatedThreads(world.clock, reactor)
        objects = world.remote_objects
        self.broker = Broker(
            reactor,
            ConfigView.load(set={"broker.id": str(self.broker_id), "log.dirs": root, **self.config}),
            [Listener("kafka", "kafka", f"tcp:{PORT}:interface={self.host}")],
            wall_clock=lambda: EPOCH_S + world.clock.now + self.clock_offset,
            randomness=world.generator(),
            plugins={"kafka": KafkaPlugin()},
            disks=[self.disk],
            store=self.store,
            siblings=self.siblings,
            remote_storage=None if objects is None else objects.client(self.broker_id, threads),
            remote_threads=threads.pool,
        )
        # What a request costs here must not change the order of events: a seed gives the same run everywhere.
        self.broker.env.slice_scheduler.processor_seconds = reactor.seconds
        self.broker.when_lost(lambda failure: self._ended(failure, reactor))
        self.started(self)
        life = self.lives

        def up(result: Any) -> None:
            if life != self.lives or reactor.dead:
                return
            if isinstance(result, Failure):
                self._ended(result, reactor)
            else:
                self.ready = True

        self.broker.startService().addBoth(up)

    def _ended(self, failure: Failure, reactor: NodeReactor) -> None:
        """The broker gave up: its process ends, and a supervisor starts it again."""
        if reactor.dead or self._stopping:
            return
        if not self.disk.failure:
            self.trouble.append(f"broker {self.broker_id} gave up: {failure.getTraceback()}")
        self.kill()
        self.world.clock.at(self.world.clock.now + 1, None, self.start_again)

    def start_again(self) -> None:
        """Start it if it is down."""
        if not self.up:
            self.start()

    def stop(self) -> Deferred[None]:
        """Stop it gracefully; fires when its process has ended."""
        self._stopping = True
        ended: Deferred[None] = Deferred()
        life = self.lives

        def gone(result: Any) -> None:
            if life == self.lives and not self.reactor.dead:
                if isinstance(result, Failure):
                    self.trouble.append(f"broker {self.broker_id} did not stop: {result.getErrorMessage()}")
                self.kill()
            ended.callback(None)

        self.broker.stopService().addBoth(gone)
        return ended

    def orphan(self) -> Deferred[None]:
        """Stop it as a worker whose supervisor is gone, and the metadata store with it; fires when it has ended."""
        self._stopping = True
        store: Any = self.store
        store.abandon()
        return self.stop()

    def kill(self) -> None:
        """End its process; the machine stays."""
        self._die(silently=False)

    def lose_synced(self, topics: Collection[str], share: float) -> int:
        """
        Kill it, and remove the end of each active segment from its disk, synced or not.

        :param topics: of the logs; ``share``: of each segment that stays.
        :return: the number of lost bytes.
        """
        self.kill()
        lost = 0
        for name, directory in self.tree.entries.items():
            if name.rpartition("-")[0] in topics and isinstance(directory, Directory):
                active = directory.entries[max(each for each in directory.entries if each.endswith(".log"))]
                assert isinstance(active, Inode)
                size = len(active.content())
                active.truncate(int(size * share))
                active.sync()
                lost += size - int(size * share)
        return lost

    def cut_power(self, mode: str) -> None:
        """
        Switch the machine off.

        :param mode: of the loss of unsynced writes; see :class:`.inodes.PowerCutOutcome`.
        """
        self.go_dark()
        self.tree = self.disk.after_power_cut(PowerCutOutcome(mode, self.world.generator())).tree

    def go_dark(self) -> None:
        """Lose power; what becomes of the disk is for others to say."""
        if self.up:
            self._die(silently=True)
        self.world.network.powered[self.host] = False
        self.power_lost(self.broker_id)

    def _die(self, *, silently: bool) -> None:
        if self.up:
            self.up = self.ready = False
            self.reactor.dead = True
            self.disk.crashed = True
            self.threads.kill()
            self.world.network.ended(self.reactor, silently=silently)
            self.store.died()

    def die_at_step(self, steps: int, then: Callable[[], object]) -> None:
        """
        Have it stop at a step of its disk.

        :param steps: the number of steps from now.
        :param then: called at that point, to kill it or to cut the power.
        """
        self.disk.crash_at = self.disk.steps + steps
        self.disk.on_crash = then

    def freeze(self) -> None:
        """Stop the process for a while."""
        self.reactor.freeze()
        self.store.froze()

    def thaw(self) -> None:
        """Let it continue."""
        if self.up and self.reactor.frozen:
            self.reactor.thaw()
            self.store.thawed()
