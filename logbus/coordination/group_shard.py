"""
One partition of ``__consumer_offsets`` led by this broker, with its groups (Kafka: GroupCoordinatorShard).

A change takes effect when it is appended; the client is answered when it is durable, and committed offsets are shown
when the in-sync replicas have them. If an appended change gets lost, the broker no longer leads the partition, or has
lost its disk, and the shard with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, FirstError, gatherResults, succeed
from twisted.python.failure import Failure

from logbus.coordination.coordinator_runtime import CoordinatorShard
from logbus.coordination.deleted_topics import DeletedTopics
from logbus.coordination.group import Change, Group
from logbus.coordination.group_offsets import GroupOffsets
from logbus.coordination.group_records import encode_change
from logbus.coordination.transactions.transaction_metadata import ProducerIdAndEpoch
from logbus.coordination.unreplicated_offsets import UnreplicatedOffsets
from logbus.errors import ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.timers import Timer
from logbus.wire.messages.group_log import OffsetCommitKey


@frozen
class GroupTimer:
    """The timer for a group's next deadline."""

    at: float
    timer: Timer


@define(eq=False, repr=False)
class GroupShard(CoordinatorShard):
    """
    The groups of one partition.

    :ivar groups: by id: all that have members, a generation, or offsets.
    :ivar offsets: by group id; none of them is empty.
    :ivar deleted: the deleted topics whose offsets are still to be removed.
    :ivar transactions: the groups with pending offsets, by producer id.
    :ivar when_loaded: callbacks to run after the load, before any request is served.
    """

    groups: dict[str, Group] = field(factory=dict, init=False)
    offsets: dict[str, GroupOffsets] = field(factory=dict, init=False)
    deleted: DeletedTopics = field(factory=DeletedTopics, init=False)
    transactions: dict[int, set[str]] = field(factory=dict, init=False)
    alarms: dict[str, GroupTimer] = field(factory=dict, init=False)
    _unreplicated: UnreplicatedOffsets = field(factory=UnreplicatedOffsets, init=False)
    when_loaded: list[Callable[[], object]] = field(factory=list, init=False)

    def save(self, changes: Sequence[Change], too_large: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR) -> Deferred[None]:
        """
        Append changes as one batch, and apply those of offsets.

        :return: fires when they are durable.
        :raise ApiError: see :meth:`.StateLog.append`; nothing has changed.
        """
        if not changes:
            return succeed(None)
        record_offset = self.log.end_offset
        durable = self.log.append([encode_change(change) for change in changes], too_large)
        self._note_before(changes, record_offset)
        if self.deleted:
            self._keep(changes)
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
        if self.deleted:
            self._remove_over(changes)
        record_offset = self.log.end_offset
        durable = self.log.append([encode_change(change) for change in changes], too_large, producer)
        if self.deleted:
            self._keep(changes)
        for number, change in enumerate(changes):
            self.apply_pending(producer.producer_id, record_offset + number, change)
        return durable

    def save_all(self, changes: Sequence[Change]) -> Deferred[None]:
        """
        Append changes in as many batches as needed.

        :return: fires when all of them are durable.
        :raise ApiError: the changes that were appended are in effect, the others are not.
        """
        waits = []
        done = 0
        for appended, durable in self.log.append_all([encode_change(change) for change in changes]):
            some = changes[done : done + len(appended)]
            self._note_before(some, self.log.end_offset - len(some))
            for change in some:
                self.apply(change)
            done += len(appended)
            waits.append(durable)
        return gatherResults(waits, consumeErrors=True).addCallbacks(lambda _: None, _first)

    def _remove_over(self, changes: Sequence[Change]) -> None:
        """Remove offsets of deleted topics that will not be found as such once others are pending beside them."""
        over = [
            (key, None)
            for key, value in changes
            if isinstance(key, OffsetCommitKey)
            and value is not None
            and key.group in self.offsets
            and self.deleted.over(key.group, TopicPartition(key.topic, key.partition))
        ]
        # They are durable no later than the changes, which fail as well if these do.
        self.save_all(over).addErrback(lambda _: None)

    def _keep(self, changes: Sequence[Change]) -> None:
        """Keep offsets that are committed for new topics, with the names of deleted ones."""
        for key, value in changes:
            if isinstance(key, OffsetCommitKey) and value is not None:
                self.deleted.keep(key.group, TopicPartition(key.topic, key.partition))

    def _note_before(self, changes: Sequence[Change], record_offset: int) -> None:
        """Note what is committed before the changes of a batch that was appended at an offset."""
        high_watermark = self.log.replica.high_watermark
        self._unreplicated.replicated(high_watermark)
        if record_offset < high_watermark:
            return
        for key, _ in changes:
            if isinstance(key, OffsetCommitKey):
                held = self.offsets.get(key.group)
                before = None if held is None else held.get(key.topic, key.partition)
                self._unreplicated.changed(key.group, TopicPartition(key.topic, key.partition), record_offset, before)

    def replicated_offsets(self, group_id: str) -> GroupOffsets:
        """A group's offsets without the changes that the in-sync replicas do not all have. Read only."""
        held = self.offsets.get(group_id)
        if held is None:
            held = GroupOffsets(group_id, self.deleted)
        self._unreplicated.replicated(self.log.replica.high_watermark)
        before = self._unreplicated.before(group_id)
        return held.before(before) if before else held

    def apply(self, change: Change) -> None:
        """Apply a change of offsets; other changes are applied by the groups."""
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
        """Add a transaction's change as pending. A deletion is never part of a transaction; it is applied at once."""
        key, value = change
        if not isinstance(key, OffsetCommitKey) or value is None:
            self.apply(change)
            return
        self._offsets_of(key.group).apply_pending(producer_id, record_offset, key, value)
        self.transactions.setdefault(producer_id, set()).add(key.group)

    def complete(self, producer_id: int, committed: bool, marker_offset: int) -> list[str]:
        """
        Apply or drop the pending offsets of a producer's transaction, which has ended.

        :param marker_offset: offset of the marker in the log.
        :return: the affected groups.
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

    def drop_orphaned(self, end: int) -> list[int]:
        """
        Drop the pending offsets of transactions that are over according to the log's producer state, but whose marker
        was damaged. Their outcome cannot be known, and clients that require stable offsets would wait forever.

        :param end: how far the log was read; a later marker will still be applied.
        :return: the affected producers.
        """
        if not self.transactions:
            return []
        try:
            producers = self.log.replica.log.producers
        except (LogbusError, OSError):
            return []  # The producer state is not available, so it is unknown which transactions are over.
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
            held = self.offsets[group_id] = GroupOffsets(group_id, self.deleted)
        return held


def _first(failure: Failure) -> Failure:
    """The first failure of several."""
    failure.trap(FirstError)
    found: Failure = failure.value.subFailure  # type: ignore[union-attr]
    return found
