"""
Computes the target assignment of a share group from subscriptions, topics and share partitions (Kafka:
TargetAssignmentBuilder). Pure.
"""

from __future__ import annotations

from attrs import define, field

from logbus.coordination.assignment_interval import ms_until_assignment
from logbus.coordination.consumer.partition_sets import NO_PARTITIONS, Partitions, TopicId, difference, intersection
from logbus.coordination.consumer.topics_view import Topic, TopicsView
from logbus.coordination.share import simple_assignor
from logbus.coordination.share.recorded_state import RecordedState
from logbus.coordination.share.share_partitions import SharePartitions


@define(eq=False)
class TargetAssignment:
    """
    Updates the group's epoch and targets when members, topics or share partitions have changed.

    It is called by heartbeats only. Each compares the version of the topics first, so that a heartbeat without changes
    is cheap.
    """

    _recorded: RecordedState
    _topics: TopicsView
    _seen: tuple[int, SharePartitions] | None = field(default=None, init=False)
    _names: frozenset[str] | None = field(default=None, init=False)

    @property
    def names(self) -> frozenset[str]:
        """All topics that members are subscribed to."""
        if self._names is None:
            named: set[str] = set()
            for topics in {member.topics for member in self._recorded.members.values()}:
                named.update(topics)
            self._names = frozenset(named)
        return self._names

    def forget(self) -> None:
        """Drop cached values, after records were undone or read back."""
        self._seen = None
        self._names = None

    def subscriptions_changed(self) -> None:
        """Increase the group epoch: a member joined, left, or changed its subscription."""
        self._names = None
        self._seen = None
        self._recorded.set_epoch((self._recorded.epoch or 0) + 1)

    def check_partitions(self) -> None:
        """
        Begin to make the states of partitions that have none, and increase the group epoch if those that can be
        assigned have changed.
        """
        recorded = self._recorded
        if self._seen == (self._topics.version, recorded.partitions):
            return
        topics = self._subscribed()
        every = {topic.topic_id: frozenset(range(topic.partitions)) for topic in topics.values() if topic.partitions}
        new = {
            topic_id: numbers
            for topic_id, numbers in difference(every, recorded.partitions.known).items()
            if topic_id not in recorded.partitions.deleting
        }
        if new:
            names = {topic.topic_id: name for name, topic in topics.items() if topic.topic_id in new}
            recorded.set_partitions(recorded.partitions.begun(new, names))
        if recorded.epoch is not None and recorded.epoch == recorded.target_epoch:
            # Targets contain every partition that could be assigned when they were computed.
            held: dict[TopicId, set[int]] = {}
            for target in recorded.targets.values():
                for topic_id, numbers in target.items():
                    held.setdefault(topic_id, set()).update(numbers)
            if held != self._assignable(topics):
                recorded.set_epoch(recorded.epoch + 1)
        self._seen = (self._topics.version, recorded.partitions)

    @property
    def is_due(self) -> bool:
        """Whether the targets are older than the group epoch."""
        return self._recorded.epoch is not None and self._recorded.epoch != self._recorded.target_epoch

    def of(self, member_id: str) -> Partitions:
        """A member's target; while a newer one is due, without topics that the member has left out since."""
        target = self._recorded.targets.get(member_id, NO_PARTITIONS)
        if not target or not self.is_due:
            return target
        wanted = self._recorded.members[member_id].topics
        return {topic_id: numbers for topic_id, numbers in target.items() if self._topics.name(topic_id) in wanted}

    def ms_until_update(self, now_ms: int, interval_ms: int) -> int:
        """For how long the targets for the group epoch must wait; 0: not at all, or they exist."""
        recorded = self._recorded
        if not self.is_due:
            return 0
        return ms_until_assignment(len(recorded.members), recorded.target_ms, interval_ms, now_ms)

    def update(self, now_ms: int, interval_ms: int) -> None:
        """Compute the targets for the group epoch, unless they exist, or this must wait."""
        recorded = self._recorded
        if recorded.epoch is None or not self.is_due or self.ms_until_update(now_ms, interval_ms):
            return
        topics = self._subscribed()
        same: dict[tuple[str, ...], frozenset[TopicId]] = {}
        subscriptions = {}
        for member_id, member in sorted(recorded.members.items()):
            if member.topics not in same:
                same[member.topics] = frozenset(topics[name].topic_id for name in member.topics if name in topics)
            subscriptions[member_id] = same[member.topics]
        made = simple_assignor.assign(subscriptions, self._assignable(topics), recorded.targets)
        for member_id, target in made.items():
            if target != recorded.targets.get(member_id):
                recorded.set_target(member_id, target)
        # Who comes while the first states are made has been assigned nothing yet, and need not wait.
        recorded.set_target_epoch(recorded.epoch, now_ms if any(made.values()) else 0)

    def _subscribed(self) -> dict[str, Topic]:
        """The topics that members are subscribed to, and that exist, by name."""
        return {name: topic for name in self.names if (topic := self._topics.topic(name)) is not None}

    def _assignable(self, topics: dict[str, Topic]) -> Partitions:
        every = {topic.topic_id: frozenset(range(topic.partitions)) for topic in topics.values()}
        return intersection(self._recorded.partitions.initialized, every)
