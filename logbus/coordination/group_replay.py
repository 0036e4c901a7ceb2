"""
Replays the records of one partition to restore its groups (Kafka: GroupCoordinatorShard.replay). Pure, except for the
factory of groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Protocol

from attrs import define, field

from logbus.coordination.consumer.consumer_group import ConsumerGroup
from logbus.coordination.group import Change, Group
from logbus.coordination.group_records import UnknownKey, decode_change
from logbus.coordination.group_shard import GroupShard
from logbus.coordination.share.share_group import ShareGroup
from logbus.coordination.streams.streams_group import StreamsGroup
from logbus.errors import DecodeError
from logbus.wire.messages.group_log import SHARE_GROUP_KEYS, GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from logbus.wire.messages.streams_group_log import STREAMS_GROUP_KEYS


class GroupMaker(Protocol):
    """Creates the groups of a shard."""

    def classic(self, shard: GroupShard, group_id: str) -> Group:
        """A new classic group, without members."""

    def restored(self, shard: GroupShard, group_id: str, value: GroupMetadataValue) -> Group:
        """A classic group from its record; its members' sessions begin anew."""

    def consumer(self, shard: GroupShard, group_id: str) -> ConsumerGroup:
        """A new group of the consumer protocol, without members."""

    def share(self, shard: GroupShard, group_id: str) -> ShareGroup:
        """A new share group, without members."""

    def streams(self, shard: GroupShard, group_id: str) -> StreamsGroup:
        """A new streams group, without members."""

    def activate(self, group: ConsumerGroup | ShareGroup | StreamsGroup) -> None:
        """Start the sessions of a group's members: all its records are read."""


@define(eq=False)
class GroupReplay:
    """
    Applies the records and markers of a shard, oldest first, then creates its groups. Offsets of a transaction that is
    open at the end stay pending.

    :ivar skipped: numbers of skipped records, by their unknown key version.
    """

    shard: GroupShard
    maker: GroupMaker
    skipped: dict[int, int] = field(factory=dict, init=False)
    _classic: dict[str, GroupMetadataValue] = field(factory=dict, init=False)
    _consumer: dict[str, ConsumerGroup] = field(factory=dict, init=False)
    _share: dict[str, ShareGroup] = field(factory=dict, init=False)
    _streams: dict[str, StreamsGroup] = field(factory=dict, init=False)

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """
        Apply one record.

        :raise DecodeError: it cannot be decoded.
        """
        change = self._decoded(key, value)
        if change is not None:
            self._apply(change)

    def record(self, producer_id: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        """See :class:`.Transactions`; transactions contain only committed offsets."""
        change = self._decoded(key, value)
        if change is not None and isinstance(change[0], OffsetCommitKey):
            self.shard.apply_pending(producer_id, offset, change)
        elif change is not None:
            raise DecodeError(f"a transaction holds committed offsets, not {type(change[0]).__name__}")

    def ended(self, producer_id: int, offset: int, committed: bool) -> None:
        """See :class:`.Transactions`."""
        self.shard.complete(producer_id, committed, offset)

    def _decoded(self, key: bytes | None, value: bytes | None) -> Change | None:
        change = decode_change(key, value)
        if not isinstance(change, UnknownKey):
            return change
        self.skipped[change.version] = self.skipped.get(change.version, 0) + 1
        return None

    def _apply(self, change: Change) -> None:
        key, value = change
        if isinstance(key, OffsetCommitKey):
            self.shard.apply(change)
        elif isinstance(key, GroupMetadataKey):
            if value is None:
                self._classic.pop(key.group, None)
            else:
                self._classic[key.group] = value
        elif isinstance(key, SHARE_GROUP_KEYS):
            share = self._share.get(key.group_id)
            if share is None:
                share = self._share[key.group_id] = self.maker.share(self.shard, key.group_id)
            share.apply(change)
        elif isinstance(key, STREAMS_GROUP_KEYS):
            streams = self._streams.get(key.group_id)
            if streams is None:
                streams = self._streams[key.group_id] = self.maker.streams(self.shard, key.group_id)
            streams.apply(change)
        else:
            group = self._consumer.get(key.group_id)
            if group is None:
                group = self._consumer[key.group_id] = self.maker.consumer(self.shard, key.group_id)
            group.apply(change)

    def finish(self) -> Iterator[None]:
        """Create the groups, one at each step; a group with committed offsets and no other record becomes classic."""
        groups = self.shard.groups
        for group_id, value in self._classic.items():
            groups[group_id] = self.maker.restored(self.shard, group_id, value)
            yield
        modern: Iterable[tuple[str, ConsumerGroup | ShareGroup | StreamsGroup]] = chain(
            self._consumer.items(), self._share.items(), self._streams.items()
        )
        for group_id, group in modern:
            if not group.is_dead and group_id not in groups:
                self.maker.activate(group)
                groups[group_id] = group
            yield
        for group_id in self.shard.offsets:
            if group_id not in groups:
                groups[group_id] = self.maker.classic(self.shard, group_id)
                yield
