"""
What a consumer has delivered to the application, and in which generation of its group. Pure.

A member that loses a partition keeps the records of it that it was given before. What is committed for these must be
refused, since another member may have read them by then. The group's coordinator refuses commits of an old generation;
so a commit has to carry the generation in which the member had the partition, not the one that it is in now (KIP-447).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define, field

from logbus.client.groups import CommittedOffset, GroupMetadata
from logbus.model import TopicPartition


@define(eq=False)
class Deliveries:
    """
    Two accounts of delivered records: for transactions, which ask for :meth:`metadata`, and for plain commits, which
    report :meth:`committed`.

    A partition remains in the account for transactions until metadata were asked for and more is delivered: an open
    transaction may hold its records until then.

    :ivar lost: partitions that were given up with records delivered and not committed, and the offset after these.
    """

    lost: dict[TopicPartition, CommittedOffset] = field(factory=dict, init=False)
    _uncommitted: set[TopicPartition] = field(factory=set, init=False)
    _in_transaction: set[TopicPartition] = field(factory=set, init=False)
    _metadata_taken: bool = field(default=False, init=False)
    _outdated: GroupMetadata | None = field(default=None, init=False)

    def delivered(self, partition: TopicPartition) -> None:
        """The application gets records of a partition."""
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
        Partitions were revoked or lost.

        :param member: who the consumer was while it had them; None: no member of a group.
        :param positions: the offsets after what was delivered.
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
        Offsets were committed.

        :param positions: the offsets after what was delivered, of the partitions that the consumer has now.
        """
        for partition, at in offsets.items():
            if partition in positions and positions[partition].offset <= at.offset:
                self._uncommitted.discard(partition)
            if partition in self.lost and self.lost[partition].offset <= at.offset:
                del self.lost[partition]

    def take_lost(self) -> dict[TopicPartition, CommittedOffset]:
        """What was lost since this was last asked."""
        lost, self.lost = self.lost, {}
        return lost

    def metadata(self, now: GroupMetadata) -> GroupMetadata:
        """
        Who the consumer was for all that was delivered since this was last asked.

        :param now: who it is now.
        :returns: that, unless one of the partitions was given up: then who it was when it had that one.
        """
        self._metadata_taken = True
        return now if self._outdated is None else self._outdated
