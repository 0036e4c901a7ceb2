"""
The parameters of a fetch, who fetches, and the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from attrs import define, field, frozen

from logbus.cluster.replication.replica import Replica, Watcher
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.errors import ApiError
from logbus.model import NO_EPOCH, OffsetAndEpoch
from logbus.records.file_slice import FileSlice
from logbus.storage.segments.transaction_index import AbortedTransaction


@frozen
class FetchParams:
    """
    The client of a fetch (Kafka: FetchParams).

    :ivar committed: a consumer with ``isolation.level=read_committed``.
    :ivar broker_id: of a follower, −1 for a consumer; ``broker_epoch``: of its registration.
    :ivar follows: a consumer that may be sent to a follower, and served by one (Fetch 11 and later).
    :ivar rack: of that consumer; empty if unknown.
    """

    committed: bool = False
    broker_id: int = -1
    broker_epoch: int = -1
    follows: bool = False
    rack: str = ""

    @property
    def is_replica(self) -> bool:
        """Whether it is a follower."""
        return self.broker_id >= 0


CONSUMER = FetchParams()


@define(eq=False, slots=True)
class PartitionFetch:
    """
    One partition of a fetch (Kafka: FetchRequest.PartitionData).

    :ivar max_bytes: limit for this partition, except for the first batch of the whole answer.
    :ivar current_leader_epoch: the client's leader epoch (−1: no check).
    :ivar last_fetched_epoch: epoch of the last record the client has (−1: no check for divergence).
    :ivar topic_id: the topic's id, if the request has it; a topic of that name with another id does not match.
    :ivar log_start_offset: of a follower's log.
    :ivar told: the high watermark, last stable offset and log start offset that the client got last, if known.
    :ivar refused: an error found before the read, for example an unknown topic id.
    """

    topic: str
    partition: int
    offset: int
    max_bytes: int
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    topic_id: UUID | None = None
    log_start_offset: int = -1
    told: tuple[int, int, int] | None = None
    refused: ApiError | None = None


@define(eq=False, slots=True)
class PartitionFetchResult:
    """
    The result for one partition (Kafka: FetchPartitionData).

    :ivar end: the end of the readable records at present.
    :ivar read_to: the end offset of this read: ``data`` lies below it; −1 if nothing was read.
    :ivar preferred: the broker to read from instead (KIP-392), −1 for this one.
    :ivar aborted: the aborted transactions with records in ``data``, by their first offset; None: the client reads
        uncommitted records.
    :ivar diverging: the point of divergence of the client's log from this one (KIP-595), instead of records.
    """

    fetch: PartitionFetch
    error: ApiError | None = None
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    end: int = -1
    read_to: int = -1
    preferred: int = -1
    data: FileSlice | None = None
    aborted: Sequence[AbortedTransaction] | None = None
    diverging: OffsetAndEpoch | None = None


class FetchContext(Protocol):
    """The partitions of a fetch: those of one request, or of a fetch session (Kafka: FetchContext)."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to wait for."""

    def fetches(self) -> Sequence[PartitionFetch]:
        """The partitions to read now, in order."""

    def watch(self, watcher: Watcher) -> None:
        """Call ``watcher`` when records become readable."""

    def unwatch(self, watcher: Watcher) -> None:
        """Stop calling it."""


@define(eq=False)
class SessionlessFetchContext:
    """
    The partitions of one request without a session (Kafka: SessionlessFetchContext).

    :param to_log_end: watch for appended records, instead of committed ones.
    """

    _replicas: ReplicaManager
    _fetches: Sequence[PartitionFetch]
    _to_log_end: bool = False
    _watched: list[Replica] = field(factory=list, init=False)

    @property
    def empty(self) -> bool:
        return not self._fetches

    def fetches(self) -> Sequence[PartitionFetch]:
        return self._fetches

    def watch(self, watcher: Watcher) -> None:
        self._watched = [r for w in self._fetches if (r := self._replicas.find(w.topic, w.partition)) is not None]
        for replica in self._watched:
            replica.watchers_for(self._to_log_end)[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        for replica in self._watched:
            replica.watchers_for(self._to_log_end).pop(watcher, None)
