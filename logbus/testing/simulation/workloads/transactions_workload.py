"""
The workload of transactions: producers that commit and abort, copying stages, and readers of committed records.

Transactional producers, two of them with the same transactional id, and one without transactions write to ``ledger``.
Stages copy ``orders`` to ``results``, one for each partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.testing.simulation.checks.history import Anomaly, History
from logbus.testing.simulation.checks.transaction_history import OffsetRead, TransactionHistory, exactly_once
from logbus.testing.simulation.environment.broker_node import EPOCH_S, PORT, World, host_of
from logbus.testing.simulation.environment.client_process import ClientProcess
from logbus.testing.simulation.settings import Settings
from logbus.testing.simulation.workloads.client_router import ClientRouter
from logbus.testing.simulation.workloads.cluster_client import ClusterClient
from logbus.testing.simulation.workloads.committed_consumer import CommittedConsumer, stable_offset
from logbus.testing.simulation.workloads.consumer import WorkloadContext
from logbus.testing.simulation.workloads.copy_stage import CopyStage, StageConsumer
from logbus.testing.simulation.workloads.producer import Producer
from logbus.testing.simulation.workloads.transaction_writer import TransactionWriter
from logbus.testing.simulation.workloads.transactional_producer import TransactionalProducer

LEDGER, ORDERS, RESULTS = TOPICS = ("ledger", "orders", "results")
TIMEOUT_MS = 10_000
"""Of transactions."""
NEVER_ENDED = frozenset({"hanging-transaction", "not-copied", "not-stable"})
"""Kinds of anomalies of a transaction that nothing ends, since its coordinator has lost it."""
_IDS = 2
_WRITES = 2.5
"""Of a transaction, on average."""


@define(eq=False)
class TopicHistory:
    """
    The history of one topic.

    :ivar ledger: transactions; ``job``: all other sends, and the polls of readers of committed records.
    :ivar tailing: the readers that run all the time.
    :ivar final: the readers that begin at the end.
    """

    topic: str
    job: WorkloadContext
    ledger: TransactionHistory = field(factory=TransactionHistory)
    tailing: list[CommittedConsumer] = field(factory=list)
    final: list[CommittedConsumer] = field(factory=list)

    @property
    def readers(self) -> list[CommittedConsumer]:
        """All of them."""
        return [*self.tailing, *self.final]

    def values(self, partition: int) -> list[int]:
        """The values read in the end, in order."""
        name = self.final[partition].name
        return [value for poll in self.job.history.polls if poll.consumer == name for _, value in poll.records]

    def check(self, offsets: dict[str, int], *, lost: bool) -> list[Anomaly]:
        """
        All anomalies of the topic.

        :param lost: unsynced records that were read are lost: only the final readers count.
        """
        history = self.job.history
        finals = frozenset(reader.name for reader in self.final)
        polls = [poll for poll in history.polls if poll.consumer in finals] if lost else history.polls
        found = self.ledger.check(polls, others=history.sends, readers=finals, offsets=offsets)
        return [*(each for each in self.job.strange if not (lost and each.kind == "out-of-range")), *found]


@define(eq=False)
class TransactionsWorkload:
    """
    The workload.

    :ivar found: called with anomalies that are not in a history: kind and description.
    :ivar failed: called with errors in a client.
    :ivar processes: clients that may be killed.
    """

    settings: Settings
    world: World
    main_view: Callable[[str], ClusterClient]
    found: Callable[[str, str], object]
    failed: Callable[[Failure], object]
    histories: dict[str, TopicHistory] = field(factory=dict, init=False)
    processes: list[ClientProcess] = field(factory=list, init=False)
    _stages: dict[int, CopyStage] = field(factory=dict, init=False)
    _offsets: dict[str, int] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        clock = self.world.clock
        for topic in TOPICS:
            self.histories[topic] = TopicHistory(topic, WorkloadContext(History(), lambda: EPOCH_S + clock.now))
        brokers = {each: (host_of(each), PORT) for each in range(1, self.settings.brokers + 1)}
        mains: list[Callable[..., Coroutine[Any, Any, None]]] = [
            partial(self._writer, index) for index in range(_IDS + 1)
        ]
        mains += [partial(self._stage, index) for index in range(self.settings.partitions)]
        for index, main in enumerate(mains):
            host = f"10.0.2.{index + 1}"
            self.processes.append(ClientProcess(self.world, host, brokers, main, self.failed))

    @property
    def hosts(self) -> list[str]:
        """The addresses of its clients."""
        return [each.host for each in self.processes]

    @property
    def errors(self) -> Counter[str]:
        """The errors of its clients, by name."""
        return sum((topic_history.job.errors for topic_history in self.histories.values()), Counter())

    @property
    def committed(self) -> int:
        """The number of transactions whose commit was acknowledged."""
        return sum(topic_history.ledger.committed for topic_history in self.histories.values())

    @property
    def begun(self) -> int:
        """The number of all transactions."""
        return sum(len(topic_history.ledger.transactions) for topic_history in self.histories.values())

    # Clients.

    def start(self) -> None:
        """Start all clients."""
        settings = self.settings
        for process in self.processes:
            process.start()
        for topic, count in ((LEDGER, 1), (ORDERS, settings.partitions)):
            for index in range(count):
                seconds = 2 * settings.partitions / settings.rate
                producer = Producer(
                    f"{topic} producer {index}",
                    self.main_view(topic),
                    index,
                    self.histories[topic].job,
                    seconds,
                    idempotent=True,
                    random=self.world.generator(),
                )
                self._run(producer.run())
        for topic_history in self.histories.values():
            self._read(topic_history, "consumer", topic_history.tailing)

    def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        Deferred.fromCoroutine(work).addErrback(self.failed)

    def _read(self, topic_history: TopicHistory, name: str, those: list[CommittedConsumer]) -> None:
        for index in range(self.settings.partitions):
            reader = CommittedConsumer(
                f"{topic_history.topic} {name} {index}",
                self.main_view(topic_history.topic),
                index,
                topic_history.job,
                self.world.generator(),
            )
            those.append(reader)
            self._run(reader.run())

    def _transactional_producer(self, view: ClusterClient, transactional_id: str, index: int) -> TransactionalProducer:
        topic_history = self.histories[view.topic]
        router = ClientRouter(view, "transactions")
        return TransactionalProducer(
            router,
            transactional_id,
            topic_history.ledger,
            topic_history.job,
            by_v2=index % 2 == 0,
            timeout_ms=TIMEOUT_MS,
        )

    async def _writer(self, index: int, view: Callable[[str], ClusterClient]) -> None:
        transactional_producer = self._transactional_producer(view(LEDGER), f"teller {index % _IDS}", index)
        seconds = (_IDS + 1) * _WRITES / self.settings.rate
        job = self.histories[LEDGER].job
        await TransactionWriter(
            transactional_producer, self.settings.partitions, job, seconds, self.world.generator()
        ).run()

    async def _stage(self, partition: int, view: Callable[[str], ClusterClient]) -> None:
        transactional_producer = self._transactional_producer(view(RESULTS), f"stage {partition}", partition)
        orders = self.histories[ORDERS].job
        source = StageConsumer(f"stage {partition}", view(ORDERS), partition, orders, self.world.generator())
        stage = self._stages[partition] = CopyStage(transactional_producer, source, partition, self.world.generator())
        await stage.run()

    def kill_client(self, number: int, down: float) -> bool:
        """Kill one of the processes, and start it again later; return whether it ran."""
        process = self.processes[number % len(self.processes)]
        if not process.kill():
            return False
        life = process.lives

        def again() -> None:
            if process.lives == life:
                process.start()

        self.world.clock.at(self.world.clock.now + down, None, again)
        return True

    # The end.

    def over(self) -> None:
        """Begin no more transactions; start killed processes again."""
        for topic_history in self.histories.values():
            topic_history.job.over = True
        for process in self.processes:
            process.start()

    def probe(self, seconds: float, wait: Callable[[Callable[[], bool], float], bool]) -> None:
        """
        After all faults: no transaction may stay open, and new ones of every producer must be possible.

        :param wait: advances time until a condition is true, for at most a number of seconds.
        """
        # The transactions of producers that do not come back end by their timeout.
        everybody = [reader for topic_history in self.histories.values() for reader in topic_history.tailing]
        if not wait(lambda: all(reader.is_stable for reader in everybody), seconds + TIMEOUT_MS / 1000):
            self.found("hanging-transaction", self._unstable(everybody))
        done: set[str] = set()
        for index in range(_IDS):
            self._run(self._probe(index, done))
        if not wait(lambda: len(done) == _IDS, seconds):
            self.found("not-committable", f"of {_IDS} transactional ids {sorted(done)} could commit in {seconds:g} s")
        if not wait(self._all_copied, seconds):
            stages = {index: stage.done for index, stage in self._stages.items()}
            ends = [reader.end for reader in self.histories[ORDERS].tailing]
            self.found("not-copied", f"stages are at {stages}, and orders end at {ends}")

    async def _probe(self, index: int, done: set[str]) -> None:
        name = f"teller {index}"
        transactional_producer = self._transactional_producer(self.main_view(LEDGER), name, index)
        writer = TransactionWriter(
            transactional_producer, self.settings.partitions, self.histories[LEDGER].job, 1.0, Random(index)
        )
        while not await writer.transact(commit=True):
            await transactional_producer.router.pause()
        done.add(name)

    def _all_copied(self) -> bool:
        """Whether each stage has reached the end of the orders."""
        ends = {reader.partition: reader.end for reader in self.histories[ORDERS].tailing if reader.is_stable}
        return all(index in ends and stage.done >= ends[index] for index, stage in self._stages.items())

    def read_again(self, seconds: float, wait: Callable[[Callable[[], bool], float], bool]) -> None:
        """Read everything once more, with new readers; and the offsets of all groups."""
        for topic_history in self.histories.values():
            self._read(topic_history, "reader", topic_history.final)
        for index in range(_IDS):
            self._run(self._offset(f"teller {index}"))
        everybody = [reader for topic_history in self.histories.values() for reader in topic_history.readers]
        if not wait(lambda: len(self._offsets) == _IDS and all(reader.is_stable for reader in everybody), seconds):
            self.found("not-stable", f"{self._unstable(everybody)}; offsets: {self._offsets}")
        for reader in everybody:
            reader.stop()

    async def _offset(self, transactional_id: str) -> None:
        router, job = ClientRouter(self.main_view(LEDGER), "offsets"), self.histories[LEDGER].job
        found = await stable_offset(router, transactional_id, LEDGER, 0, job, 30.0)
        if found is not None:
            self._offsets[transactional_id] = found
            self.histories[LEDGER].ledger.offset_reads.append(OffsetRead(transactional_id, found, router.now))

    def _unstable(self, readers: list[CommittedConsumer]) -> str:
        return ", ".join(
            f"{each.name} is at {each.position}, stable up to {each.stable_end} of {each.end}"
            for each in readers
            if not each.is_stable
        )

    def anomalies(self, *, lost: bool) -> Iterator[Anomaly]:
        """
        The anomalies of the histories.

        :param lost: see :meth:`TopicRecord.check`; a stage may have read lost records, and missed their replacements.
        """
        for topic, topic_history in self.histories.items():
            for each in topic_history.check(self._offsets if topic == LEDGER else {}, lost=lost):
                yield Anomaly(each.kind, f"{topic}: {each.what}", each.partition, each.time)
        if lost:
            return
        for index in range(self.settings.partitions):
            yield from exactly_once(self.histories[ORDERS].values(index), self.histories[RESULTS].values(index), index)

    @property
    def outcomes(self) -> list[str]:
        """The outcome of every transaction, as lines."""
        return [
            f"{topic} {each}: {each.outcome} {each.values} {each.asked:.6f}"
            for topic, topic_history in self.histories.items()
            for each in topic_history.ledger.transactions
        ]
