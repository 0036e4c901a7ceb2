"""
Writes transaction markers to partitions led by this broker, and reports when they are durable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from attrs import define
from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.replication.replica_manager import Replica, ReplicaManager
from logbus.coordination.transactions.end_transaction_marker import EndTransactionMarker
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.model import OFFSETS_TOPIC, TopicPartition
from logbus.records.control_records import ControlType, Marker

Completed = Callable[[int, int, bool, int], object]
"""See :meth:`.GroupCoordinator.transaction_completed`."""


Outcomes = Mapping[TopicPartition, ErrorCode]


@define(eq=False, repr=False)
class MarkerWriter:
    """
    Writes markers.

    :ivar completed: called for each durable marker in a partition of ``__consumer_offsets``.
    :ivar timeout_ms: how long a marker may take to become durable.
    """

    replicas: ReplicaManager
    completed: Completed
    clock: IReactorTime
    wall_ms: Callable[[], int]
    timeout_ms: Callable[[], int]
    _log = Logger()

    def write(self, end_marker: EndTransactionMarker, partitions: Collection[TopicPartition]) -> Deferred[Outcomes]:
        """
        Append a marker to partitions.

        :return: fires with NONE or an error for each, when it is durable in all or has failed; it never fails itself.
        """
        outcomes: dict[TopicPartition, ErrorCode] = {}
        waits = [self._write_one(end_marker, partition, outcomes) for partition in partitions]
        if len(waits) == 1:
            return waits[0].addCallback(lambda _: outcomes)
        all_done: Deferred[list[None]] = gatherResults(waits, consumeErrors=True)
        return all_done.addCallback(lambda _: outcomes)

    def _write_one(
        self, end_marker: EndTransactionMarker, partition: TopicPartition, outcomes: dict[TopicPartition, ErrorCode]
    ) -> Deferred[None]:
        type = ControlType.COMMIT if end_marker.committed else ControlType.ABORT
        marker = Marker(type, end_marker.coordinator_epoch)
        try:
            replica: Replica = self.replicas.leader(*partition)
            appended = replica.append_marker(
                end_marker.producer_id, end_marker.producer_epoch, marker, self.wall_ms(), end_marker.version
            )
            durable = replica.durable()
        except (ApiError, StorageError) as e:
            outcomes[partition] = _code_of(e)
            return succeed(None)

        def lasts(_: object) -> None:
            if partition.topic == OFFSETS_TOPIC:
                self.completed(partition.partition, end_marker.producer_id, end_marker.committed, appended.base_offset)
            outcomes[partition] = ErrorCode.NONE

        def lost(failure: Failure) -> None:
            error = failure.value
            if not isinstance(error, (ApiError, StorageError)):
                self._log.failure("a marker in {partition} failed", failure, partition=partition)
            outcomes[partition] = _code_of(error)

        if durable is None:
            durable = succeed(None)
        else:
            seconds = self.timeout_ms() / 1000
            durable.addTimeout(seconds, self.clock, onTimeoutCancel=_timed_out)
        return durable.addCallback(lasts).addErrback(lost)


def _timed_out(result: object, seconds: float) -> None:
    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"a marker was not durable after {seconds:g} s")


def _code_of(error: BaseException | None) -> ErrorCode:
    if isinstance(error, ApiError):
        return error.code
    return ErrorCode.KAFKA_STORAGE_ERROR if isinstance(error, StorageError) else ErrorCode.UNKNOWN_SERVER_ERROR
