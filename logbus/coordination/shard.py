"""
One partition of ``__consumer_offsets`` that this broker leads, with the groups whose state is in it.

What is appended here is in force from then on; whoever asked for it is told once it is durable. Should it get lost
after all, the broker has lost the partition's disk, and with it the shard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, FirstError, gatherResults, succeed
from twisted.python.failure import Failure

from logbus.coordination.igroup import Change, Group
from logbus.coordination.offsets import GroupOffsets
from logbus.coordination.records import encode_change
from logbus.coordination.statelog import StateLog
from logbus.coordination.transactions.transaction import ProducerIdAndEpoch
from logbus.errors import ErrorCode, LogbusError
from logbus.timers import Timer
from logbus.wire.messages.group_log import OffsetCommitKey


@frozen
class Alarm:
    """When a group is to be looked at next."""

    at: float
    timer: Timer


@define(eq=False, repr=False)
class Shard:
    """
    The groups of one partition.

    :ivar number: of the partition.
    :ivar epoch: the leader epoch in which this broker took it over.
    :ivar groups: by id: all that have members, a generation, or offsets.
    :ivar offsets: by group id; none of them is empty.
    :ivar transactions: the groups for which open transactions have committed offsets, by the id of the producer.
    :ivar loading: the records are not all read yet: requests must be tried again.
    :ivar when_loaded: what is to be done then, before anybody is served.
    :ivar closed: the partition is no longer led from here.
    """

    number: int
    epoch: int
    log: StateLog
    groups: dict[str, Group] = field(factory=dict, init=False)
    offsets: dict[str, GroupOffsets] = field(factory=dict, init=False)
    transactions: dict[int, set[str]] = field(factory=dict, init=False)
    alarms: dict[str, Alarm] = field(factory=dict, init=False)
    loading: bool = field(default=True, init=False)
    when_loaded: list[Callable[[], object]] = field(factory=list, init=False)
    closed: bool = field(default=False, init=False)

    def save(self, changes: Sequence[Change], too_large: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR) -> Deferred[None]:
        """
        Append changes as one batch, and let what they say of offsets hold.

        :return: fires when they are durable.
        :raise ApiError: see :meth:`.StateLog.append`; nothing has changed.
        """
        if not changes:
            return succeed(None)
        durable = self.log.append([encode_change(change) for change in changes], too_large)
        for change in changes:
            self.apply(change)
        return durable

    def save_pending(
        self, producer: ProducerIdAndEpoch, changes: Sequence[Change], too_large: ErrorCode
    ) -> Deferred[None]:
        """
        Append commits as one batch of a producer's open transaction: they are pending until it ends.

        :return: fires when they are durable.
        :raise ApiError: see :meth:`.StateLog.append`; nothing has changed.
        """
        if not changes:
            return succeed(None)
        record_offset = self.log.end_offset
        durable = self.log.append([encode_change(change) for change in changes], too_large, producer)
        for number, change in enumerate(changes):
            self.apply_pending(producer.producer_id, record_offset + number, change)
        return durable

    def save_all(self, changes: Sequence[Change]) -> Deferred[None]:
        """
        Append changes that need not stand together.

        :return: fires when all of them are durable.
        :raise ApiError: those that were appended hold, the rest does not.
        """
        waits = []
        done = 0
        for appended, durable in self.log.append_all([encode_change(change) for change in changes]):
            for change in changes[done : done + len(appended)]:
                self.apply(change)
            done += len(appended)
            waits.append(durable)
        return gatherResults(waits, consumeErrors=True).addCallbacks(lambda _: None, _first)

    def apply(self, change: Change) -> None:
        """Let a change hold, if it is one of offsets: groups look after themselves."""
        key, value = change
        if not isinstance(key, OffsetCommitKey):
            return
        if value is None and key.group not in self.offsets:
            return
        held = self._offsets_of(key.group)
        held.apply(key, value)
        if held.is_empty:
            del self.offsets[key.group]

    def apply_pending(self, producer_id: int, record_offset: int, change: Change) -> None:
        """Let a change that a transaction made be pending. Deletions are never part of one: they hold at once."""
        key, value = change
        if not isinstance(key, OffsetCommitKey) or value is None:
            self.apply(change)
            return
        self._offsets_of(key.group).apply_pending(producer_id, record_offset, key, value)
        self.transactions.setdefault(producer_id, set()).add(key.group)

    def complete(self, producer_id: int, committed: bool, marker_offset: int) -> list[str]:
        """
        A producer's transaction has ended: what it committed holds, or goes.

        :param marker_offset: where it says so in the log.
        :return: the groups concerned.
        """
        touched = sorted(self.transactions.pop(producer_id, ()))
        for group_id in touched:
            held = self.offsets.get(group_id)
            if held is None:
                continue
            held.complete(producer_id, committed, marker_offset)
            if held.pending.of_producer(producer_id):
                self.transactions.setdefault(producer_id, set()).add(group_id)
            elif held.is_empty:
                del self.offsets[group_id]
        return touched

    def drop_unended(self, end: int) -> list[int]:
        """
        Drop what is pending of transactions that are over, as far as the log knows, though no marker said so: it was
        damaged. Nobody will ever tell how they ended, and whoever wants stable offsets would wait for good.

        :param end: how far the log was read; whoever has a marker behind it is told of that yet.
        :return: the producers concerned.
        """
        if not self.transactions:
            return []
        try:
            producers = self.log.replica.log.producers
        except (LogbusError, OSError):
            return []  # It cannot be known now which transactions are over.
        found = []
        for producer_id, groups in list(self.transactions.items()):
            entry = producers.get(producer_id)
            if entry is not None and entry.last_marker_offset >= end:
                continue
            over = end if entry is None or entry.open_since is None else entry.open_since
            firsts = [self.offsets[group].pending.first_of(producer_id) for group in groups if group in self.offsets]
            if any(first is not None and first < over for first in firsts):
                self.complete(producer_id, False, over - 1)
                found.append(producer_id)
        return found

    def _offsets_of(self, group_id: str) -> GroupOffsets:
        held = self.offsets.get(group_id)
        if held is None:
            held = self.offsets[group_id] = GroupOffsets(group_id)
        return held


def _first(failure: Failure) -> Failure:
    """What failed first of several."""
    failure.trap(FirstError)
    found: Failure = failure.value.subFailure  # type: ignore[union-attr]
    return found
