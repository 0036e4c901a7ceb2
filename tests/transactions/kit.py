"""
Transactional clients on a cluster in memory, with lost, repeated and delayed requests, for tests.

Producers and readers are those of the simulation (:mod:`logbus.testing.simulation.workloads.transactional_producer`);
what becomes of each request is for the test to say.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import LogLevel, globalLogPublisher
from twisted.python.failure import Failure

from logbus.errors import Disconnected
from logbus.net.channel import Channel
from logbus.testing.simulation.checks.history import Anomaly, History
from logbus.testing.simulation.checks.transaction_history import OffsetRead, TransactionHistory
from logbus.testing.simulation.environment.garbage_collector_watch import GarbageCollectorWatch
from logbus.testing.simulation.workloads.client_router import ClientRouter
from logbus.testing.simulation.workloads.cluster_client import ClusterClient
from logbus.testing.simulation.workloads.committed_consumer import CommittedConsumer, stable_offset
from logbus.testing.simulation.workloads.consumer import Consumer, WorkloadContext
from logbus.testing.simulation.workloads.transactional_producer import TransactionalProducer
from logbus.wire.connection import api_key_of
from logbus.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.cluster.memory_cluster import PORT, Several, host_of
from tests.handlers.kit import NOW_S

TOPIC = "t"
TIMEOUT_MS = 4000
SILENCE_S = 0.3
FATES = ("ok", "lost", "unanswered", "twice", "late")
"""What may become of a request: ``unanswered`` arrives, ``late`` may arrive any time later; of both no answer does."""
_PRODUCE, _INIT, _ADD = 0, 22, 24
_MAY_COME_LATE_BY_V1 = (_PRODUCE, _INIT, _ADD)
"""By V1 the end of a transaction that comes late ends the next one: V2 is there for that reason (KIP-890)."""


class _Host:
    """The reactor of a client's machine."""

    def __init__(self, clock: Any, number: int) -> None:
        self._clock = clock
        self.host = f"client {number}"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)


class KitView(ClusterClient):
    """A client's view of a cluster in memory."""

    def __init__(self, cluster: Several, number: int, topic: str = TOPIC) -> None:
        brokers = {each: (host_of(each), PORT) for each in cluster.disks}
        super().__init__(_Host(cluster.clock, number), brokers, topic, Random(number))  # type: ignore[arg-type]
        self._way = cluster.network.from_machine(number)

    def endpoint(self, host: str, port: int) -> Any:
        return self._way(host, port)


@define(eq=False)
class Held:
    """A delayed request."""

    channel: Channel
    message: Any
    version: int

    def arrive(self) -> None:
        """Now; nobody waits for the answer."""
        self.channel.request(self.message, self.version).addErrback(lambda _: None)


@define(eq=False)
class UnreliableWay(ClientRouter):
    """
    :ivar fates: of the next requests.
    :ivar held: what is to come late.
    :ivar dead: the process is not there any more: it hears of nothing.
    :ivar by_v2: whether what comes late may be anything.
    """

    held: list[Held] = field(factory=list)
    by_v2: bool = True
    fates: deque[str] = field(factory=deque, init=False)
    dead: bool = field(default=False, init=False)

    def pause(self) -> Deferred[None]:
        paused: Deferred[None] = Deferred()
        self.view.sleep(self.view.random.uniform(0.02, 0.1)).addCallback(self._unless_dead, paused)
        return paused

    def send(self, channel: Channel, message: Any, version: int) -> Deferred[Any]:
        result: Deferred[Any] = Deferred()
        if self.dead:
            return result
        fate = self.fates.popleft() if self.fates else "ok"
        if fate in ("twice", "late") and not self.by_v2 and api_key_of(message) not in _MAY_COME_LATE_BY_V1:
            fate = "unanswered"
        if fate in ("lost", "late"):
            if fate == "late":
                self.held.append(Held(channel, message, version))
            self.view.sleep(SILENCE_S).addCallback(
                lambda _: self._unless_dead(Failure(Disconnected("no answer came")), result)
            )
            return result
        if fate == "twice":
            self.held.append(Held(channel, message, version))
        answer = channel.request(message, version)
        if fate == "unanswered":
            answer.addBoth(lambda _: Failure(Disconnected("no answer came")))
        answer.addBoth(self._unless_dead, result)
        return result

    def _unless_dead(self, outcome: Any, result: Deferred[Any]) -> None:
        if not self.dead:
            result.callback(outcome)


