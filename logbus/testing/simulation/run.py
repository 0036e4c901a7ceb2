"""One run: a cluster, clients, faults, and then the questions."""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, LogLevel, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.errors import ApiError, ErrorCode, LogbusError, StorageError
from logbus.testing.simulation.client import Unavailable, View, name_of
from logbus.testing.simulation.clock import VirtualClock
from logbus.testing.simulation.garbage import Garbage
from logbus.testing.simulation.history import Anomaly, History
from logbus.testing.simulation.inodes import Crashed
from logbus.testing.simulation.inspection import Inspector
from logbus.testing.simulation.losses import Losses
from logbus.testing.simulation.nemesis import Nemesis
from logbus.testing.simulation.network import Network
from logbus.testing.simulation.node import EPOCH_S, PORT, BrokerNode, World, host_of
from logbus.testing.simulation.operations import Operator
from logbus.testing.simulation.producers import Producer
from logbus.testing.simulation.reactor import NodeReactor
from logbus.testing.simulation.schedule import KINDS, Fault, draw_schedule
from logbus.testing.simulation.store import Ensemble
from logbus.testing.simulation.workload import Consumer, Job
from logbus.wire.messages.topics import CreatableTopic, CreateTopicsRequest

TOPIC = "numbers"
START_S = 60.0
HEAL_S = 30.0
"""Everything is to work again so many seconds after the last fault was mended."""
CLIENT_HOST = "10.0.1.1"

_DISK_ERRORS = frozenset({ErrorCode.KAFKA_STORAGE_ERROR})


@frozen
class Settings:
    """
    What is simulated.

    :ivar rate: batches a second, over all producers.
    :ivar seconds: for how long clients work while things go wrong.
    :ivar kinds: of faults; ``between``: seconds from one fault to the next, on average.
    :ivar flush: ``log.flush.before.ack``.
    :ivar lag: how long a replica in sync may be behind, in seconds; ``latency``: of every link, likewise.
    :ivar fetch_bytes: ``replica.fetch.max.bytes``; with 1 a follower gets one batch at a time, and is slow to catch up.
    """

    brokers: int = 3
    partitions: int = 2
    replication: int = 3
    min_insync: int = 2
    rate: float = 5.0
    seconds: float = 60.0
    kinds: tuple[str, ...] = tuple(KINDS)
    between: float = 8.0
    flush: bool = True
    session_timeout: float = 6.0
    lag: float = 10.0
    latency: float = 0.0002
    fetch_bytes: int = 1 << 20

    def config(self) -> dict[str, str]:
        """Of every broker, by Kafka's names."""
        return {
            "zookeeper.connect": "",
            "zookeeper.session.timeout.ms": str(int(self.session_timeout * 1000)),
            "log.flush.before.ack": "true" if self.flush else "false",
            "log.flush.interval.messages": "9223372036854775807" if self.flush else "20",
            "log.segment.bytes": "4096",
            "default.replication.factor": str(self.replication),
            "min.insync.replicas": str(self.min_insync),
            "offsets.topic.replication.factor": str(self.replication),
            "offsets.topic.num.partitions": "1",
            "replica.lag.time.max.ms": str(int(self.lag * 1000)),
            "replica.fetch.max.bytes": str(self.fetch_bytes),
            # Clocks that jump are not to keep producers out.
            "log.message.timestamp.after.max.ms": "9223372036854775807",
        }


@define
class Outcome:
    """
    What came of a run.

    :ivar seed: what it was made from; ``schedule``: the faults; ``told``: what happened, as lines.
    :ivar anomalies: what must not be.
    :ivar acknowledged: batches.
    :ivar effects: faults that had an effect, by kind; ``moot``: those that had none.
    :ivar errors: what clients were told, by name.
    :ivar phantoms: values that were read, and went with the power of all members, where that may be.
    :ivar trace: a number that two runs share only if they were the same.
    """

    seed: int
    schedule: list[Fault]
    anomalies: list[Anomaly]
    acknowledged: int
    sent: int
    effects: Counter[str]
    moot: Counter[str]
    errors: Counter[str]
    trace: int
    virtual_seconds: float
    real_seconds: float
    events: int
    worst_lag: float
    told: list[str]
    history: History
    phantoms: int


