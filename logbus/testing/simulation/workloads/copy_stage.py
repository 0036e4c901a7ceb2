"""
A consume-transform-produce stage that copies records, and commits its input offsets in the same transactions.

Output must equal input, each value once and in order, however often the stage, brokers and coordinators are killed.
"""

from __future__ import annotations

from random import Random

from attrs import define, field

from logbus.testing.simulation.workloads.committed_consumer import CommittedConsumer, stable_offset
from logbus.testing.simulation.workloads.consumer import WorkloadContext
from logbus.testing.simulation.workloads.transactional_producer import (
    SessionFenced,
    TransactionalProducer,
    TransactionBroken,
)

_ABORTED_SHARE = 0.1
"""The share of transactions that are aborted on purpose."""
_SEVERAL_SHARE = 0.5


@define(eq=False)
class StageConsumer(CommittedConsumer):
    """
    The consumer of a stage.

    :ivar taken: the values of the last poll.
    """

    taken: list[int] = field(factory=list, init=False)

    def _note(self, found: list[tuple[int, int]], end: int) -> None:
        self.taken = [value for _, value in found]
        self.position = max(self.position, end)


@define(eq=False)
class CopyStage:
    """
    Copies one partition.

    :ivar transactional_producer: writes to the same partition of the output topic; its group is the stage's own.
    :ivar done: the input offset up to which everything was certainly copied.
    """

    transactional_producer: TransactionalProducer
    source: StageConsumer
    partition: int
    random: Random
    done: int = field(default=0, init=False)

    @property
    def _job(self) -> WorkloadContext:
        return self.source.job

    async def run(self) -> None:
        """For ever."""
        while True:
            try:
                await self._session()
            except SessionFenced:
                await self.transactional_producer.router.pause()

    async def _session(self) -> None:
        """
        Copy until it is fenced.

        :raise Fenced: another instance took over, or the outcome of its transaction is unknown.
        """
        await self.transactional_producer.begin_session()
        while True:
            offset = await stable_offset(
                self.transactional_producer.router,
                self.transactional_producer.group_id,
                self.source.view.topic,
                self.partition,
                self._job,
                10.0,
            )
            if offset is None:
                continue
            self.source.position = self.done = max(offset, 0)
            await self._copy()

    async def _copy(self) -> None:
        """Copy from the committed offset on, until a transaction is aborted."""
        source, transactional_producer = self.source, self.transactional_producer
        while True:
            source.taken = []
            await source.poll()
            values = source.taken
            if not values:
                continue
            transactional_producer.begin()
            commit = self.random.random() >= _ABORTED_SHARE
            try:
                if self.random.random() < _SEVERAL_SHARE and len(values) > 1:
                    half = len(values) // 2
                    await transactional_producer.produce(self.partition, values[:half])
                    values = values[half:]
                await transactional_producer.produce(self.partition, values)
                await transactional_producer.send_offsets({self.partition: source.position}, source.view.topic)
            except TransactionBroken:
                commit = False
            await transactional_producer.end(commit=commit)
            if not commit:
                return
            self.done = source.position
