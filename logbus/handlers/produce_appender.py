"""
Appends the batches of producers to logs, and counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.replication.replica_manager import Replica, ReplicaManager
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.handlers.produce_errors import api_error, no_transactional_id, timed_out
from logbus.handlers.transaction_verification import is_transactional
from logbus.metrics import metric
from logbus.model import INTERNAL_TOPICS, known_uuid
from logbus.records.checksum import Buffer
from logbus.storage.appends.append_many import AppendManyResult
from logbus.storage.appends.large_appends import LargeAppends
from logbus.storage.appends.log_append_info import LogAppendInfo
from logbus.storage.appends.recompression import LEAST_FOR_THREAD, PRODUCER
from logbus.storage.filesystem.slow_writes import LARGE

#: The first version of Produce whose clients support zstd (KIP-110).
ZSTD_VERSION = 7

#: The first version of Produce that names topics by their ids (KIP-516).
TOPIC_ID_VERSION = 13

A = TypeVar("A")
B = TypeVar("B")


@define(eq=False)
class ProduceAppender:
    """
    Appends batches, one or several at a time.

    :ivar large: the large batches that are being written.
    :ivar records: number of records appended so far; ``batches`` and ``bytes_written`` likewise.
    :ivar refused: number of batches that were not appended.
    """

    _replicas: ReplicaManager
    _metadata: ClusterMetadata
    _clock: IReactorTime
    _wall_clock: Callable[[], float]
    large: LargeAppends = field(factory=LargeAppends, init=False)
    records: int = metric("logbus_produced_records_total", "Records appended for producers.")
    batches: int = metric("logbus_produced_batches_total", "Batches appended for producers.")
    bytes_written: int = metric("logbus_produced_bytes_total", "Bytes of batches appended for producers.")
    refused: int = metric("logbus_produce_errors_total", "Batches refused.")
    _log = Logger()

    def topic_name(self, name: str, topic_id: bytes, index: int, version: int) -> str:
        """
        The name of a topic in a request.

        :param name: the name, in versions without topic ids.
        :param topic_id: the id, in later versions.
        :param index: of one of its partitions.
        :param version: of the request.
        :raise ApiError: UNKNOWN_TOPIC_ID; NOT_LEADER_OR_FOLLOWER: the broker starts, and does not know yet.
        """
        if version < TOPIC_ID_VERSION:
            return name
        wanted = known_uuid(topic_id)
        topic = self._metadata.topic_by_id(wanted)
        if topic is not None:
            replica = self._replicas.find(topic.name, index)
            if replica is None or replica.topic_id == wanted:
                return topic.name
        raise self._metadata.unknown_id(wanted)

    def waits(self, topic: str, index: int, size: int) -> bool:
        """Whether a batch of so many bytes should wait before it is appended; see :class:`.LargeAppends`."""
        if size < LEAST_FOR_THREAD and not self.large:
            return False
        replica = self._replicas.find(topic, index)
        if replica is None:
            return False
        log = replica.log
        return (
            self.large.is_writing(log)
            or (size >= LARGE and log.disk.writes_ahead)
            or (size >= LEAST_FOR_THREAD and log.config.compression_type != PRODUCER)
        )

    def now_ms(self) -> int:
        """The broker's time, ms since 1970."""
        return int(self._wall_clock() * 1000)

    def append(
        self,
        topic: str,
        index: int,
        records: Buffer | None,
        now_ms: int,
        version: int,
        *,
        all_in_sync: bool = False,
        in_transaction: bool = False,
    ) -> tuple[Replica, LogAppendInfo]:
        """
        Append one batch.

        :param version: of the Produce request it came in.
        :param all_in_sync: whether all in-sync replicas must have it (acks=all).
        :param in_transaction: whether the request has a transactional id; otherwise the batch must not be
            transactional.
        :raise ApiError: it was refused.
        """
        if not in_transaction and is_transactional(records):
            raise no_transactional_id()
        if topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"clients may not write to the internal topic {topic}")
        if records is None:
            raise ApiError(ErrorCode.INVALID_RECORD, f"no record batch for {topic}-{index}")
        try:
            replica = self._replicas.get(topic, index)
            appended = replica.append(records, now_ms, version >= ZSTD_VERSION, all_in_sync)
        except StorageError as e:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(e)) from e
        except ApiError:
            raise
        except Exception:
            self._log.failure("appending to {topic}-{partition} failed", topic=topic, partition=index)
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR) from None
        self.batches += 1
        self.bytes_written += appended.size
        count = appended.last_offset - appended.base_offset + 1
        self.records += count
        stats = replica.stats
        stats.bytes_in += appended.size
        stats.records_in += count
        return replica, appended

    def append_many(
        self,
        topic: str,
        index: int,
        batches: Sequence[Buffer],
        now_ms: int,
        version: int,
        *,
        all_in_sync: bool,
        in_transaction: bool,
    ) -> tuple[Replica, AppendManyResult] | None:
        """
        Append several batches to a partition by one write; arguments as of :meth:`append`.

        :param in_transaction: they continue a transaction that is open there.
        :return: None: at least one needs a response of its own; none was appended.
        """
        replica = self._replicas.find(topic, index)
        if replica is None or topic in INTERNAL_TOPICS:
            return None
        appended = replica.append_many(batches, now_ms, version >= ZSTD_VERSION, all_in_sync, in_transaction)
        if appended is None:
            return None
        base_offsets, end_offset, _, size = appended
        self.batches += len(batches)
        self.bytes_written += size
        count = end_offset - base_offsets[0]
        self.records += count
        stats = replica.stats
        stats.bytes_in += size
        stats.records_in += count
        return replica, appended

    def when_durable(
        self, replica: Replica, timeout_ms: int, answer: A, not_durable: Callable[[ApiError], A | B]
    ) -> A | Deferred[A | B]:
        """
        A response, when all in-sync replicas have everything appended so far: now, or a Deferred.

        :param not_durable: makes the response if that fails.
        """
        durable = replica.durable()
        if durable is None:
            return answer

        def failed(failure: Failure) -> A | B:
            failure.trap(ApiError, StorageError)
            error: Any = failure.value
            return not_durable(api_error(error))

        durable.addTimeout(max(timeout_ms, 0) / 1000, self._clock, onTimeoutCancel=timed_out)
        return durable.addCallbacks(lambda _: answer, failed)