@implementer(ILogObserver)
@define(eq=False)
class Run:
    """A run from a seed; with a schedule of faults instead of the seed's own, if one is given."""

    settings: Settings
    seed: int
    schedule: Sequence[Fault] | None = None
    clock: VirtualClock = field(factory=VirtualClock, init=False)
    anomalies: list[Anomaly] = field(factory=list, init=False)
    _trace: int = field(default=0, init=False)
    _clients: NodeReactor = field(init=False)
    world: World = field(init=False)
    nodes: dict[int, BrokerNode] = field(factory=dict, init=False)
    inspector: Inspector = field(factory=Inspector, init=False)
    job: Job = field(init=False)
    _losses: Losses = field(init=False)
    _garbage: Garbage = field(factory=Garbage, init=False)

    def run(self) -> Outcome:
        """From the start of the brokers to the last question."""
        began = time.perf_counter()
        with self._garbage:
            globalLogPublisher.addObserver(self)
            try:
                outcome = self._run()
            finally:
                globalLogPublisher.removeObserver(self)
                for node in self.nodes.values():
                    node.reactor.dead = True
        outcome.real_seconds = time.perf_counter() - began
        return outcome

    def _run(self) -> Outcome:
        settings, clock = self.settings, self.clock
        random = Random(self.seed)
        network = Network(clock, Random(random.getrandbits(64)), self._note)
        network.links.latency = settings.latency
        ensemble = Ensemble(
            wall_clock=lambda: EPOCH_S + clock.now,
            time=clock,
            random=Random(random.getrandbits(64)),
            session_timeout=settings.session_timeout,
        )
        self.world = World(clock, network, ensemble, Random(random.getrandbits(64)))
        self._losses = Losses(TOPIC, ensemble.tree, lambda: clock.now)
        ensemble.clients.append(self._losses)
        brokers = list(range(1, settings.brokers + 1))
        drawn = draw_schedule(
            Random(random.getrandbits(64)), brokers, settings.seconds, settings.kinds, settings.between
        )
        schedule = drawn if self.schedule is None else list(self.schedule)
        for broker_id in brokers:
            node = BrokerNode(self.world, broker_id, settings.config(), self.inspector.watch, self._losses.power_went)
            self.nodes[broker_id] = node
            node.start()
        self.job = Job(History(), lambda: EPOCH_S + clock.now)
        client = NodeReactor(clock, network, CLIENT_HOST)
        network.started(client)
        self._clients = client
        operator = Operator(self._view(), settings.partitions, settings.replication)
        nemesis = Nemesis(self.world, self.nodes, [CLIENT_HOST], self._note, operator)
        producers, consumers = self._begin()
        if producers:
            start = clock.now
            for fault in schedule:
                clock.at(start + fault.at, None, nemesis.do, fault)
            for _ in range(int(settings.seconds)):
                clock.run_until(clock.now + 1)
                self.inspector.look(list(self.nodes.values()))
            self.job.over = True
            nemesis.mend_all()
            self._heal(producers, consumers)
        else:
            consumers = []
        return self._outcome(schedule, nemesis)

    # The story.

    def _view(self) -> View:
        brokers = {each: (host_of(each), PORT) for each in self.nodes}
        return View(self._clients, brokers, TOPIC, self.world.generator())

    def _wait(self, condition: Any, seconds: float) -> bool:
        """Let time go on until something is true."""
        end = self.clock.now + seconds
        while not condition():
            if self.clock.now >= end:
                return False
            self.clock.run_until(min(self.clock.now + 0.25, end))
        return True

    def _begin(self) -> tuple[list[Producer], list[Consumer]]:
        """Wait for the brokers, make the topic, and start the clients."""
        settings = self.settings
        if not self._wait(lambda: all(node.ready for node in self.nodes.values()), START_S):
            self._found("no-start", f"brokers {self._not_ready()} were not ready {START_S:g} s after the start")
            return [], []
        view = self._view()
        created: list[Any] = []
        Deferred.fromCoroutine(self._create(view)).addBoth(created.append)
        if not self._wait(lambda: created, START_S) or isinstance(created[0], Failure):
            self._found("no-topic", f"the topic could not be created: {created}")
            return [], []
        producers, consumers = [], []
        count = 2 * settings.partitions
        for index in range(count):
            producer = Producer(
                f"producer {index}",
                view,
                index % settings.partitions,
                self.job,
                count / settings.rate,
                idempotent=index < settings.partitions,
                random=self.world.generator(),
                careless=0.0 if index < settings.partitions else 0.3,
            )
            producers.append(producer)
        for index in range(settings.partitions + 1):
            partition = index % settings.partitions
            version = 12 if index % 2 else 16
            consumers.append(
                Consumer(f"consumer {index}", self._view(), partition, self.job, self.world.generator(), version)
            )
        for work in [*(each.run() for each in producers), *(each.run() for each in consumers)]:
            Deferred.fromCoroutine(work).addErrback(self._client_failed)
        return producers, consumers

    async def _create(self, view: View) -> None:
        settings = self.settings
        while True:
            broker_id = view.random.choice(sorted(self.nodes))
            topic = CreatableTopic(
                name=TOPIC,
                num_partitions=settings.partitions,
                replication_factor=settings.replication,
                assignments=[],
                configs=[],
            )
            try:
                channel = await view.channel(broker_id, "admin")
                response = await channel.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
            except (LogbusError, Unavailable):
                await view.sleep(0.5)
                continue
            code = response.topics[0].error_code
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                return
            self.job.errors[name_of(code)] += 1
            await view.sleep(0.5)

    def _heal(self, producers: list[Producer], consumers: list[Consumer]) -> None:
        """All is mended: everything must work again in time, and everything acknowledged must be readable."""
        mended = self.clock.now
        nodes = list(self.nodes.values())
        if not self._wait(lambda: all(node.ready for node in nodes), HEAL_S):
            self._found("not-back", f"brokers {self._not_ready()} were not ready {HEAL_S:g} s after all was mended")
        probes = [
            Producer(f"probe {index}", self._view(), index, self.job, 1.0, idempotent=True, random=Random(index))
            for index in range(self.settings.partitions)
        ]
        written: set[int] = set()
        for probe in probes:
            Deferred.fromCoroutine(self._probe(probe, written)).addErrback(self._client_failed)
        left = max(mended + HEAL_S - self.clock.now, 1.0)
        if not self._wait(lambda: len(written) == len(probes), left):
            silent = [probe.partition for probe in probes if probe.partition not in written]
            self._found("not-writable", f"partitions {silent} took no write {HEAL_S:g} s after all was mended")
        # Until nothing new comes, and for as long as a producer may still try.
        self._wait(lambda: self._all_read(consumers), HEAL_S)
        self.clock.run_until(self.clock.now + 12)
        # And once more, all of it, by consumers that begin only now.
        readers = [
            Consumer(f"reader {index}", self._view(), index, self.job, self.world.generator())
            for index in range(self.settings.partitions)
        ]
        for reader in readers:
            Deferred.fromCoroutine(reader.run()).addErrback(self._client_failed)
        everybody = [*consumers, *readers]
        if not self._wait(lambda: self._all_read(everybody), HEAL_S):
            behind = [f"{each.name} at {each.position} of {each.end}" for each in everybody if not each.is_at_the_end]
            self._found("not-readable", f"{', '.join(behind)}, {HEAL_S:g} s after the last write")
        for consumer in everybody:
            consumer.stop()
        self.inspector.look(nodes)
        self.inspector.compare(nodes)

    async def _probe(self, probe: Producer, written: set[int]) -> None:
        while not await probe.send():
            await probe.view.sleep(0.2)
        written.add(probe.partition)

    def _all_read(self, consumers: list[Consumer]) -> bool:
        return all(consumer.is_at_the_end for consumer in consumers)

    def _not_ready(self) -> list[int]:
        return [node.broker_id for node in self.nodes.values() if not node.ready]

    # What is seen.

    def _note(self, line: str) -> None:
        self._trace = zlib.crc32(f"{self.clock.now:.9f} {line}".encode(), self._trace)

    def _found(self, kind: str, what: str) -> None:
        self.anomalies.append(Anomaly(kind, what))

    def _client_failed(self, failure: Failure) -> None:
        self._found("client", f"a client failed: {failure.getTraceback()}")

    def __call__(self, event: Any) -> None:
        """What is written to the log."""
        failure = event.get("log_failure")
        if self._garbage.is_taken or failure is None or event["log_level"] < LogLevel.critical:
            return
        if failure.check(Crashed):
            return
        error = failure.value
        if isinstance(error, StorageError) or (isinstance(error, ApiError) and error.code in _DISK_ERRORS):
            # What an injected error is told as.
            return
        self._found("error-logged", failure.getTraceback())

    def _outcome(self, schedule: list[Fault], nemesis: Nemesis) -> Outcome:
        history = self.job.history
        strange = self.job.strange
        readers = frozenset(f"reader {index}" for index in range(self.settings.partitions))
        losses = self._losses.at if self._may_lose else {}
        unexcused = history.without_losses(readers, losses, acknowledged=not self.settings.flush)
        found = [each for each in (*strange, *self.inspector.found) if not self._follows(each, losses)]
        anomalies = [*self.anomalies, *found, *unexcused.check(readers=readers)]
        for node in self.nodes.values():
            anomalies += [Anomaly("gave-up", what) for what in node.trouble]
        for send in history.sends:
            self._note(f"{send}")
        return Outcome(
            seed=self.seed,
            schedule=schedule,
            anomalies=anomalies,
            acknowledged=sum(send.outcome == "ok" for send in history.sends),
            sent=len(history.sends),
            effects=nemesis.effects,
            moot=nemesis.moot,
            errors=self.job.errors,
            trace=self._trace,
            virtual_seconds=self.clock.now,
            real_seconds=0.0,
            events=self.clock.events,
            worst_lag=history.worst_lag(readers),
            told=nemesis.told,
            history=history,
            phantoms=len(unexcused.phantoms),
        )

    @property
    def _may_lose(self) -> bool:
        """
        Whether anything that was read may be lost with the power of all members of a partition.

        What is acknowledged is synced if the topic wants that, and what is read is synced by two: a replica that is the
        only one shows what it has not synced yet.
        """
        return not self.settings.flush or self.settings.replication == 1

    def _follows(self, anomaly: Anomaly, losses: Mapping[int, Sequence[float]]) -> bool:
        """Whether it is what clients must see after a loss that may be."""
        kinds = ("out-of-range",) if self.settings.flush else ("out-of-range", "lost-producer", "committed-cut")
        times = losses.get(anomaly.partition, ())
        return anomaly.kind in kinds and any(time <= anomaly.time for time in times)
