"""Groups of connectors in one process, with brokers, ZooKeeper and time in memory; members die on command."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock, deferLater
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.cluster.cluster import Cluster
from logbus.client.connector import ConsumerConnector, MessageStream, TopicFilter
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.metastore.base_store import attempt
from logbus.metastore.memory_store import MemoryEnsemble, MemoryStore
from logbus.metastore.operations import NodeExists, NoNode, SessionState
from logbus.model import TopicPartition
from tests.client.memory_cluster import Log, MemoryCluster

T = TypeVar("T")

SESSION_SECONDS = 6.0
LATENCY = 0.0


class FaultyStore(MemoryStore):
    """
    A client of ZooKeeper with a fault at its n-th request.

    :ivar requests: how many were made.
    :ivar fault: what happens, and at which request.
    :ivar dead: its process is gone: nobody hears of anything.
    """

    requests = 0
    fault: tuple[int, Callable[[FaultyStore], None]] | None = None
    dead = False

    def _request(self, run: Callable[[], T]) -> Deferred[T]:
        self.requests += 1
        if self.dead:
            return Deferred()
        if self.fault is not None and self.requests == self.fault[0]:
            # Before it is served.
            self.ensemble.clock.callLater(0, self.fault[1], self)  # type: ignore[union-attr]
        return super()._request(run)

    def die(self, *, applied: bool = False) -> None:
        """The process ends; what it asked for reached the servers or did not."""
        self.dead = True
        cut = list(self._in_flight)
        self._in_flight.clear()
        self.ensemble.clients.remove(self)
        if applied:
            for _, run in cut:
                attempt(run)
        self.ensemble.clock.callLater(SESSION_SECONDS, self.ensemble.end, self.session_id)  # type: ignore[union-attr]

    def forget_session(self) -> None:
        """Another session begins, while the servers still wait for a sign of life of the one before."""
        self._move(SessionState.LOST)
        self.ensemble.clock.callLater(SESSION_SECONDS, self.ensemble.end, self.session_id)  # type: ignore[union-attr]
        self._begin()


@define(eq=False)
class Reader:
    """
    A member: a connector, and a loop for each of its streams.

    :ivar seconds: how long a record takes to be done.
    :ivar taken: the records that came out; ``done``: those that were dealt with.
    """

    group: Group
    store: FaultyStore
    cluster: Cluster
    connector: ConsumerConnector
    seconds: float = 0.0
    taken: list[ConsumerRecord] = field(factory=list)
    done: list[ConsumerRecord] = field(factory=list)
    errors: list[Failure] = field(factory=list)
    loops: list[Deferred[None]] = field(factory=list)
    joined: Deferred[Any] | None = None

    @property
    def alive(self) -> bool:
        return not self.store.dead

    def read(self, topics: dict[str, int] | TopicFilter, streams: int = 1) -> Reader:
        """Join, and read everything that comes."""

        async def run() -> None:
            if isinstance(topics, TopicFilter):
                every = await self.connector.create_message_streams_by_filter(topics, streams)
            else:
                found = await self.connector.create_message_streams(topics)
                every = [stream for some in found.values() for stream in some]
            self.loops += [Deferred.fromCoroutine(self._loop(each)) for each in every]

        self.joined = Deferred.fromCoroutine(run())
        self.joined.addErrback(self.errors.append)
        return self

    async def _loop(self, stream: MessageStream) -> None:
        try:
            async for record in stream:
                if self.store.dead:
                    return
                self.taken.append(record)
                if self.seconds:
                    await deferLater(self.group.clock, self.seconds)
                self.done.append(record)
        except CancelledError:
            pass
        except Exception:
            self.errors.append(Failure())

    def die(self, *, applied: bool = False) -> None:
        """As SIGKILL does it."""
        self.store.die(applied=applied)
        self.bury()

    def bury(self) -> None:
        """The store died: so did the rest."""
        for each in self.loops:
            each.cancel()

    @property
    def values(self) -> list[bytes | None]:
        return [each.value for each in self.done]


@define(eq=False)
class Group:
    """Members, the brokers, and what is in ZooKeeper."""

    name: str = "g"
    brokers: MemoryCluster = field(factory=MemoryCluster)
    readers: list[Reader] = field(factory=list)
    ensemble: MemoryEnsemble = field(init=False)
    admin: MemoryStore = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.ensemble = MemoryEnsemble(clock=self.clock, latency=LATENCY)
        self.admin = self.ensemble.client()
        self.admin.open()
        self.write("/brokers/ids/1", b"{}")
        self.write("/brokers/topics", b"")

    @property
    def clock(self) -> Clock:
        return self.brokers.clock

    def settle(self, seconds: float = 0.0, step: float = 0.05) -> None:
        """Let time pass."""
        until = self.clock.seconds() + seconds
        self.brokers.settle()
        while self.clock.seconds() < until - 1e-9:
            self.brokers.settle(min(step, until - self.clock.seconds()))

    def now(self, asked: Deferred[T]) -> T:
        """The result of a request."""
        results: list[Any] = []
        asked.addBoth(results.append)
        for _ in range(2000):
            if results:
                break
            self.settle(0.01)
        assert results, "no answer"
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]  # type: ignore[no-any-return]

    # ZooKeeper.

    def write(self, path: str, data: bytes) -> None:
        """Make or change a node."""
        names = path.split("/")
        for depth in range(2, len(names)):
            try:
                self.now(self.admin.create("/".join(names[:depth])))
            except NodeExists:
                pass
        try:
            self.now(self.admin.create(path, data))
        except NodeExists:
            self.now(self.admin.set(path, data))

    def data(self, path: str) -> bytes | None:
        node = self.ensemble.tree.nodes.get(path)
        return None if node is None else node.row.data

    def names(self, path: str) -> list[str]:
        node = self.ensemble.tree.nodes.get(path)
        return [] if node is None else sorted(node.children)

    def topic(self, name: str, partitions: int) -> dict[int, Log]:
        """Make a topic, or add partitions to one, at the broker and in ZooKeeper."""
        logs = self.brokers.topics.setdefault(name, {})
        for number in range(len(logs), partitions):
            logs[number] = Log()
        self.announce(name)
        return logs

    def announce(self, name: str) -> None:
        partitions = {str(number): [1] for number in self.brokers.topics[name]}
        self.write(f"/brokers/topics/{name}", json.dumps({"version": 1, "partitions": partitions}).encode())

    def drop_topic(self, name: str) -> None:
        del self.brokers.topics[name]
        try:
            self.now(self.admin.delete(f"/brokers/topics/{name}"))
        except NoNode:
            pass

    def owners(self, topic: str) -> dict[int, str]:
        """The consumer that owns each partition."""
        path = f"/consumers/{self.name}/owners/{topic}"
        return {
            int(name): (self.data(f"{path}/{name}") or b"").decode().rpartition("-")[0] for name in self.names(path)
        }

    def committed(self, topic: str, partition: int) -> int | None:
        data = self.data(f"/consumers/{self.name}/offsets/{topic}/{partition}")
        return None if data is None else int(data)

    # Members.

    def reader(self, name: str, *, seconds: float = 0.0, **options: Any) -> Reader:
        """A member with a connection of its own to everything; it has not joined."""
        store = FaultyStore(self.ensemble)
        self.ensemble.clients.append(store)
        store.open()
        cluster = Cluster(self.clock, "b1:9092", endpoint=self.brokers.endpoint)
        given = {
            "auto_offset_reset": "earliest",
            "auto_commit_interval": 1.0,
            # Longer than a session: who died holds what it had for so long.
            "rebalance_backoff": 0.5,
            "rebalance_max_retries": 20,
            "consumer_id": name,
            "wall_clock": lambda: 1_700_000_000.0,
            **options,
        }
        reader = Reader(self, store, cluster, ConsumerConnector(cluster, store, self.name, **given), seconds)
        self.readers.append(reader)
        return reader

    def stop(self) -> None:
        """Shut everything down."""
        for each in self.readers:
            if each.alive:
                self.now(each.connector.shutdown())
            self.now(each.cluster.close())
        self.settle(1)

    # What must hold.

    def done(self) -> set[tuple[str, int, int]]:
        return {(each.topic, each.partition, each.offset) for reader in self.readers for each in reader.done}

    def check_exclusive(self) -> None:
        """No two members deliver one partition."""
        seen: dict[TopicPartition, Reader] = {}
        for reader in self.readers:
            if reader.alive:
                for each in reader.connector.owned:
                    assert each not in seen, f"{each} is delivered twice"
                    seen[each] = reader

    def check_balanced(self, *topics: str) -> None:
        """
        Check that every partition has exactly one owner, which is alive and delivers it, and that no other member
        delivers anything.
        """
        self.check_exclusive()
        delivered = {
            each: reader.connector.consumer_id
            for reader in self.readers
            if reader.alive
            for each in reader.connector.owned
        }
        owned = {TopicPartition(topic, number): name for topic in topics for number, name in self.owners(topic).items()}
        there = {TopicPartition(topic, number) for topic in topics for number in self.brokers.topics[topic]}
        assert set(owned) == there, f"owned: {sorted(owned)}"
        assert delivered == owned, f"delivered: {delivered}, owned: {owned}"

    def check_nothing_skipped(self) -> None:
        """Check that all records before a committed offset were processed."""
        done = self.done()
        for topic, logs in self.brokers.topics.items():
            for number, log in logs.items():
                for offset in range(log.start, min(self.committed(topic, number) or 0, log.end)):
                    assert (topic, number, offset) in done, f"{topic}-{number} {offset} was skipped"


class GroupCase(SynchronousTestCase):
    """A group ``g`` and a topic ``t`` of four partitions."""

    def setUp(self) -> None:
        self.group = Group()
        self.logs = self.group.topic("t", 4)
        self.addCleanup(self.group.stop)

    def put(self, *values: bytes, topic: str = "t", partition: int = 0) -> None:
        self.group.brokers.topics[topic][partition].put(*values)
