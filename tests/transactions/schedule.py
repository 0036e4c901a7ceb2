"""
Random schedules of actions and failures of transactional producers and brokers, drawn and executed by Hypothesis.

A step does not wait for its effects: each has the number of turns of the reactor until the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import TypeAlias

from attrs import define, field, frozen
from hypothesis import strategies as st

from logbus.testing.simulation.checks.history import Anomaly
from logbus.testing.simulation.checks.transaction_history import OffsetRead
from logbus.testing.simulation.environment.inodes import PowerCutOutcome
from logbus.testing.simulation.workloads.committed_consumer import stable_offset
from logbus.testing.simulation.workloads.transactional_producer import (
    SessionFenced,
    TransactionalProducer,
    TransactionBroken,
)
from tests.transactions.kit import FATES, TOPIC, Bank

ACTS = (
    "write",
    "write",
    "write",
    "offsets",
    "offsets",
    "commit",
    "commit",
    "abort",
    "abort",
    "next epoch",
    "new session",
)
IDS = ("a", "b", "a")
"""Producers' transactional ids: the last is a zombie of the first, or the first of the last."""
_BUSY = 4
_END_S = 60.0


@frozen
class Do:
    """A producer does something once it has done what it was told before; ``fates`` are of its next requests."""

    producer: int
    act: str
    partition: int = 0
    count: int = 1
    fates: tuple[str, ...] = ()


@frozen
class Crash:
    """A producer's process ends, and another begins with the same id."""

    producer: int


@frozen
class Arrive:
    """A request that is late, or comes twice, arrives: the ``which``-th of those."""

    which: int


@frozen
class Kill:
    """A broker's process ends; ``power``: with its machine, and what of unsynced writes is left."""

    broker: int
    power: str | None = None


@frozen
class Boot:
    """Brokers that are down start again."""


@frozen
class Pass:
    """Time passes, in seconds."""

    seconds: float


@frozen
class Look:
    """The offset of a group is asked for."""

    producer: int


Step: TypeAlias = Do | Crash | Arrive | Kill | Boot | Pass | Look


def steps(brokers: int) -> st.SearchStrategy[tuple[Step, int]]:
    """A step, and the turns of the reactor after it."""
    producers = st.integers(0, len(IDS) - 1)
    fates = st.lists(st.sampled_from(("ok", *FATES)), max_size=3).map(tuple)
    act = st.builds(Do, producers, st.sampled_from(ACTS), st.integers(0, 1), st.integers(1, 3), fates)
    seldom: st.SearchStrategy[Step] = st.one_of(
        st.builds(Crash, producers),
        st.builds(Arrive, st.integers(0, 9)),
        st.builds(Kill, st.integers(0, brokers - 1), st.sampled_from((None, "lose", "tear"))),
        st.just(Boot()),
        st.builds(Pass, st.sampled_from((0.1, 0.5, 2.0, 5.0))),
        st.builds(Look, producers),
        st.builds(Look, producers),
    )
    # A step of the second kind after two of the first, on average.
    step: st.SearchStrategy[Step] = st.one_of(act, act, seldom)
    return st.tuples(step, st.sampled_from((0, 1, 2, 5, 10, 20, 40)))


@define(eq=False)
class Player:
    """A producer that does one thing after the other."""

    bank: Bank
    transactional_id: str
    by_v2: bool
    patience: float
    transactional_producer: TransactionalProducer = field(init=False)
    _todo: deque[Do] = field(factory=deque, init=False)
    _busy: bool = field(default=False, init=False)
    _in_session: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.transactional_producer = self.bank.producer(
            self.transactional_id, by_v2=self.by_v2, patience=self.patience
        )

    @property
    def idle(self) -> bool:
        return not self._busy and not self._todo

    def do(self, step: Do) -> None:
        if len(self._todo) < _BUSY:
            self._todo.append(step)
            self._go_on()

    def crash(self) -> None:
        self.transactional_producer.router.dead = True  # type: ignore[attr-defined]
        self._todo.clear()
        self._busy = self._in_session = False
        self.transactional_producer = self.bank.producer(
            self.transactional_id, by_v2=self.by_v2, patience=self.patience
        )

    def _go_on(self) -> None:
        if self._todo and not self._busy:
            self._busy = True
            self.bank.start(self._run(self._todo.popleft()))

    async def _run(self, step: Do) -> None:
        transactional_producer = self.transactional_producer
        transactional_producer.router.fates.extend(step.fates)  # type: ignore[attr-defined]
        try:
            await self._act(transactional_producer, step)
        except TransactionBroken:
            try:
                await transactional_producer.end(commit=False)
            except SessionFenced:
                self._in_session = False
        except SessionFenced:
            self._in_session = False
        self._busy = False
        self._go_on()

    async def _act(self, transactional_producer: TransactionalProducer, step: Do) -> None:
        if not self._in_session or step.act == "new session":
            await transactional_producer.begin_session()
            self._in_session = True
            if step.act == "new session":
                return
        if step.act == "next epoch":
            if transactional_producer.transaction is None:
                await transactional_producer.begin_session(anew=False)
            return
        transaction = transactional_producer.transaction or transactional_producer.begin()
        if step.act == "write":
            await transactional_producer.produce(step.partition, self.bank.job.values(step.count))
        elif step.act == "offsets":
            await transactional_producer.send_offsets({0: transaction.number})
        else:
            await transactional_producer.end(commit=step.act == "commit")


