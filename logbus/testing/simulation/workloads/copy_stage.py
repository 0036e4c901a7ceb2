"""
A stage that reads records, writes what it makes of them, and commits where it is: all in one transaction.

It makes of each value the same value, so that what comes out must be what went in, each once and in order, however
often the stage, its brokers and its coordinators were killed.
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
"""The part of transactions that are aborted although nothing is wrong."""
_SEVERAL_SHARE = 0.5


@define(eq=False)
class StageConsumer(CommittedConsumer):
    """
    What a stage reads.

    :ivar taken: what the last poll gave, values only.
    """

    taken: list[int] = field(factory=list, init=False)

    def _note(self, found: list[tuple[int, int]], end: int) -> None:
        self.taken = [value for _, value in found]
        self.position = max(self.position, end)


@define(eq=False)
class CopyStage:
    """
    Copies one partition.

    :ivar transactor: writes to the output topic, with the same partition; its group is the stage's own.
    :ivar done: how far the input was copied for certain, as an offset.
    """

    transactor: TransactionalProducer
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
                await self.transactor.way.pause()

    async def _session(self) -> None:
        """
        As long as it is the stage.

        :raise Fenced: another one is, or it cannot say any more what it did.
        """
        await self.transactor.begin_session()
        while True:
            offset = await stable_offset(
                self.transactor.way, self.transactor.group_id, self.source.view.topic, self.partition, self._job, 10.0
            )
            if offset is None:
                continue
            self.source.position = self.done = max(offset, 0)
            await self._copy()

    async def _copy(self) -> None:
        """From where it is on, until a transaction is aborted."""
        source, transactor = self.source, self.transactor
        while True:
            source.taken = []
            await source.poll()
            values = source.taken
            if not values:
                continue
            transactor.begin()
            commit = self.random.random() >= _ABORTED_SHARE
            try:
                if self.random.random() < _SEVERAL_SHARE and len(values) > 1:
                    half = len(values) // 2
                    await transactor.produce(self.partition, values[:half])
                    values = values[half:]
                await transactor.produce(self.partition, values)
                await transactor.send_offsets({self.partition: source.position}, source.view.topic)
            except TransactionBroken:
                commit = False
            await transactor.end(commit=commit)
            if not commit:
                return
            self.done = source.position
