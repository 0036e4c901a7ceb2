"""
Computes the target assignment of a consumer group from subscriptions and topics (Kafka: TargetAssignmentBuilder).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from attrs import define, field

from logbus.coordination.assignment_interval import may_assign
from logbus.coordination.consumer.assignors import ASSIGNORS, DEFAULT_ASSIGNOR
from logbus.coordination.consumer.consumer_group_member import ConsumerGroupMember
from logbus.coordination.consumer.partition_sets import NO_PARTITIONS, Partitions, TopicId
from logbus.coordination.consumer.recorded_state import RecordedState
from logbus.coordination.consumer.regular_expressions import matching_names
from logbus.coordination.consumer.topics_view import TopicsView
from logbus.errors import ApiError, ErrorCode

Sees = Callable[[str], bool]
"""Tells whether somebody may know of a topic."""

MAX_EXPRESSIONS = 16
"""Limit of different regular expressions in a group: when topics change, each is matched with all topic names."""


@define(eq=False)
class TargetAssignment:
    """
    Updates the group's epoch, expressions and targets when members or topics have changed.

    It is called by heartbeats only. Each compares the version of the topics first, so that a heartbeat without changes
    is cheap.
    """

    _recorded: RecordedState
    _topics: TopicsView
    _seen: int | None = field(default=None, init=False)
    _names: frozenset[str] | None = field(default=None, init=False)

    @property
    def names(self) -> frozenset[str]:
        """All topics that members are subscribed to, by name or by expression."""
        if self._names is None:
            named: set[str] = set()
            for topics in {self._wanted(member) for member in self._recorded.members.values()}:
                named |= topics
            self._names = frozenset(named)
        return self._names

    @property
    def assignor(self) -> str:
        """The assignor that most members prefer."""
        wanted = Counter(member.assignor for member in self._recorded.members.values() if member.assignor in ASSIGNORS)
        return max(wanted, key=lambda name: (wanted[name], name), default=None) or DEFAULT_ASSIGNOR

    def forget(self) -> None:
        """Drop cached values, after records were undone or read back."""
        self._seen = None
        self._names = None

    def subscriptions_changed(self, now_ms: int, sees: Sees | None = None) -> None:
        """
        Increase the group epoch: a member joined, left, or changed its subscription.

        :param sees: see :meth:`check_topics`.
        :raise ApiError: INVALID_REGULAR_EXPRESSION: there are too many different ones.
        """
        self._names = None
        self._recorded.set_epoch((self._recorded.epoch or 0) + 1)
        used = {member.regex for member in self._recorded.members.values() if member.regex}
        for regex in set(self._recorded.expressions) - used:
            self._recorded.set_expression(regex, None)
        new = sorted(used - set(self._recorded.expressions))
        if new and len(used) > MAX_EXPRESSIONS:
            raise ApiError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"the members of a group may use {MAX_EXPRESSIONS} different regular expressions, and do",
            )
        for regex in new:
            self._resolve(regex, now_ms, sees)

    def check_topics(self, now_ms: int, sees: Sees | None = None) -> None:
        """
        Increase the group epoch if subscribed topics were created, deleted or got more partitions.

        :param sees: whether the member that asks may know of a topic: expressions stand for those only, as in Kafka;
            None: of all.
        """
        if self._topics.version == self._seen:
            return
        for regex in sorted(self._recorded.expressions):
            self._resolve(regex, now_ms, sees)
        if self._recorded.epoch is not None and self._recorded.epoch == self._recorded.target_epoch:
            # Targets contain every partition of every subscribed topic, so they tell which topics they were made for.
            held: Counter[TopicId] = Counter()
            for target in self._recorded.targets.values():
                held.update({topic_id: len(numbers) for topic_id, numbers in target.items()})
            if dict(held) != self._partition_counts(self.names):
                self._recorded.set_epoch(self._recorded.epoch + 1)
        self._seen = self._topics.version

    @property
    def is_due(self) -> bool:
        """Whether the targets are older than the group epoch."""
        return self._recorded.epoch is not None and self._recorded.epoch != self._recorded.target_epoch

    def may_update(self, now_ms: int, interval_ms: int) -> bool:
        """Whether the targets may be computed anew now; see :func:`.may_assign`."""
        return may_assign(len(self._recorded.members), self._recorded.target_ms, interval_ms, now_ms)

    def update(self, now_ms: int, interval_ms: int) -> None:
        """Compute the targets for the group epoch, unless they exist, or this must wait."""
        recorded = self._recorded
        if recorded.epoch is None or not self.is_due or not self.may_update(now_ms, interval_ms):
            return
        counts = self._partition_counts(self.names)
        ids = {name: topic.topic_id for name in self.names if (topic := self._topics.topic(name)) is not None}
        same: dict[frozenset[str], frozenset[TopicId]] = {}
        subscriptions = {}
        # Static members keep their place in the order when they return with another member id.
        for member in sorted(
            recorded.members.values(), key=lambda member: (member.instance_id or "", member.member_id)
        ):
            wanted = self._wanted(member)
            if wanted not in same:
                same[wanted] = frozenset(ids[name] for name in wanted if name in ids)
            subscriptions[member.member_id] = same[wanted]
        made = ASSIGNORS[self.assignor](subscriptions, counts, recorded.targets)
        for member_id, target in made.items():
            if target != recorded.targets.get(member_id):
                recorded.set_target(member_id, target)
        recorded.set_target_epoch(recorded.epoch, now_ms)

    def of(self, member_id: str) -> Partitions:
        """A member's target; while a newer one is due, without topics that the member has left out since."""
        target = self._recorded.targets.get(member_id, NO_PARTITIONS)
        if not target or not self.is_due:
            return target
        wanted = self._wanted(self._recorded.members[member_id])
        return {topic_id: numbers for topic_id, numbers in target.items() if self._topics.name(topic_id) in wanted}

    def _wanted(self, member: ConsumerGroupMember) -> frozenset[str]:
        named = frozenset(member.topics)
        return named | self._recorded.expressions.get(member.regex, frozenset()) if member.regex else named

    def _partition_counts(self, names: frozenset[str]) -> Mapping[TopicId, int]:
        found = (self._topics.topic(name) for name in names)
        return {topic.topic_id: topic.partitions for topic in found if topic is not None}

    def _resolve(self, regex: str, now_ms: int, sees: Sees | None) -> None:
        try:
            topics = matching_names(regex, self._topics.names())
        except ApiError:
            # It was read back from a broker whose engine accepted it: keep the topics that matched there.
            return
        if sees is not None:
            topics = frozenset(filter(sees, topics))
        if topics != self._recorded.expressions.get(regex):
            self._recorded.set_expression(regex, topics, self._topics.version, now_ms)
            self._names = None
