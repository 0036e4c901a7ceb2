"""
Fetches that wait until there is enough to read (Kafka: DelayedFetch): what wakes them, and what they read then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from logbus.cluster.replication.partition_fetch import FetchContext, FetchParams, PartitionFetch, PartitionFetchResult
from logbus.cluster.replication.purgatory import DelayedOperation, Purgatory
from logbus.cluster.replication.replica import UNKNOWN_SIZE, Replica


class FetchReader(Protocol):
    """The part of :class:`.ReplicaReader` that reads for them."""

    def read_enough(
        self, source: FetchContext, max_bytes: int, fetch_params: FetchParams, enough: int, waiting: DelayedFetch
    ) -> list[PartitionFetchResult] | None:
        """Read; None: there is too little, and it goes on waiting for what is missing."""

    def read_shared(
        self, fetches: Sequence[PartitionFetch], max_bytes: int, fetch_params: FetchParams
    ) -> list[PartitionFetchResult]:
        """Read; those that were woken together share the results."""


class DelayedFetch(DelayedOperation[list[PartitionFetchResult]]):
    """
    A fetch that waits for enough bytes (Kafka: DelayedFetch): counts what is new, and is woken when it may be enough.

    :ivar missing: bytes.
    """

    __slots__ = ("_enough", "_fetch_params", "_max_bytes", "_reader", "_source", "missing")

    def __init__(
        self,
        purgatory: Purgatory,
        reader: FetchReader,
        source: FetchContext,
        max_bytes: int,
        fetch_params: FetchParams,
        enough: int,
        size: int,
    ) -> None:
        super().__init__(purgatory)
        self._reader = reader
        self._source = source
        self._max_bytes = max_bytes
        self._fetch_params = fetch_params
        self._enough = enough
        self.missing = enough - size

    def moved(self, replica: Replica, size: int) -> None:
        self.missing -= size
        if self.missing <= 0:
            self.purgatory.wake(self)

    def is_ready(self) -> bool:
        return self.missing <= 0

    def answer(self) -> list[PartitionFetchResult]:
        return self._reader.read_shared(self._source.fetches(), self._max_bytes, self._fetch_params)

    def leave(self) -> None:
        self._source.unwatch(self)


class CommittedDelayedFetch(DelayedFetch):
    """
    The same for ``read_committed``: records behind an open transaction cannot be read yet, and only a read can tell
    what is held back.

    :ivar stable: the last known last stable offsets of the partitions.
    """

    __slots__ = ("_found", "_held", "stable")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.stable: dict[tuple[str, int], int] = {}
        # Bytes appended behind them.
        self._held: dict[tuple[str, int], int] = {}
        self._found: list[PartitionFetchResult] | None = None

    def moved(self, replica: Replica, size: int) -> None:
        name = replica.topic_partition
        stable = replica.last_stable_offset
        if size < UNKNOWN_SIZE and stable == self.stable.get(name):
            self._held[name] = self._held.get(name, 0) + size
            return
        self.stable[name] = stable
        super().moved(replica, size + self._held.pop(name, 0))

    def is_ready(self) -> bool:
        if self.missing > 0:
            return False
        self._found = self._reader.read_enough(self._source, self._max_bytes, self._fetch_params, self._enough, self)
        return self._found is not None

    def answer(self) -> list[PartitionFetchResult]:
        found, self._found = self._found, None
        return super().answer() if found is None else found


class FetchArrivals(DelayedFetch):
    """One that is read in slices afterwards."""

    __slots__ = ()

    def answer(self) -> list[PartitionFetchResult]:
        return []
