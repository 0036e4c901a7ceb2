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
STATE_TOPIC = "__transaction_state"
TIMEOUT_MS = 10_000
"""Of transactions."""
_IDS = 2
_WRITES = 2.5
"""Of a transaction, on average."""


@define(eq=False)
class TopicRecord:
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
    books: dict[str, TopicRecord] = field(factory=dict, init=False)
    processes: list[ClientProcess] = field(factory=list, init=False)
    _stages: dict[int, CopyStage] = field(factory=dict, init=False)
    _offsets: dict[str, int] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        clock = self.world.clock
        for topic in TOPICS:
            self.books[topic] = TopicRecord(topic, WorkloadContext(History(), lambda: EPOCH_S + clock.now))
        brokers = {each: (host_of(each), PORT) for each in range(1, self.settings.brokers + 1)}
        mains: list[Callable[..., Coroutine[Any, Any, None]]] = [
            partial(self._teller, index) for index in range(_IDS + 1)
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
        return sum((book.job.errors for book in self.books.values()), Counter())

    @property
    def committed(self) -> int:
        """The number of transactions whose commit was acknowledged."""
        return sum(book.ledger.committed for book in self.books.values())

    @property
    def begun(self) -> int:
        """The number of all transactions."""
        return sum(len(book.ledger.transactions) for book in self.books.values())

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
                    self.books[topic].job,
                    seconds,
                    idempotent=True,
                    random=self.world.generator(),
                )
                self._run(producer.run())
        for book in self.books.values():
            self._read(book, "consumer", book.tailing)

    def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        Deferred.fromCoroutine(work).addErrback(self.failed)

    def _read(self, book: TopicRecord, name: str, those: list[CommittedConsumer]) -> None:
        for index in range(self.settings.partitions):
            reader = CommittedConsumer(
                f"{book.topic} {name} {index}", self.main_view(book.topic), index, book.job, self.world.generator()
            )
            those.append(reader)
            self._run(reader.run())

    def _transactor(self, view: ClusterClient, transactional_id: str, index: int) -> TransactionalProducer:
        book = self.books[view.topic]
        way = ClientRouter(view, "transactions")
        return TransactionalProducer(
            way, transactional_id, book.ledger, book.job, by_v2=index % 2 == 0, timeout_ms=TIMEOUT_MS
        )

    async def _teller(self, index: int, view: Callable[[str], ClusterClient]) -> None:
        transactor = self._transactor(view(LEDGER), f"teller {index % _IDS}", index)
        seconds = (_IDS + 1) * _WRITES / self.settings.rate
        job = self.books[LEDGER].job
        await TransactionWriter(transactor, self.settings.partitions, job, seconds, self.world.generator()).run()

    async def _stage(self, partition: int, view: Callable[[str], ClusterClient]) -> None:
        transactor = self._transactor(view(RESULTS), f"stage {partition}", partition)
        orders = self.books[ORDERS].job
        source = StageConsumer(f"stage {partition}", view(ORDERS), partition, orders, self.world.generator())
        stage = self._stages[partition] = CopyStage(transactor, source, partition, self.world.generator())
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
        for book in self.books.values():
            book.job.over = True
        for process in self.processes:
            process.start()

    def probe(self, seconds: float, wait: Callable[[Callable[[], bool], float], bool]) -> None:
        """
        After all faults: no transaction may stay open, and new ones of every producer must be possible.

        :param wait: advances time until a condition is true, for at most a number of seconds.
        """
        # The transactions of producers that do not come back end by their timeout.
        everybody = [reader for book in self.books.values() for reader in book.tailing]
        if not wait(lambda: all(reader.is_stable for reader in everybody), seconds + TIMEOUT_MS / 1000):
            self.found("hanging-transaction", self._unstable(everybody))
        done: set[str] = set()
        for index in range(_IDS):
            self._run(self._probe(index, done))
        if not wait(lambda: len(done) == _IDS, seconds):
            self.found("not-committable", f"of {_IDS} transactional ids {sorted(done)} could commit in {seconds:g} s")
        if not wait(self._all_copied, seconds):
            stages = {index: stage.done for index, stage in self._stages.items()}
            ends = [reader.end for reader in self.books[ORDERS].tailing]
            self.found("not-copied", f"stages are at {stages}, and orders end at {ends}")

    async def _probe(self, index: int, done: set[str]) -> None:
        name = f"teller {index}"
        transactor = self._transactor(self.main_view(LEDGER), name, index)
        teller = TransactionWriter(transactor, self.settings.partitions, self.books[LEDGER].job, 1.0, Random(index))
        while not await teller.transact(commit=True):
            await transactor.way.pause()
        done.add(name)

    def _all_copied(self) -> bool:
        """Whether each stage has reached the end of the orders."""
        ends = {reader.partition: reader.end for reader in self.books[ORDERS].tailing if reader.is_stable}
        return all(index in ends and stage.done >= ends[index] for index, stage in self._stages.items())

    def read_again(self, seconds: float, wait: Callable[[Callable[[], bool], float], bool]) -> None:
        """Read everything once more, with new readers; and the offsets of all groups."""
        for book in self.books.values():
            self._read(book, "reader", book.final)
        for index in range(_IDS):
            self._run(self._offset(f"teller {index}"))
        everybody = [reader for book in self.books.values() for reader in book.readers]
        if not wait(lambda: len(self._offsets) == _IDS and all(reader.is_stable for reader in everybody), seconds):
            self.found("not-stable", f"{self._unstable(everybody)}; offsets: {self._offsets}")
        for reader in everybody:
            reader.stop()

    async def _offset(self, transactional_id: str) -> None:
        way, job = ClientRouter(self.main_view(LEDGER), "offsets"), self.books[LEDGER].job
        found = await stable_offset(way, transactional_id, LEDGER, 0, job, 30.0)
        if found is not None:
            self._offsets[transactional_id] = found
            self.books[LEDGER].ledger.offset_reads.append(OffsetRead(transactional_id, found, way.now))

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
        for topic, book in self.books.items():
            for each in book.check(self._offsets if topic == LEDGER else {}, lost=lost):
                yield Anomaly(each.kind, f"{topic}: {each.what}", each.partition, each.time)
        if lost:
            return
        for index in range(self.settings.partitions):
            yield from exactly_once(self.books[ORDERS].values(index), self.books[RESULTS].values(index), index)

    @property
    def outcomes(self) -> list[str]:
        """The outcome of every transaction, as lines."""
        return [
            f"{topic} {each}: {each.outcome} {each.values} {each.asked:.6f}"
            for topic, book in self.books.items()
            for each in book.ledger.transactions
        ]
