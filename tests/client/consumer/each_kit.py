"""
Members that process records side by side, of either client, on brokers in memory: ``Consumer.each``.

The client for asyncio runs on a loop of the same virtual clock as the brokers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.client import Consumer, ConsumerRecord, Producer, aio
from logbus.client.aio.awaiting import deferred_of, outcome
from logbus.client.cluster import cluster as core
from logbus.model import TopicPartition
from logbus.testing.memory import MemoryCluster
from logbus.testing.simulation.application.event_loop import SimulatedEventLoop
from logbus.testing.simulation.application.refusals import Refusals

Record = ConsumerRecord[Any, Any]
Place = tuple[int, int]
"""Partition and offset of a record."""


class LoopCluster(aio.Cluster):
    """A cluster of the client for asyncio that connects by the network in memory."""

    def __init__(self, brokers: MemoryCluster, machine: int, **options: Any) -> None:
        super().__init__(brokers.bootstrap, **options)
        self.core = core.Cluster(
            self.event_loop, brokers.bootstrap, endpoint=brokers.network.from_machine(machine), **options
        )


@define(eq=False)
class Member:
    """
    A consumer and its processing, which ends when the test says so.

    :ivar consumer: of either client; ``each`` and ``close`` return Deferreds.
    :ivar cancelled: the records whose processing was cancelled.
    :ivar finished: those whose processing has ended, in this order.
    """

    consumer: Any
    is_aio: bool
    machine: int
    begun: list[Place] = field(factory=list)
    cancelled: list[Place] = field(factory=list)
    finished: list[Place] = field(factory=list)
    under_way: dict[Place, Deferred[None]] = field(factory=dict)
    running: Any = None

    def process(self, record: Record) -> Any:
        """Begin with a record."""
        place = record.partition, record.offset
        self.begun.append(place)
        waiting: Deferred[None] = Deferred(lambda _: self.cancelled.append(place))
        self.under_way[place] = waiting

        def ended(result: Any) -> Any:
            del self.under_way[place]
            if result is None:
                self.finished.append(place)
            return result

        waiting.addBoth(ended)
        return outcome(waiting) if self.is_aio else waiting

    def each(self, **options: Any) -> Any:
        """Begin to process records."""
        answer = self.consumer.each(self.process, **options)
        self.running = deferred_of(answer) if self.is_aio else answer
        return self.running

    def close(self, **how: Any) -> Any:
        """Close the consumer."""
        answer = self.consumer.close(**how)
        return deferred_of(answer) if self.is_aio else answer

    def end(self, *places: Place, error: Exception | None = None) -> None:
        """End the processing of these records; default: of all that are under way."""
        for each in places or sorted(self.under_way):
            if error is None:
                self.under_way[each].callback(None)
            else:
                self.under_way[each].errback(error)

    @property
    def partitions(self) -> set[int]:
        """The partitions of its topic that it has."""
        return {each.partition for each in self.consumer.assignment}


class EachCase(SynchronousTestCase):
    """
    Brokers with a topic ``t``, and members of group ``g`` that read it.

    :cvar is_aio: which client the members are of.
    :cvar options: of their consumers.
    """

    is_aio = False
    partitions = 2
    options: dict[str, Any] = {}

    def setUp(self) -> None:
        self.brokers = MemoryCluster.started(2)
        self.addCleanup(self.brokers.close)
        self.brokers[0].create("t", self.partitions)
        self.brokers.settle(1)
        self.cluster = self.brokers.client()
        self.machines = 150
        self.members: list[Member] = []
        self.written: Counter[int] = Counter()
        if self.is_aio:
            clock = self.brokers.clock
            reactor: Any = SimpleNamespace(seconds=clock.seconds, callLater=clock.callLater, dead=False)
            self.loop = SimulatedEventLoop(reactor, Refusals(), "members")
            self.enterContext(self.loop._running())

    def member(self, topic: str = "t", **options: Any) -> Member:
        """A member of the group, on a machine of its own."""
        options = {"auto_offset_reset": "earliest", "auto_commit_interval": 1.0, **self.options, **options}
        if options.get("group_protocol") != "consumer":
            options = {"session_timeout": 6.0, "heartbeat_interval": 0.5, **options}
        listener = options.pop("listener", None)
        self.machines += 1
        machine, consumer = self.machines, None
        if self.is_aio:
            cluster = LoopCluster(self.brokers, machine, timeout=3.0)
            started = deferred_of(cluster.start())
            self.brokers.result(started)
            consumer = aio.Consumer(cluster, group_id="g", **options)
            self.addCleanup(lambda: self.brokers.result(deferred_of(cluster.close())))
        else:
            twisted = core.Cluster(
                self.brokers.clock,
                self.brokers.bootstrap,
                endpoint=self.brokers.network.from_machine(machine),
                timeout=3.0,
            )
            consumer = Consumer(twisted, "g", **options)
            self.addCleanup(lambda: self.brokers.result(twisted.close()))
        consumer.subscribe([topic], listener)
        member = Member(consumer, self.is_aio, machine)
        self.members.append(member)
        return member

    def fill(self, *keys: bytes | None, partitions: Iterable[int] = (0, 1)) -> None:
        """Write a record with each of the keys to each of the partitions."""
        producer = Producer(self.cluster)
        for partition in partitions:
            self.written[partition] += len(keys)
            for key in keys:
                producer.send("t", b"v", key=key, partition=partition)
        self.brokers.result(producer.close())

    def until(self, condition: Callable[[], Any], seconds: float = 60.0) -> None:
        """Let time pass until something holds."""
        for _ in range(round(seconds / 0.1)):
            if condition():
                return
            self.brokers.settle(0.1)
        self.fail(f"it did not happen within {seconds:g} s")

    def committed(self, partition: int = 0) -> int | None:
        """The group's committed offset."""
        reading: Consumer = Consumer(self.cluster, "g")
        place = TopicPartition("t", partition)
        found = self.brokers.result(reading.committed([place]), 30)[place]
        self.brokers.result(reading.close())
        return None if found is None else found.offset

    def finish(self) -> None:
        """End all that is under way until all records are committed as finished, and close the members."""

        def end_all() -> bool:
            for member in self.members:
                member.end()
            return all(self.committed(partition) == count for partition, count in self.written.items())

        self.until(end_all)
        for member in self.members:
            closing = member.close()
            self.until(lambda closing=closing, member=member: (member.end(), closing.called)[1])
