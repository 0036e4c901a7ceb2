"""
Tracks which partitions a consumer has delivered records of, and in which generation of its group. Pure.

A member that loses a partition keeps the records of it that were delivered before. Commits for these must fail, since
another member may have read them by then. The group's coordinator rejects commits of an old generation, so a commit has
to carry the generation in which the member had the partition, not the current one (KIP-447).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define, field

from logbus.client.group_metadata import CommittedOffset, GroupMetadata
from logbus.model import TopicPartition


@define(eq=False)
class DeliveredOffsets:
    """
    Delivered records in two accounts: one for transactions, which ask for :meth:`metadata`, and one for plain commits,
    which report :meth:`committed`.

    A partition stays in the account for transactions until metadata were taken and more records are delivered, since
    an open transaction may include its records until then.

    :ivar lost: partitions that were removed with records delivered and not committed, and the offset after these.
    """

    lost: dict[TopicPartition, CommittedOffset] = field(factory=dict, init=False)
    _uncommitted: set[TopicPartition] = field(factory=set, init=False)
    _in_transaction: set[TopicPartition] = field(factory=set, init=False)
    _metadata_taken: bool = field(default=False, init=False)
    _outdated: GroupMetadata | None = field(default=None, init=False)

    def delivered(self, partition: TopicPartition) -> None:
        """Note that records of a partition are delivered."""
        if self._metadata_taken:
            self._metadata_taken, self._outdated = False, None
            self._in_transaction.clear()
        self._in_transaction.add(partition)
        self._uncommitted.add(partition)

    def given_up(
        self,
        partitions: Iterable[TopicPartition],
        member: GroupMetadata | None,
        positions: Mapping[TopicPartition, CommittedOffset],
    ) -> None:
        """
        Note that partitions were revoked or lost.

        :param member: the consumer's metadata while it had them; None: no member.
        :param positions: the offsets after the delivered records.
        """
        for partition in partitions:
            if self._outdated is None and partition in self._in_transaction:
                self._outdated = member
            if partition in self._uncommitted:
                self._uncommitted.discard(partition)
                if partition in positions:
                    self.lost[partition] = positions[partition]

    def committed(
        self, offsets: Mapping[TopicPartition, CommittedOffset], positions: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """
        Note that offsets were committed.

        :param positions: the offsets after the delivered records, of the current partitions.
        """
        for partition, at in offsets.items():
            if partition in positions and positions[partition].offset <= at.offset:
                self._uncommitted.discard(partition)
            if partition in self.lost and self.lost[partition].offset <= at.offset:
                del self.lost[partition]

    def take_lost(self) -> dict[TopicPartition, CommittedOffset]:
        """The partitions lost since the last call."""
        lost, self.lost = self.lost, {}
        return lost

    @property
    def in_transaction(self) -> frozenset[TopicPartition]:
        """The partitions of which records were delivered since :meth:`metadata` were taken."""
        return frozenset() if self._metadata_taken else frozenset(self._in_transaction)

    def metadata(self, now: GroupMetadata) -> GroupMetadata:
        """
        The group metadata to commit with, for all records delivered since the last call.

        :param now: the current metadata.
        :returns: the current metadata; or, if one of the partitions was removed since, those of the time before.
        """
        self._metadata_taken = True
        return now if self._outdated is None else self._outdated
