"""Runs transactions of one producer: writes to some partitions, an offset commit, then commit or abort."""

from __future__ import annotations

from random import Random

from attrs import define, field

from logbus.testing.simulation.workloads.consumer import WorkloadContext
from logbus.testing.simulation.workloads.transactional_producer import (
    SessionFenced,
    TransactionalProducer,
    TransactionBroken,
)

_ABORTED_SHARE = 0.3
"""The share of transactions that their producers abort."""
_ABANDONED_SHARE = 0.03
"""The share of transactions that are left open for about their timeout."""


@define(eq=False)
class TransactionWriter:
    """
    Runs one transaction after the other.

    :ivar transactional_producer: the producer; ``partitions``: of the topic.
    :ivar seconds_between: the average time between two transactions.
    """

    transactional_producer: TransactionalProducer
    partitions: int
    job: WorkloadContext
    seconds_between: float
    random: Random
    _in_session: bool = field(default=False, init=False)

    async def run(self) -> None:
        """Until the job is over."""
        view = self.transactional_producer.router.view
        while not self.job.over:
            await view.sleep(self.random.expovariate(1 / self.seconds_between))
            if not self.job.over:
                await self.transact()

    async def transact(self, *, commit: bool | None = None) -> bool:
        """
        Run one transaction.

        :param commit: None: as it comes.
        :returns: whether it ended as it was to.
        """
        transactional_producer = self.transactional_producer
        if commit is None:
            commit = self.random.random() >= _ABORTED_SHARE
        try:
            if not self._in_session:
                await transactional_producer.begin_session()
                self._in_session = True
            transactional_producer.begin()
            try:
                await self._work()
                done = True
            except TransactionBroken:
                commit = done = False
            await transactional_producer.end(commit=commit)
            return done
        except SessionFenced:
            self._in_session = False
            return False

    async def _work(self) -> None:
        random, transactional_producer = self.random, self.transactional_producer
        transaction = transactional_producer.transaction
        assert transaction is not None
        writes = random.randrange(1, 5)
        with_offsets = random.randrange(writes) if random.random() < 0.5 else -1
        forgotten = random.randrange(1, writes + 1) if random.random() < _ABANDONED_SHARE else -1
        for index in range(writes):
            if index == with_offsets:
                await transactional_producer.send_offsets({0: transaction.number})
            await transactional_producer.produce(
                random.randrange(self.partitions), self.job.values(random.randrange(1, 4))
            )
            if index + 1 == forgotten:
                await transactional_producer.router.view.sleep(
                    transactional_producer.timeout_ms / 1000 * random.uniform(0.5, 2)
                )
            elif random.random() < 0.2:
                await transactional_producer.router.view.sleep(random.expovariate(1))
