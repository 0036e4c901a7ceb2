"""A consumer that reads one partition from the beginning, and the context that clients of a workload share."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.errors import DecodeError, ErrorCode, LogbusError
from logbus.net.channel import Channel
from logbus.records.batch import iter_records
from logbus.records.header import HEADER_SIZE, batch_problem, iter_batches, read_header
from logbus.testing.simulation.checks.history import Anomaly, History, Poll
from logbus.testing.simulation.workloads.cluster_client import ClusterClient, Unavailable, name_of
from logbus.wire.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

DAMAGED = "damaged batch"
"""Counted among the errors: a reader got a batch with a wrong checksum."""


@define(eq=False)
class WorkloadContext:
    """
    The shared state of a workload's clients.

    :ivar over: no more is to be sent.
    :ivar errors: what clients were told, by name: how much of a run was trouble.
    :ivar strange: what no broker may say.
    """

    history: History
    wall_clock: Callable[[], float]
    over: bool = field(default=False, init=False)
    errors: Counter[str] = field(factory=Counter, init=False)
    strange: list[Anomaly] = field(factory=list, init=False)
    last_value: int = field(default=0, init=False)

    def values(self, count: int) -> tuple[int, ...]:
        """New integers, to be sent."""
        first = self.last_value + 1
        self.last_value += count
        return tuple(range(first, first + count))


@define(eq=False)
class Consumer:
    """
    Reads one partition from the beginning.

    :ivar position: the next fetch offset.
    :ivar version: of its fetches; ``isolation``: of them, 1 for committed records only.
    """

    isolation: ClassVar[int] = 0

    name: str
    view: ClusterClient
    partition: int
    job: WorkloadContext
    random: Random
    version: int = 12
    wait_ms: int = 500
    position: int = field(default=0, init=False)
    end: int = field(default=-1, init=False)
    _stopped: bool = field(default=False, init=False)
    _trouble: int = field(default=0, init=False)
    _is_damaged: bool = field(default=False, init=False)

    async def run(self) -> None:
        """Poll until it is stopped."""
        while not self._stopped:
            await self.poll()

    @property
    def is_at_the_end(self) -> bool:
        """Whether it has read everything that was committed at its last poll."""
        return self.end >= 0 and self.position >= self.end

    def stop(self) -> None:
        """Stop polling."""
        self._stopped = True

    async def poll(self) -> None:
        """Fetch once, and handle the answer or the error."""
        try:
            channel, epoch = await self.view.leader(self.partition, f"{self.name}")
            response = await self._fetch(channel, epoch)
        except (LogbusError, Unavailable) as error:
            self.job.errors[type(error).__name__] += 1
            self.view.forget(self.partition)
            await self.view.sleep(self.random.uniform(0.05, 0.3))
            return
        if response.error_code or not response.responses:
            self.job.errors[name_of(response.error_code)] += 1
            await self.view.sleep(0.1)
            return
        answer = response.responses[0].partitions[0]
        if answer.error_code:
            await self._refused(answer.error_code)
            return
        self._trouble = 0
        self.end = answer.high_watermark
        self._check_answer(answer)
        if self._is_damaged:
            self._is_damaged = False
            self.job.errors[DAMAGED] += 1
            self.view.forget(self.partition)
            await self.view.sleep(self.random.uniform(0.05, 0.3))

    async def _refused(self, code: int) -> None:
        self.job.errors[name_of(code)] += 1
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and self.position:
            # Nothing is deleted in these logs: records that it has read are gone.
            self._trouble += 1
            if self._trouble == 1:
                self.job.strange.append(
                    Anomaly(
                        "out-of-range",
                        f"{self.name} has read partition {self.partition} up to {self.position}, and was told at "
                        f"{self.view.reactor.seconds():.3f} that the log does not reach there",
                        self.partition,
                        self.view.reactor.seconds(),
                    )
                )
        self.view.forget(self.partition)
        await self.view.sleep(self.random.uniform(0.05, 0.3))

    def _check_answer(self, answer: PartitionData) -> None:
        data = self._content(answer)
        found = []
        try:
            for record in iter_records(data):
                if record.offset >= self.position:
                    assert record.value is not None
                    found.append((record.offset, struct.unpack(">q", record.value)[0]))
            end = max((header.next_offset for _, header in iter_batches(data)), default=self.position)
        except (DecodeError, struct.error) as error:
            self.job.strange.append(Anomaly("damaged-read", f"{self.name} at {self.position}: {error}"))
            return
        self._note(found, end)

    def _content(self, answer: PartitionData) -> bytes:
        """The batches of an answer before the first with a wrong checksum; the rest is fetched again."""
        records: Any = answer.records
        data = bytes(records or b"")
        whole = whole_batches(data)
        self._is_damaged = len(whole) < len(data)
        return whole

    def _note(self, found: list[tuple[int, int]], end: int) -> None:
        """Note the records of an answer, and continue at ``end``."""
        time = self.view.reactor.seconds()
        self.job.history.polls.append(Poll(self.name, self.partition, self.position, tuple(found), time))
        self.position = max(self.position, end)

    def _fetch(self, channel: Channel, epoch: int) -> Deferred[FetchResponse]:
        partition = FetchPartition(
            partition=self.partition,
            current_leader_epoch=epoch,
            fetch_offset=self.position,
            partition_max_bytes=1 << 20,
        )
        topic: Any = FetchTopic(topic=self.view.topic, topic_id=self.view.topic_id, partitions=[partition])
        request = FetchRequest(
            max_wait_ms=self.wait_ms,
            min_bytes=1,
            max_bytes=1 << 24,
            isolation_level=self.isolation,
            topics=[topic],
        )
        return channel.request(request, self.version)


def whole_batches(data: bytes) -> bytes:
    """The batches before the first one that is damaged; all of them, if none is."""
    position = 0
    while len(data) - position >= HEADER_SIZE:
        header = read_header(data, position)
        if batch_problem(data, position, header) is not None:
            return data[:position]
        position += header.size
    return data
