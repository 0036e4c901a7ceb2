"""A producer that writes unique integers to a partition, several batches at a time."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from random import Random

from attrs import define, field
from twisted.internet.defer import Deferred, gatherResults

from logbus.errors import ErrorCode, LogbusError
from logbus.net.channel import Channel
from logbus.records.batch import Record, encode_batch
from logbus.testing.simulation.checks.history import FAIL, INFO, OK, Anomaly, Send
from logbus.testing.simulation.workloads.cluster_client import ClusterClient, Unavailable, name_of
from logbus.testing.simulation.workloads.consumer import WorkloadContext
from logbus.wire.messages.records import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from logbus.wire.messages.transactions import InitProducerIdRequest, InitProducerIdResponse

# The errors after which the batch was certainly not written; after any other it may be in the log.
_NOT_WRITTEN = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_OUT_OF_STEP = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
_GIVE_UP_S = 60.0
_BURSTS = (1, 1, 1, 1, 3, 5)
_MEAN_BURST = sum(_BURSTS) / len(_BURSTS)


@define(eq=False)
class _Batch:
    """A batch to be sent, and its outcome so far."""

    values: tuple[int, ...]
    records: bytes
    sequence: int
    acks: int
    begin: float
    outcome: str = FAIL
    offset: int | None = None
    end: float = 0.0
    code: int = 0


@define(eq=False)
class Producer:
    """
    Writes to one partition, up to five batches at a time, with acks=all, or some of them with acks=1.

    :ivar idempotent: it sends batches with an unknown outcome again, in order; otherwise none is sent twice.
    :ivar careless: the share of batches sent with acks=1, which may be lost. Not if idempotent.
    """

    name: str
    view: ClusterClient
    partition: int
    job: WorkloadContext
    seconds_between: float
    idempotent: bool
    random: Random
    careless: float = 0.0
    _producer_id: int = field(default=-1, init=False)
    _sequence: int = field(default=0, init=False)

    async def run(self) -> None:
        """Until the job is over."""
        while not self.job.over:
            await self.view.sleep(self.random.expovariate(1 / (self.seconds_between * _MEAN_BURST)))
            if not self.job.over:
                await self.send(self.random.choice(_BURSTS))

    async def send(self, count: int = 1) -> bool:
        """Send a number of batches; return whether all were acknowledged."""
        if self.idempotent and self._producer_id < 0 and not await self._introduce():
            return False
        batches = [self._batch() for _ in range(count)]
        left = batches
        while left:
            await self._attempt_all(left)
            left = [batch for batch in left if batch.outcome != OK]
            if not self.idempotent or self._producer_id < 0:
                break
            if left and self.view.reactor.seconds() - batches[0].begin > _GIVE_UP_S:
                # The outcome is unknown, and the sequence ends here.
                self._producer_id = -1
                break
            if left:
                await self.view.sleep(self.random.uniform(0.05, 0.5))
        for batch in batches:
            # It was written, but may be lost.
            outcome = INFO if batch.acks == 1 and batch.outcome == OK else batch.outcome
            offset = batch.offset if outcome == OK else None
            self.job.history.sends.append(
                Send(self.name, self.partition, batch.values, outcome, offset, batch.begin, batch.end)
            )
        return not left

    def _batch(self) -> _Batch:
        values = self.job.values(self.random.choice([1, 1, 1, 2, 5]))
        now_ms = int(self.job.wall_clock() * 1000)
        records = [Record(i, now_ms, None, struct.pack(">q", value)) for i, value in enumerate(values)]
        begin = self.view.reactor.seconds()
        if not self.idempotent:
            acks = 1 if self.random.random() < self.careless else -1
            return _Batch(values, encode_batch(records), 0, acks, begin)
        sequence = self._sequence
        self._sequence += len(values)
        data = encode_batch(
            records, producer_id=self._producer_id, producer_epoch=0, base_sequence=sequence & 0x7FFFFFFF
        )
        return _Batch(values, data, sequence, -1, begin)

    async def _introduce(self) -> bool:
        try:
            channel, _ = await self.view.leader(self.partition, "produce")
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            response: InitProducerIdResponse = await channel.request(request)
        except (LogbusError, Unavailable):
            self.view.forget(self.partition)
            await self.view.sleep(0.1)
            return False
        if response.error_code:
            self.job.errors[name_of(response.error_code)] += 1
            return False
        self._producer_id, self._sequence = response.producer_id, 0
        return True

    async def _attempt_all(self, batches: Sequence[_Batch]) -> None:
        """Send them one right after the other on one connection, and wait for all answers."""
        try:
            channel, _ = await self.view.leader(self.partition, "produce")
        except Unavailable:
            self.job.errors["unavailable"] += 1
            self.view.forget(self.partition)
            for batch in batches:
                batch.end = self.view.reactor.seconds()
            await self.view.sleep(0.05)
            return
        # Each in a coroutine of its own, all started before the first answer.
        await gatherResults([Deferred.fromCoroutine(self._attempt(channel, batch)) for batch in batches])
        if self.idempotent and batches[0].code in _OUT_OF_STEP:
            # All batches before the first were acknowledged.
            now = self.view.reactor.seconds()
            self.job.strange.append(
                Anomaly(
                    "lost-producer",
                    f"{self.name} was told {name_of(batches[0].code)} for sequence {batches[0].sequence} of producer "
                    f"{self._producer_id} in partition {self.partition} at {now:.3f}",
                    self.partition,
                    now,
                )
            )
            self._producer_id = -1

    async def _attempt(self, channel: Channel, batch: _Batch) -> None:
        batch.code = 0
        try:
            response: ProduceResponse = await channel.request(self._request(batch), 11)
        except LogbusError as error:
            self.job.errors[type(error).__name__] += 1
            batch.outcome = INFO
            self.view.forget(self.partition)
        else:
            self._judge(response.responses[0].partition_responses[0], batch)
        batch.end = self.view.reactor.seconds()

    def _judge(self, answer: PartitionProduceResponse, batch: _Batch) -> None:
        code = batch.code = answer.error_code
        if not code:
            batch.outcome, batch.offset = OK, answer.base_offset if answer.base_offset >= 0 else None
            return
        self.job.errors[name_of(code)] += 1
        if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER and self.idempotent:
            batch.outcome = OK
        elif code in _OUT_OF_STEP and self.idempotent:
            # A batch before it did not arrive: this one was not written, unless an earlier attempt was.
            pass
        else:
            if code not in _NOT_WRITTEN:
                batch.outcome = INFO
            self.view.forget(self.partition)

    def _request(self, batch: _Batch) -> ProduceRequest:
        data = PartitionProduceData(index=self.partition, records=batch.records)
        topic = TopicProduceData(name=self.view.topic, partition_data=[data])
        return ProduceRequest(transactional_id=None, acks=batch.acks, timeout_ms=5000, topic_data=[topic])
