"""Two or more clusters in memory, on one clock, and mirrors between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from logbus.client import Cluster, ConsumerRecord, Producer
from logbus.client.admin.admin_client import AdminClient, NewTopic
from logbus.errors import LogbusError
from logbus.mirror.mirror import Mirror
from logbus.mirror.mirror_options import MirrorOptions
from logbus.mirror.position_store import read_partition
from logbus.model import TopicPartition
from logbus.testing.broker import TEST_CONFIG
from logbus.testing.memory import MemoryCluster
from logbus.testing.simulation.environment.memory_disk import MemoryDisk


class RunningMirror:
    """A mirror, the lines that it said, and its end."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self.lines: list[str] = []
        mirror.status.say = self.lines.append
        self.ended: Deferred[None] = Deferred.fromCoroutine(mirror.run())


class MirrorCase(SynchronousTestCase):
    """Clusters ``a``, ``b`` and so on; time is that of all of them."""

    def setUp(self) -> None:
        self.clock = MemoryReactorClock()
        self.clusters: dict[str, MemoryCluster] = {}
        self.clients: dict[str, Cluster] = {}
        self.running: list[RunningMirror] = []

    def tearDown(self) -> None:
        for each in self.running:
            each.mirror.stop()
            each.ended.addErrback(lambda failure: failure.trap(LogbusError, CancelledError))
        self.settle(1)
        for each in self.running:
            self.successResultOf(each.ended)
        for cluster in self.clusters.values():
            cluster.close()

    def cluster(self, name: str, **config: str) -> MemoryCluster:
        """A cluster of one broker."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        cluster = self.clusters[name] = MemoryCluster({**TEST_CONFIG, **settings}, clock=self.clock)
        # Of which the cluster's id is made.
        cluster._lives = 100 * len(self.clusters)
        cluster.boot(0)
        cluster.settle()
        self.clients[name] = cluster.client()
        return cluster

    def snapshot(self, name: str) -> list[MemoryDisk]:
        """What a cluster's disk has now."""
        return [disk.after_kill() for disk in self.clusters[name][0].disks]

    def replace(self, name: str, disks: list[MemoryDisk]) -> None:
        """End a cluster's broker as SIGKILL does, and start it with other contents of its disk."""
        self.clusters[name].kill(0)
        self.clusters[name].disks[0] = disks
        self.clusters[name].boot(0)
        self.settle(1)

    def create(self, name: str, topic: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic in a cluster."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        new = NewTopic(topic, partitions, 1, settings)
        self.assertEqual(self.result(AdminClient(self.clients[name]).create_topics([new])), {topic: None})

    def mirror(self, source: str, target: str, **options: Any) -> RunningMirror:
        """A mirror between two clusters, with connections of its own."""
        merged = {"heartbeat_interval": 0, "checkpoint_interval": 0, **options}
        mirror = Mirror(
            self.clusters[source].client(),
            self.clusters[target].client(),
            MirrorOptions(source=source, target=target, **merged),
            wall_clock=self.clusters[target].wall_clock,
        )
        running = RunningMirror(mirror)
        self.running.append(running)
        return running

    def mirror_all(self, source: str, target: str, **options: Any) -> RunningMirror:
        """Mirror everything that is there, to the end."""
        running = self.mirror(source, target, until_end=True, **options)
        self.result(running.ended, 60)
        return running

    def send(self, name: str, topic: str, values: Sequence[bytes | None], partition: int = 0, **options: Any) -> None:
        """Write records, one batch for all."""

        async def send() -> None:
            producer = Producer(self.clients[name], linger=0.01, wall_clock=self.clusters[name].wall_clock, **options)
            sent = [producer.send(topic, value, b"k%d" % n, partition=partition) for n, value in enumerate(values)]
            for each in sent:
                await each
            await producer.close()

        self.result(Deferred.fromCoroutine(send()))

    def read(self, name: str, topic: str, partition: int = 0) -> list[ConsumerRecord]:
        """All committed records of a partition."""

        async def read() -> list[ConsumerRecord]:
            found: list[ConsumerRecord] = []
            await read_partition(self.clients[name], TopicPartition(topic, partition), found.append)
            return found

        records: list[ConsumerRecord] = self.result(Deferred.fromCoroutine(read()))
        return records

    def values(self, name: str, topic: str, partition: int = 0) -> list[bytes | None]:
        """The values of all committed records of a partition."""
        return [each.value for each in self.read(name, topic, partition)]

    def topics(self, name: str) -> set[str]:
        """The topics of a cluster that are not internal to mirrors and brokers."""
        found = self.result(AdminClient(self.clients[name]).list_topics())
        return {each.name for each in found if not each.name.endswith(".internal")}

    def settle(self, seconds: float = 0.0) -> None:
        """Let time pass."""
        next(iter(self.clusters.values())).settle(seconds)

    def result(self, answer: Any, seconds: float = 10.0) -> Any:
        """A Deferred's result; time passes until it is there."""
        return next(iter(self.clusters.values())).result(answer, seconds)