@define(eq=False)
class Play:
    """
    A schedule that is played, on a cluster of its own.

    :ivar by_v2: of each producer, how it works.
    :ivar patience: seconds for which producers try one thing again: with little they abort what may still come.
    """

    brokers: int
    by_v2: Sequence[bool]
    patience: float = 4.0
    bank: Bank = field(init=False)
    players: list[Player] = field(init=False)

    def __attrs_post_init__(self) -> None:
        bank = self.bank = Bank.open(self.brokers)
        self.players = [Player(bank, IDS[index], by_v2, self.patience) for index, by_v2 in enumerate(self.by_v2)]
        for index in range(bank.partitions):
            bank.start(bank.reader(f"reader {index}", index).run())

    def play(self, schedule: Sequence[tuple[Step, int]]) -> list[Anomaly]:
        """All of it, and what is wrong in the end."""
        for step, turns in schedule:
            self._play(step)
            self.bank.turns(turns)
        return self._end()

    def _play(self, step: Step) -> None:
        bank, cluster = self.bank, self.bank.cluster
        match step:
            case Do():
                self.players[step.producer].do(step)
            case Crash():
                self.players[step.producer].crash()
            case Arrive():
                if bank.held:
                    bank.held.pop(step.which % len(bank.held)).arrive()
            case Kill():
                if step.broker in cluster.alive:
                    choice = None if step.power is None else PowerCutOutcome(step.power, Random(step.broker))
                    cluster.kill(step.broker, power=choice)
            case Boot():
                self._boot()
            case Pass():
                cluster.settle(step.seconds)
            case Look():
                bank.start(self._look(IDS[step.producer]))

    def _boot(self) -> None:
        for broker in range(self.brokers):
            if broker not in self.bank.cluster.alive:
                self.bank.cluster.boot(broker)

    async def _look(self, transactional_id: str) -> None:
        bank = self.bank
        found = await stable_offset(bank.router(), transactional_id, TOPIC, 0, bank.job, 10.0)
        if found is not None:
            bank.ledger.offset_reads.append(OffsetRead(transactional_id, found, bank.cluster.clock.seconds()))

    def _end(self) -> list[Anomaly]:
        """Deliver delayed requests, start all brokers, and check that everything works again."""
        bank = self.bank
        self._boot()
        found = []
        if not bank.until(lambda: all(player.idle for player in self.players), _END_S):
            stuck = [player.transactional_id for player in self.players if not player.idle]
            found.append(Anomaly("stuck", f"producers {stuck} do not get on: {dict(bank.job.errors)}"))
        while bank.held:
            bank.held.pop(0).arrive()
            bank.turns(5)
        # What is open and not gone on with ends by its timeout.
        bank.read_all(name="quiet", seconds=_END_S)
        for transactional_id in sorted(set(IDS)):
            bank.now(self._once_more(transactional_id), _END_S)
        return [*found, *bank.anomalies(sorted(set(IDS)), seconds=_END_S)]

    async def _once_more(self, transactional_id: str) -> None:
        for by_v2 in (True, False):
            transactional_producer = self.bank.producer(transactional_id, by_v2=by_v2, patience=30.0)
            await transactional_producer.begin_session()
            transaction = transactional_producer.begin()
            await transactional_producer.produce(0, self.bank.job.values(1))
            await transactional_producer.send_offsets({0: transaction.number})
            await transactional_producer.end(commit=True)