@define(eq=False)
class Bank:
    """
    A cluster with one topic, transactional producers of both kinds, and readers.

    :ivar cluster: its brokers; ``ledger``: what producers did; ``job``: what everybody saw.
    :ivar held: requests that are still to come.
    :ivar failed: what went wrong in clients, and what brokers logged as their mistakes.
    """

    cluster: Several
    partitions: int = 2
    ledger: TransactionHistory = field(factory=TransactionHistory)
    held: list[Held] = field(factory=list)
    job: WorkloadContext = field(init=False)
    readers: list[CommittedConsumer] = field(factory=list, init=False)
    failed: list[Failure] = field(factory=list, init=False)
    _clients: int = field(default=100, init=False)
    _collector: GarbageCollectorWatch = field(factory=GarbageCollectorWatch, init=False)

    def __attrs_post_init__(self) -> None:
        self.job = WorkloadContext(History(), lambda: NOW_S + self.cluster.clock.seconds())
        gc.callbacks.append(self._collector.collecting)
        globalLogPublisher.addObserver(self._hear)

    def _hear(self, event: Any) -> None:
        """Collects the log events of live brokers."""
        failure = event.get("log_failure")
        if failure is not None and event["log_level"] is LogLevel.critical and not self._collector.is_running:
            self.failed.append(failure)

    def close(self) -> None:
        """Stop everything."""
        globalLogPublisher.removeObserver(self._hear)
        gc.callbacks.remove(self._collector.collecting)
        self.cluster.close()

    @classmethod
    def open(cls, brokers: int, *, partitions: int = 2, **config: str) -> Bank:
        """A cluster of so many brokers, and the topic; in names of settings ``_`` stands for a dot."""
        count = str(brokers)
        settings = {
            "default.replication.factor": count,
            "offsets.topic.replication.factor": count,
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": count,
            "transaction.state.log.num.partitions": "2",
            "transaction.state.log.min.isr": str(min(2, brokers)),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
            "min.insync.replicas": str(min(2, brokers)),
            "log.flush.before.ack": "true",
            **{key.replace("_", "."): value for key, value in config.items()},
        }
        bank = cls(Several(settings), partitions)
        for broker_id in range(brokers):
            bank.cluster.boot(broker_id)
        bank.cluster.settle()
        bank.now(bank._create(brokers))
        return bank

    async def _create(self, replication: int) -> None:
        view = self.view()
        channel = await view.channel(0, "admin")
        topic = CreatableTopic(
            name=TOPIC, num_partitions=self.partitions, replication_factor=replication, assignments=[], configs=[]
        )
        answer = await channel.request(CreateTopicsRequest(topics=[topic], timeout_ms=5000))
        assert not answer.topics[0].error_code, answer
        await view.refresh()

    def view(self) -> KitView:
        """Another client."""
        self._clients += 1
        return KitView(self.cluster, self._clients)

    def router(self, *, by_v2: bool = True) -> UnreliableWay:
        """The connections of another client to the brokers."""
        return UnreliableWay(self.view(), "client", self.held, by_v2)

    def producer(self, transactional_id: str = "x", *, by_v2: bool = True, **given: Any) -> TransactionalProducer:
        """Another process with this id."""
        given = {"timeout_ms": TIMEOUT_MS, "patience": 4.0, **given}
        return TransactionalProducer(
            self.router(by_v2=by_v2), transactional_id, self.ledger, self.job, by_v2=by_v2, **given
        )

    def reader(self, name: str, partition: int, *, committed: bool = True) -> Any:
        """Who reads a partition from the beginning, once :meth:`start` was told of its ``run()``."""
        kind = CommittedConsumer if committed else Consumer
        return kind(name, self.view(), partition, self.job, Random(partition), wait_ms=100)

    def start(self, work: Any) -> Deferred[Any]:
        """Let a coroutine run; what goes wrong in it is kept."""
        return Deferred.fromCoroutine(work).addErrback(self.failed.append)

    def now(self, work: Any, seconds: float = 30.0) -> Any:
        """The result of a coroutine, which may take so long."""
        return self.cluster.now(Deferred.fromCoroutine(work), seconds)

    def turns(self, count: int) -> None:
        """Let so many things happen that are due now, one by one, and no time pass."""
        clock = self.cluster.clock
        for _ in range(count):
            due = [call for call in clock.calls if call.getTime() <= clock.seconds()]
            if not due:
                return
            first = min(due, key=lambda call: call.getTime())
            clock.calls.remove(first)
            first.called = 1
            first.func(*first.args, **first.kw)

    def until(self, condition: Any, seconds: float) -> bool:
        """Let time pass until something is so."""
        for _ in range(round(seconds / 0.05)):
            if condition():
                return True
            self.cluster.settle(0.05)
        return bool(condition())

    # Looking.

    def read_all(self, *, name: str = "final", seconds: float = 20.0) -> dict[int, list[int]]:
        """
        What is committed, by partition, once no transaction is open.

        :raise AssertionError: one stays open.
        """
        readers = [self.reader(f"{name} {index}", index) for index in range(self.partitions)]
        for reader in readers:
            self.start(reader.run())
        settled = self.until(lambda: all(reader.is_stable for reader in readers), seconds)
        for reader in readers:
            reader.stop()
        stuck = [f"{each.partition}: {each.position}, {each.stable_end} of {each.end}" for each in readers]
        assert settled, f"it does not become stable: {stuck}"
        return {
            index: [
                value
                for poll in self.job.history.polls
                if poll.consumer == f"{name} {index}"
                for _, value in poll.records
            ]
            for index in range(self.partitions)
        }

    def read_offset(self, transactional_id: str, seconds: float = 20.0) -> int:
        """The offset that its transactions committed, as it is now."""
        found = self.now(stable_offset(self.router(), transactional_id, TOPIC, 0, self.job, seconds), seconds + 5)
        assert found is not None, "nobody says the offset"
        self.ledger.offset_reads.append(OffsetRead(transactional_id, found, self.cluster.clock.seconds()))
        return int(found)

    def anomalies(self, ids: Sequence[str] = (), *, seconds: float = 20.0) -> list[Anomaly]:
        """All that is wrong in the end; ``ids``: whose offsets are looked at."""
        self.read_all(seconds=seconds)
        offsets = {each: self.read_offset(each, seconds) for each in ids}
        finals = frozenset(f"final {index}" for index in range(self.partitions))
        found = self.ledger.check(self.job.history.polls, readers=finals, offsets=offsets)
        return [*self.job.strange, *found, *(Anomaly("failed", each.getTraceback()) for each in self.failed)]
