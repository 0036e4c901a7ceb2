"""
Appends a coordinator's records to one partition of an internal topic, and reads them back (Kafka: PartitionWriter and
CoordinatorLoader). The records are opaque keys and values here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import define
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from logbus.cluster.replication.replica_manager import Replica
from logbus.coordination.state_log_reader import Apply, LoadSummary, StateLogReader, TransactionReplay
from logbus.coordination.transactions.transaction_metadata import ProducerIdAndEpoch
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.net.time_slices import SliceScheduler
from logbus.records.batch import BatchBuilder
from logbus.records.compression import MAX_DECOMPRESSED, Codec

KeyAndValue = tuple[bytes, bytes | None]

_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
#: Errors of a producer or its transaction, which are returned unchanged.
_OF_PRODUCERS = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE})


@define(eq=False, repr=False)
class StateLog:
    """
    The log behind a coordinator's state.

    :ivar replica: of the partition, which this broker leads.
    :ivar codec: how batches are compressed.
    :ivar timeout_ms: how long an append may take to be durable.
    :ivar slices: gives turns to loads.
    """

    replica: Replica
    clock: IReactorTime
    wall_ms: Callable[[], int]
    codec: Callable[[], Codec]
    timeout_ms: Callable[[], int]
    slices: SliceScheduler

    # Writing.

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return self.replica.log.log_end_offset

    def append(
        self, records: Sequence[KeyAndValue], too_large: ErrorCode, producer: ProducerIdAndEpoch | None = None
    ) -> Deferred[None]:
        """
        Append records as one batch, now.

        :param too_large: the error if the records do not fit into one batch.
        :param producer: the records are part of its open transaction.
        :return: fires when they are durable on all in-sync replicas.
        :raise ApiError: they were not appended: ``too_large``, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE; with
            ``producer``, INVALID_PRODUCER_EPOCH. The Deferred fails with NOT_COORDINATOR or COORDINATOR_NOT_AVAILABLE:
            then it is unknown whether the records will be kept.
        """
        now_ms = self.wall_ms()
        builder = BatchBuilder(self.codec())
        for key, value in records:
            builder.append(now_ms, key, value)
        return self._write(builder, now_ms, too_large, producer)

    def append_all(self, records: Sequence[KeyAndValue]) -> Iterator[tuple[Sequence[KeyAndValue], Deferred[None]]]:
        """
        Append records in as many batches as needed.

        :return: lazily, the records of each batch, and a Deferred that fires when it is durable.
        :raise ApiError: as :meth:`append`; records that were not yielded are not appended.
        """
        limit = self.replica.log.config.max_message_bytes
        start = 0
        while start < len(records):
            now_ms = self.wall_ms()
            builder = BatchBuilder(self.codec())
            end = start
            while end < len(records) and builder.room_for(limit, *records[end]):
                builder.append(now_ms, *records[end])
                end += 1
            durable = self._write(builder, now_ms, ErrorCode.UNKNOWN_SERVER_ERROR)
            yield records[start:end], durable
            start = end

    def _write(
        self, builder: BatchBuilder, now_ms: int, too_large: ErrorCode, producer: ProducerIdAndEpoch | None = None
    ) -> Deferred[None]:
        if builder.size > MAX_DECOMPRESSED:
            # A compressed batch may be within the topic's limit, and could not be read back.
            raise ApiError(too_large, f"{builder.size} bytes of records are more than can be read back")
        if producer is None:
            batch = builder.build()
        else:
            batch = builder.build(producer_id=producer.producer_id, producer_epoch=producer.epoch, transactional=True)
        try:
            self.replica.append(batch, now_ms, all_in_sync=True, from_coordinator=True)
        except (ApiError, StorageError) as e:
            raise self._refusal(e, too_large) from e
        return self.durable(too_large)

    def durable(self, too_large: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR) -> Deferred[None]:
        """Fires when everything appended so far is durable; fails as that of :meth:`append`."""
        try:
            durable = self.replica.durable()
        except (ApiError, StorageError) as e:
            return fail(self._refusal(e, too_large))
        if durable is None:
            return succeed(None)

        def refused(failure: Failure) -> None:
            failure.trap(ApiError, StorageError)
            assert failure.value is not None
            raise self._refusal(failure.value, too_large) from failure.value

        seconds = self.timeout_ms() / 1000
        return durable.addTimeout(seconds, self.clock, onTimeoutCancel=self._timed_out).addErrback(refused)

    def _timed_out(self, result: object, seconds: float) -> None:
        name = self.replica.topic_partition
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"{name} was not durable after {seconds:g} s")

    def _refusal(self, error: BaseException, too_large: ErrorCode) -> ApiError:
        """The error for a client whose change could not be written."""
        code = error.code if isinstance(error, ApiError) else ErrorCode.KAFKA_STORAGE_ERROR
        if code in _TOO_LARGE:
            return ApiError(too_large, str(error))
        if code in _OF_PRODUCERS:
            return ApiError(code, str(error))
        # While this broker leads the partition, there is no other coordinator to find.
        leads = self.replica.partition.is_leader and not isinstance(error, StorageError)
        return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE if leads else ErrorCode.NOT_COORDINATOR, str(error))

    # Reading back.

    async def load(
        self,
        apply: Apply,
        slice_bytes: int,
        wanted: Callable[[], bool],
        transactions: TransactionReplay | None = None,
    ) -> LoadSummary:
        """
        Read all records that are in the log now, oldest first, in slices between which the reactor runs.

        Damaged data, and records that ``apply`` cannot decode, are logged and skipped, so that one bad record does not
        cost the state of all others.

        :param slice_bytes: how much is read at a time.
        :param wanted: called at every turn; False cancels the load.
        :param transactions: applies transactional records, instead of ``apply``, and markers; None: this log has none.
        """
        return await StateLogReader(self.replica, self.clock, self.slices, apply, transactions).read(
            slice_bytes, wanted
        )
