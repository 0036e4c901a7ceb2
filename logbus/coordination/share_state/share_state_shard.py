"""
One partition of ``__share_group_state`` led by this broker, with its share partitions.

A record takes effect when it is appended, and its writer is answered when it is durable. So the states are always those
that a load of the log would give.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.coordination.coordinator_runtime import CoordinatorShard
from logbus.coordination.share_state.recorded_state import RecordedState, Snapshot, Update, apply
from logbus.coordination.share_state.share_state import SharePartitionKey
from logbus.coordination.share_state.share_state_records import encode_record, encode_tombstone
from logbus.errors import ApiError, ErrorCode
from logbus.wire.schema import EncodeError


@define(eq=False)
class SharePartitionEntry:
    """
    One share partition.

    :ivar since: an offset from which on the log has all that makes up its state.
    """

    recorded: RecordedState
    since: int


@define(eq=False)
class ShareStateShard(CoordinatorShard):
    """
    The share partitions of one partition.

    :ivar entries: by share partition.
    """

    entries: dict[SharePartitionKey, SharePartitionEntry] = field(factory=dict, init=False)

    def recorded(self, key: SharePartitionKey) -> RecordedState | None:
        """The state of a share partition, if there is one."""
        entry = self.entries.get(key)
        return None if entry is None else entry.recorded

    def save(self, key: SharePartitionKey, record: Snapshot | Update) -> Deferred[None]:
        """
        Write a record of a state, and apply it.

        :return: fires when it is durable.
        :raise ApiError: see :meth:`.StateLog.append`, and INVALID_REQUEST: it is too large; then it has no effect. When
            the Deferred fails, it has one here, and it is unknown whether it will be kept.
        """
        try:
            encoded = encode_record(key, record)
        except EncodeError as e:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(e)) from None
        offset = self.log.end_offset
        durable = self.log.append([encoded], ErrorCode.INVALID_REQUEST)
        self.apply(key, record, offset)
        return durable

    def apply(self, key: SharePartitionKey, record: Snapshot | Update, offset: int) -> None:
        """Apply a record in the log, at this offset or behind it."""
        entry = self.entries.get(key)
        if entry is None:
            self.entries[key] = SharePartitionEntry(apply(None, record), offset)
            return
        entry.recorded = apply(entry.recorded, record)
        if isinstance(record, Snapshot):
            entry.since = offset

    def save_snapshots(self, snapshots: Sequence[tuple[SharePartitionKey, Snapshot]]) -> list[Deferred[None]]:
        """
        Write snapshots of some states.

        :return: a Deferred for each batch of them, as that of :meth:`save`.
        :raise ApiError: some could not be written.
        """
        durable: list[Deferred[None]] = []
        left = list(snapshots)
        records = [encode_record(key, snapshot) for key, snapshot in snapshots]
        offset = self.log.end_offset
        for written, done in self.log.append_all(records):
            durable.append(done)
            for at, (key, snapshot) in enumerate(left[: len(written)], offset):
                self.apply(key, snapshot, at)
            del left[: len(written)]
            offset = self.log.end_offset
        return durable

    def forget(self, keys: Collection[SharePartitionKey]) -> list[Deferred[None]]:
        """
        Remove states, by tombstones.

        :return: a Deferred for each batch of them, as that of :meth:`save`.
        :raise ApiError: some could not be removed.
        """
        durable: list[Deferred[None]] = []
        left = list(keys)
        for written, done in self.log.append_all([encode_tombstone(key) for key in keys]):
            durable.append(done)
            for key in left[: len(written)]:
                del self.entries[key]
            del left[: len(written)]
        return durable

    def needed_from(self) -> int:
        """The first offset of which a load needs the record."""
        return min((entry.since for entry in self.entries.values()), default=self.log.end_offset)
