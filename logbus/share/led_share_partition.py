"""
A share partition on the broker that leads its partition: its state is kept by the share coordinator, and acquisitions
end in time.

Changes take effect at once, and go to the coordinator one write after the other; what changes meanwhile goes with the
next one. When a write fails, nobody knows what is kept: the partition is given up, and read back when somebody fetches
from it again. What its members had acquired is delivered again then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.cluster.replication.replica import Replica
from logbus.coordination.share_state.persister import SharePersister
from logbus.coordination.share_state.share_state import SharePartitionKey
from logbus.errors import ApiError, ErrorCode
from logbus.share.share_partition import AcknowledgementBatch, AcquiredRecords, SharePartition
from logbus.timers import Timer, Timers

_FENCED = frozenset({ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH})


class AvailabilityWatcher(Protocol):
    """A fetch that waits for records."""

    def available(self) -> None:
        """Records may have become available: look again, and say so by :meth:`LedSharePartition.looked`."""


@define(eq=False)
class LedSharePartition:
    """
    A share partition of which this broker is the leader.

    :ivar replica: whose records its members get, led in ``leader_epoch``.
    :ivar members: those that fetch from it; when none is left it is forgotten.
    :ivar watchers: the fetches that wait for its records, those that have not looked for the longest time first, with
        the number of events by then.
    :ivar is_loading: what is next is being loaded from a device or remote storage; nobody gets records meanwhile.
    :ivar problem: why it was given up; None: it was not.
    """

    key: SharePartitionKey
    replica: Replica
    leader_epoch: int
    state: SharePartition
    _persister: SharePersister
    _timers: Timers
    _given_up: Callable[[LedSharePartition], object]
    members: set[str] = field(factory=set, init=False)
    watchers: dict[AvailabilityWatcher, int] = field(factory=dict, init=False)
    is_loading: bool = field(default=False, init=False)
    problem: ApiError | None = field(default=None, init=False)
    _events: int = field(default=0, init=False)
    # Was told to look, and has not done so yet.
    _told: AvailabilityWatcher | None = field(default=None, init=False)
    _was_left: bool = field(default=False, init=False)
    # Those who are told when the present write is kept; None: nothing is being written.
    _writing: list[Deferred[None]] | None = field(default=None, init=False)
    _waiting: list[Deferred[None]] = field(factory=list, init=False)
    _timer: Timer | None = field(default=None, init=False)
    _timer_at: float = field(default=0.0, init=False)

    # What members do.

    def acquire(
        self,
        member_id: str,
        first: int,
        batch_ends: Sequence[int],
        max_records: int,
        *,
        strict: bool,
        skipped: Sequence[tuple[int, int]],
    ) -> list[AcquiredRecords]:
        """See :meth:`.SharePartition.acquire`."""
        now = self._timers.clock.seconds()
        found = self.state.acquire(member_id, first, batch_ends, now, max_records, strict=strict, skipped=skipped)
        self._save()
        return found

    def acknowledge(self, member_id: str, batches: Sequence[AcknowledgementBatch]) -> Deferred[None]:
        """
        Take what a member says of records.

        :return: fires when it is kept; fails with ApiError.
        :raise ApiError: as :meth:`.SharePartition.acknowledge`.
        """
        if self.problem is not None:
            raise self.problem
        had_room, before = self.state.room > 0, self.state.next_fetch_offset
        self.state.acknowledge(member_id, batches, self._timers.clock.seconds())
        kept: Deferred[None] = Deferred()
        self._save(kept)
        if (not had_room and self.state.room > 0) or self.state.next_fetch_offset < before:
            self._notify()
        return kept

    def leave(self, member_id: str) -> None:
        """A member fetches from it no more: what it has acquired is released."""
        self.members.discard(member_id)
        self._was_left = True
        if self.problem is None:
            if self.state.release(member_id):
                self._save()
                self._notify()
            self._rest()

    def opened(self) -> None:
        """Those that it was opened for have it: they fetch from it by now, or have gone."""
        self._was_left = True
        self._rest()

    def _rest(self) -> None:
        """Give it up if it is of no use any more: nobody fetches it, nothing is acquired, and all is kept."""
        if self._was_left and not (
            self.members or self._writing is not None or self.state.is_dirty or self.state.acquired_count
        ):
            self.give_up(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.key} was forgotten: nobody fetches it"))

    def log_starts(self, offset: int) -> None:
        """The log begins at an offset."""
        self.state.log_starts(offset)
        self._save()

    def log_ends(self, offset: int) -> None:
        """The log ends at an offset, before what was read: an administrator has set one behind it."""
        self.state.log_ends(offset)
        self._save()

    # Time.

    def _set_timer(self) -> None:
        deadline = self.state.deadline
        if self._timer is not None and self._timer.active and (deadline is None or deadline < self._timer_at):
            self._timer.cancel()
        if deadline is not None and (self._timer is None or not self._timer.active):
            self._timer_at = deadline
            self._timer = self._timers.call_later(max(0.0, deadline - self._timers.clock.seconds()), self._expire)

    def _expire(self) -> None:
        if self.problem is None:
            is_more = self.state.expire(self._timers.clock.seconds())
            self._save()
            if is_more:
                self._notify()
            self._rest()

    # Waiting for records. One fetch is told of them at a time: when it has taken what it wants, the next one gets the
    # rest. So a record does not have all members look for it.

    def watch(self, watcher: AvailabilityWatcher) -> None:
        """A fetch is about to look: from now on, have it look again when records may have become available."""
        if not self.watchers:
            self.replica.watchers[self] = None
        self.watchers.pop(watcher, None)
        self.watchers[watcher] = self._events

    def looked(self, watcher: AvailabilityWatcher) -> None:
        """A fetch has looked, and taken what it wants."""
        if self._told is watcher:
            self._told = None
            if self._has_more:
                self._tell()

    def unwatch(self, watcher: AvailabilityWatcher) -> None:
        """A fetch is over."""
        self.watchers.pop(watcher, None)
        if not self.watchers:
            self.replica.watchers.pop(self, None)
        self.looked(watcher)

    def moved(self, replica: Replica, size: int) -> None:
        """There are new records."""
        if self.state.room > 0:
            self._notify()

    def load(self, loading: Deferred[None]) -> None:
        """Wait until data is loaded; if it cannot be, the next one who reads it gets the error."""
        self.is_loading = True
        loading.addBoth(self._loaded)

    def _loaded(self, _: object) -> None:
        self.is_loading = False
        self._notify()

    @property
    def _has_more(self) -> bool:
        """Whether there may be records that somebody can get."""
        state = self.state
        return (state.room > 0 and state.end_offset < self.replica.high_watermark) or (
            state.next_fetch_offset < state.end_offset
        )

    def _notify(self) -> None:
        self._events += 1
        if self._told is None:
            self._tell()

    def _tell(self) -> None:
        """Have one look that has not done so since the last event."""
        if self.is_loading:
            return
        for watcher, events in self.watchers.items():
            if events < self._events:
                self._told = watcher
                watcher.available()
            return

    def _tell_all(self) -> None:
        for watcher in list(self.watchers):
            watcher.available()

    # Keeping.

    def _save(self, kept: Deferred[None] | None = None) -> None:
        """
        After a change: set the timer, and have the coordinator keep it.

        :param kept: fires when it does; at once, if there is nothing to keep, as after a renewal.
        """
        self._set_timer()
        if self.state.is_dirty:
            if kept is not None:
                self._waiting.append(kept)
            self._write()
        elif kept is not None:
            if self._writing is None:
                kept.callback(None)
            else:
                # What was said may repeat what is being written.
                self._writing.append(kept)

    def keep(self) -> Deferred[None]:
        """Have the state kept as it is; fires when it is."""
        kept: Deferred[None] = Deferred()
        self._waiting.append(kept)
        self._write()
        return kept

    def _write(self) -> None:
        if self._writing is not None or self.problem is not None:
            return
        waiting = self._writing = self._waiting
        self._waiting = []
        state = self.state
        batches = state.changes()
        self._persister.write(
            self.key,
            state.state_epoch,
            self.leader_epoch,
            state.start_offset,
            state.delivery_complete_count,
            batches,
        ).addCallbacks(lambda _: self._written(waiting), lambda failure: self._not_written(failure, waiting))

    def _written(self, waiting: Sequence[Deferred[None]]) -> None:
        self._writing = None
        for each in waiting:
            each.callback(None)
        if self._waiting or self.state.is_dirty:
            self._write()
        else:
            self._rest()

    def _not_written(self, failure: Failure, waiting: list[Deferred[None]]) -> None:
        self._writing = None
        self._waiting = waiting + self._waiting
        self.give_up(error_of_state(failure))

    def give_up(self, problem: ApiError) -> None:
        """Forget it: another broker may lead it, or it is not known what is kept."""
        if self.problem is not None:
            return
        self.problem = problem
        if self._timer is not None:
            self._timer.cancel()
        self._given_up(self)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.errback(problem)
        self._tell_all()


def error_of_state(failure: Failure) -> ApiError:
    """The error for a member whose partition's state cannot be read or written."""
    error = failure.value
    if not isinstance(error, ApiError):
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the state of the share partition: {error}")
    if error.code in _FENCED:
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message)
    if error.code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
    return error
