"""
The share partitions of a group: those whose state at the share coordinator is there, is being made, or is being
deleted (record 15 of ``__consumer_offsets``). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, field, frozen

from logbus.coordination.consumer.partition_sets import NO_PARTITIONS, Partitions, TopicId, difference, union


@frozen
class SharePartitions:
    """
    The share partitions of a group.

    :ivar initializing: whose state is being made; it may or may not be there.
    :ivar initialized: whose state is there: these can be assigned.
    :ivar deleting: whose states are being deleted: some may be there still.
    :ivar names: the names of all these topics.
    """

    initializing: Partitions = NO_PARTITIONS
    initialized: Partitions = NO_PARTITIONS
    deleting: frozenset[TopicId] = frozenset()
    names: Mapping[TopicId, str] = field(factory=dict)

    @property
    def known(self) -> Partitions:
        """The partitions that may have a state."""
        return union(self.initialized, self.initializing)

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not self.initializing and not self.initialized and not self.deleting

    def begun(self, partitions: Partitions, names: Mapping[TopicId, str]) -> SharePartitions:
        """With states that are being made."""
        return _kept(
            evolve(self, initializing=union(self.initializing, partitions), names={**self.names, **names}),
        )

    def made(self, partitions: Partitions, names: Mapping[TopicId, str]) -> SharePartitions:
        """With states that are there."""
        return _kept(
            evolve(
                self,
                initializing=difference(self.initializing, partitions),
                initialized=union(self.initialized, partitions),
                names={**self.names, **names},
            )
        )

    def deletion_begun(self, topics: frozenset[TopicId]) -> SharePartitions:
        """
        With topics whose states are being deleted.

        Their partitions are kept as initializing, so that it stays known which states there may be.
        """
        gone = {topic_id: numbers for topic_id, numbers in self.known.items() if topic_id in topics}
        return _kept(
            evolve(
                self,
                initializing=union(self.initializing, gone),
                initialized=difference(self.initialized, gone),
                deleting=self.deleting | gone.keys(),
            )
        )

    def without(self, topics: frozenset[TopicId]) -> SharePartitions:
        """Without topics whose states are gone."""
        return _kept(
            evolve(
                self,
                initializing=_others(self.initializing, topics),
                initialized=_others(self.initialized, topics),
                deleting=self.deleting - topics,
            )
        )


def _others(partitions: Partitions, topics: frozenset[TopicId]) -> Partitions:
    return {topic_id: numbers for topic_id, numbers in partitions.items() if topic_id not in topics}


def _kept(state: SharePartitions) -> SharePartitions:
    """The same without the names of other topics."""
    used = state.initializing.keys() | state.initialized.keys() | state.deleting
    return evolve(state, names={topic_id: name for topic_id, name in state.names.items() if topic_id in used})


NONE = SharePartitions()
