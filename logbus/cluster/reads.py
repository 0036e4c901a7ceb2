"""
Fetches: read what is there, or wait until there is enough.

A fetch names partitions and offsets (:class:`Want`), and gets an answer for each (:class:`Got`).  It is answered at
once when there are ``min_bytes``, when something is wrong, or when it must not wait; else it waits in the purgatory,
woken by the replicas it wants, and reads again when enough may have come (Kafka's DelayedFetch).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.cluster.purgatory import Delayed, Purgatory
from logbus.cluster.replicas import Replica, Replicas, Watcher
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.model import NO_EPOCH, OffsetAndEpoch
from logbus.records.slices import FileSlice


@define(eq=False, slots=True)
class Want:
    """
    One partition of a fetch.

    :ivar max_bytes: at most so much of this partition, but for the first batch of the whole answer.
    :ivar current_leader_epoch: the epoch the client believes in (−1: no check).
    :ivar last_fetched_epoch: epoch of the last record the client has (−1: no check for divergence).
    :ivar topic_id: the topic that is meant, where the client said which; another one of that name is not.
    :ivar refused: set when the partition cannot even be looked for, for example because its topic id is unknown.
    """

    topic: str
    partition: int
    offset: int
    max_bytes: int
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    topic_id: UUID | None = None
    refused: ApiError | None = None


@define(eq=False, slots=True)
class Got:
    """
    What one partition answers.

    :ivar diverging: where the client's log stops being a prefix of ours (KIP-595), instead of records.
    """

    want: Want
    error: ApiError | None = None
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    data: FileSlice | None = None
    diverging: OffsetAndEpoch | None = None


class Source(Protocol):
    """The partitions a fetch is about: those of one request, or those of a fetch session."""

    @property
    def empty(self) -> bool:
        """There is nothing to wait for."""

    def wants(self) -> Sequence[Want]:
        """What to read now, in order."""

    def watch(self, watcher: Watcher) -> None:
        """Tell ``watcher`` when records become readable."""

    def unwatch(self, watcher: Watcher) -> None:
        """Tell it no more."""


@define(eq=False)
class Once:
    """The partitions of one request."""

    _replicas: Replicas
    _wants: Sequence[Want]
    _watched: list[Replica] = field(factory=list, init=False)

    @property
    def empty(self) -> bool:
        return not self._wants

    def wants(self) -> Sequence[Want]:
        return self._wants

    def watch(self, watcher: Watcher) -> None:
        self._watched = [r for w in self._wants if (r := self._replicas.find(w.topic, w.partition)) is not None]
        for replica in self._watched:
            replica.watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        for replica in self._watched:
            replica.watchers.pop(watcher, None)


@define(eq=False)
class Reader:
    """Answers fetches from this broker's replicas."""

    _replicas: Replicas
    _purgatory: Purgatory

    def fetch(
        self, source: Source, *, min_bytes: int, max_bytes: int, max_wait_ms: int, committed: bool
    ) -> list[Got] | Deferred[list[Got]]:
        """
        Read what ``source`` wants, in its order.

        :param max_bytes: of the whole answer; the first batch found is given even when it is larger.
        :param committed: read only below the last stable offset.
        :return: an answer for each want; a Deferred (cancellable) where it must wait for ``min_bytes``.
        """
        got, size, urgent = self.read(source.wants(), max_bytes, committed)
        enough = min(min_bytes, max_bytes)
        if urgent or size >= enough or max_wait_ms <= 0 or source.empty:
            return got

        delayed: Delayed[list[Got]] = self._purgatory.wait(
            max_wait_ms,
            ready=lambda: arrivals.missing <= 0,
            answer=lambda: self.read(source.wants(), max_bytes, committed)[0],
            leave=lambda: source.unwatch(arrivals),
        )
        arrivals = _Arrivals(self._purgatory, delayed, enough - size)
        source.watch(arrivals)
        return delayed.deferred

    def read(self, wants: Sequence[Want], max_bytes: int, committed: bool) -> tuple[list[Got], int, bool]:
        """Read now: the answers, how many bytes are in them, and whether the client should hear of it at once."""
        answers: list[Got] = []
        size, urgent, left = 0, False, max_bytes
        for want in wants:
            got = Got(want)
            answers.append(got)
            try:
                if want.refused is not None:
                    raise want.refused
                replica = self._replicas.leader(want.topic, want.partition, want.current_leader_epoch)
                if want.topic_id is not None and want.topic_id != replica.topic_id:
                    raise ApiError(
                        ErrorCode.UNKNOWN_TOPIC_ID, f"{want.topic} has the id {replica.topic_id}, not {want.topic_id}"
                    )
                self._read_one(got, replica, left, committed, min_one=size == 0)
            except (ApiError, StorageError) as e:
                got.error = e if isinstance(e, ApiError) else ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(e))
                urgent = True
                continue
            if got.data is not None:
                size += len(got.data)
                left = max(0, max_bytes - size)
            elif got.diverging is not None:
                urgent = True
        return answers, size, urgent

    def _read_one(self, got: Got, replica: Replica, left: int, committed: bool, *, min_one: bool) -> None:
        want, log = got.want, replica.log
        got.high_watermark = replica.high_watermark
        got.last_stable_offset = replica.last_stable_offset
        got.log_start_offset = log.log_start_offset
        if want.last_fetched_epoch != NO_EPOCH:
            ours = log.end_offset_for_epoch(want.last_fetched_epoch)
            if ours.epoch == NO_EPOCH:
                raise log.out_of_range(want.offset)
            if ours.epoch < want.last_fetched_epoch or ours.offset < want.offset:
                got.diverging = ours
                return
        if left <= 0 and not min_one:
            # Nothing more fits; but an offset that does not exist must not look like the end of the log.
            if not log.log_start_offset <= want.offset <= log.log_end_offset:
                raise log.out_of_range(want.offset)
            return
        got.data = replica.read(want.offset, min(left, want.max_bytes), committed=committed, min_one=min_one).data


@define(eq=False)
class _Arrivals:
    """Counts what arrives for a waiting fetch, and wakes it when it may be enough."""

    _purgatory: Purgatory
    _delayed: Delayed[list[Got]]
    missing: int

    def moved(self, replica: Replica, size: int) -> None:
        self.missing -= size
        if self.missing <= 0:
            self._purgatory.wake(self._delayed)
