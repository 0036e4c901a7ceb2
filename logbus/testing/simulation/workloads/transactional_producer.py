"""
A minimal transactional producer that behaves as real ones do, with both versions of the transaction protocol.

By V1 (Kafka clients before 4.0, librdkafka, kafka-python) partitions and groups are added to a transaction first, and
the epoch changes only after an unknown outcome. By V2 (KIP-890) the first write adds a partition, and each end of a
transaction returns the epoch of the next.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import inf
from typing import Any

from attrs import define, field

from logbus.errors import ErrorCode, LogbusError
from logbus.records.batch import Record, encode_batch
from logbus.testing.simulation.checks.history import FAIL, OK, Anomaly
from logbus.testing.simulation.checks.transaction_history import ProducerSession, Transaction, TransactionHistory, Write
from logbus.testing.simulation.workloads.client_router import GROUP, MOVED, RETRIABLE, TRANSACTION, ClientRouter
from logbus.testing.simulation.workloads.cluster_client import Unavailable, name_of
from logbus.testing.simulation.workloads.consumer import WorkloadContext
from logbus.wire.messages.partitions import NamedTopicPartitions
from logbus.wire.messages.records import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from logbus.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

_SEQUENCES = 2**31
_FENCED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
_EXPECTED = _FENCED | {ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE}


class SessionFenced(Exception):
    """The session is over; another one may be begun."""


class TransactionBroken(Exception):
    """The transaction cannot be committed any more."""


@define(eq=False)
class TransactionalProducer:
    """
    One producer with a transactional id.

    :ivar ledger: its history; ``job``: source of the values, and collector of unexpected errors.
    :ivar by_v2: whether it uses V2.
    :ivar timeout_ms: of its transactions.
    :ivar patience: seconds to retry one request; the end of a transaction four times as long.
    :ivar group: of the offsets that it commits; None: a group named as its transactional id.
    :ivar transaction: the open one.
    """

    router: ClientRouter
    transactional_id: str
    ledger: TransactionHistory
    job: WorkloadContext
    by_v2: bool = True
    timeout_ms: int = 10_000
    patience: float = 8.0
    group: str | None = None
    transaction: Transaction | None = field(default=None, init=False)
    producer_id: int = field(default=-1, init=False)
    epoch: int = field(default=-1, init=False)
    _session: ProducerSession = field(init=False)
    _sequences: dict[int, int] = field(factory=dict, init=False)
    _added: set[object] = field(factory=set, init=False)
    _doubtful: bool = field(default=False, init=False)

    @property
    def group_id(self) -> str:
        """The group whose offsets are committed."""
        return self.group if self.group is not None else self.transactional_id

    async def begin_session(self, *, anew: bool = True) -> None:
        """
        Get a producer id and an epoch: earlier producers are fenced, their transaction aborted.

        :param anew: as a new process does, not as one that requests the next epoch (KIP-360).
        :raise Fenced: it requested the next epoch, and is not the current producer any more.
        """
        if anew:
            self.producer_id = self.epoch = -1
        session = self.ledger.session(self.transactional_id, self.router.now)
        self.transaction = None
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
        )
        code, answer = await self._insist(
            lambda: self._ask_coordinator(request, 5 if self.by_v2 else 4), lambda answer: int(answer.error_code), inf
        )
        if code:
            self.producer_id = self.epoch = -1
            if anew:
                self._strange("init-refused", code)
            raise SessionFenced(name_of(code))
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        session.answered = self.router.now
        self._session = session
        self._sequences.clear()
        self._doubtful = False

    def begin(self) -> Transaction:
        """Begin a transaction, without a request."""
        self._added.clear()
        self.transaction = self.ledger.begin(self._session, self.router.now)
        return self.transaction

    async def produce(self, partition: int, values: Sequence[int]) -> None:
        """
        Write.

        :raise Fenced: the session is over.
        :raise Broken: it was not written, or that is unknown.
        """
        transaction = self._open
        if not self.by_v2 and partition not in self._added:
            topic = NamedTopicPartitions(name=self.router.view.topic, partitions=[partition])
            await self._granted(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self.transactional_id,
                    v3_and_below_producer_id=self.producer_id,
                    v3_and_below_producer_epoch=self.epoch,
                    v3_and_below_topics=[topic],
                ),
                3,
                lambda answer: int(
                    answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
                ),
            )
        self._added.add(partition)
        write = Write(partition, tuple(values), self.router.now)
        transaction.writes.append(write)
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = (sequence + len(values)) % _SEQUENCES
        request = self._produce_request(write, sequence)
        code, answer = await self._insist(
            lambda: self.router.ask_leader(partition, request, 12 if self.by_v2 else 11),
            lambda answer: int(answer.responses[0].partition_responses[0].error_code),
            self.patience,
            partition=partition,
        )
        write.end = self.router.now
        if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._doubtful = True
            if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self._strange("lost-producer", code, partition)
            raise self._trouble(code)
        write.offset = -1 if code else answer.responses[0].partition_responses[0].base_offset

    async def send_offsets(self, offsets: Mapping[int, int], topic: str | None = None) -> None:
        """
        Have offsets of the group committed with the transaction, by partition.

        :param topic: default: the output topic.
        :raise Fenced: the session is over.
        :raise Broken: they were not added, or that is unknown.
        """
        self._open.offsets = topic is None
        if not self.by_v2 and "group" not in self._added:
            await self._granted(
                AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    group_id=self.group_id,
                ),
                3,
                lambda answer: int(answer.error_code),
            )
        self._added.add("group")
        partitions = [
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
            for index, offset in offsets.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic or self.router.view.topic, partitions=partitions)],
        )
        code, _ = await self._insist(
            lambda: self.router.ask_coordinator(GROUP, self.group_id, request, 5 if self.by_v2 else 3),
            lambda answer: max((int(p.error_code) for t in answer.topics for p in t.partitions), key=abs),
            self.patience,
            coordinator=(GROUP, self.group_id),
        )
        if code:
            self._doubtful = True
            raise self._trouble(code)

    async def end(self, *, commit: bool) -> None:
        """
        Commit or abort.

        :raise Fenced: the session is over; the transaction's outcome is in the history.
        """
        transaction = self._open
        self.transaction = None
        if not self._added:
            return
        if commit:
            transaction.commits(self.router.now)
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        doubtful = self._doubtful
        self._doubtful = False
        code, answer = await self._insist(
            lambda: self._ask_coordinator(request, 5 if self.by_v2 else 3),
            lambda answer: int(answer.error_code),
            4 * self.patience,
        )
        transaction.ended = self.router.now
        if code:
            if commit and not self._doubtful:
                transaction.outcome = FAIL
            if code not in _EXPECTED and code != ErrorCode.NETWORK_EXCEPTION:
                self._strange("end-refused", code)
            raise SessionFenced(name_of(code))
        if commit:
            transaction.outcome = OK
        if self.by_v2:
            self._next(answer)
        elif doubtful or self._doubtful:
            # A write in flight must not become a part of the next transaction (KIP-360).
            await self.begin_session(anew=False)

    def _next(self, answer: EndTxnResponse) -> None:
        """Take over the epoch that the end of a transaction returned."""
        if (answer.producer_id, answer.producer_epoch) == (self.producer_id, self.epoch):
            self.job.strange.append(
                Anomaly(
                    "same-epoch", f"{self.transactional_id} was given epoch {self.epoch} again", -1, self.router.now
                )
            )
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()
        self._doubtful = False

    @property
    def _open(self) -> Transaction:
        assert self.transaction is not None, "no transaction is open"
        return self.transaction

    async def _granted(self, request: Any, version: int, code_of: Callable[[Any], int]) -> None:
        """The transaction is not empty from here on."""
        # An unknown outcome counts as added: the transaction must be ended.
        self._added.add("asked")
        code, _ = await self._insist(lambda: self._ask_coordinator(request, version), code_of, self.patience)
        if code:
            self._doubtful = True
            raise self._trouble(code)

    def _ask_coordinator(self, request: Any, version: int) -> Awaitable[Any]:
        return self.router.ask_coordinator(TRANSACTION, self.transactional_id, request, version)

    async def _insist(
        self,
        ask: Callable[[], Awaitable[Any]],
        code_of: Callable[[Any], int],
        patience: float,
        *,
        partition: int | None = None,
        coordinator: tuple[int, str] | None = None,
    ) -> tuple[int, Any]:
        """
        Send a request, with retries on retriable errors.

        :returns: the error code and the answer; NETWORK_EXCEPTION and None after the timeout.
        """
        router = self.router
        deadline = router.now + patience
        while True:
            try:
                answer = await ask()
            except Unavailable:
                self.job.errors["unavailable"] += 1
                if partition is not None:
                    router.view.forget(partition)
            except LogbusError as error:
                self.job.errors[type(error).__name__] += 1
                self._doubtful = True
            else:
                code = code_of(answer)
                if code not in RETRIABLE:
                    if code:
                        self.job.errors[name_of(code)] += 1
                    return code, answer
                self.job.errors[name_of(code)] += 1
                if code in MOVED:
                    if partition is not None:
                        router.view.forget(partition)
                    else:
                        router.moved(*(coordinator or (TRANSACTION, self.transactional_id)))
                if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                    # It may have begun.
                    self._doubtful = True
            if router.now >= deadline:
                return ErrorCode.NETWORK_EXCEPTION, None
            await router.pause()

    def _trouble(self, code: int) -> Exception:
        if code in _FENCED:
            return SessionFenced(name_of(code))
        if code not in _EXPECTED and code not in (
            ErrorCode.NETWORK_EXCEPTION,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ):
            self._strange("refused", code)
        return TransactionBroken(name_of(code))

    def _strange(self, kind: str, code: int, partition: int = -1) -> None:
        now = self.router.now
        what = f"{self.transactional_id} (producer {self.producer_id}, epoch {self.epoch}) was told {name_of(code)}"
        self.job.strange.append(Anomaly(kind, f"{what} at {now:.3f}", partition, now))

    def _produce_request(self, write: Write, sequence: int) -> ProduceRequest:
        now_ms = int(self.job.wall_clock() * 1000)
        records = [Record(i, now_ms, None, struct.pack(">q", value)) for i, value in enumerate(write.values)]
        data = encode_batch(
            records,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        topic = TopicProduceData(
            name=self.router.view.topic, partition_data=[PartitionProduceData(index=write.partition, records=data)]
        )
        return ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=5000, topic_data=[topic])


__all__ = ["TransactionBroken", "SessionFenced", "TransactionalProducer"]
