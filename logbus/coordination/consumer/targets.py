"""
From what members are subscribed to, and the topics there are, to what each of them is to have: the target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from attrs import define, field

from logbus.coordination.consumer.assignors import ASSIGNORS, DEFAULT_ASSIGNOR
from logbus.coordination.consumer.expressions import matching
from logbus.coordination.consumer.ledger import Ledger
from logbus.coordination.consumer.member import Member
from logbus.coordination.consumer.partitions import TopicId
from logbus.coordination.consumer.topics import TopicsView
from logbus.errors import ApiError, ErrorCode

MOST_EXPRESSIONS = 16
"""Different regular expressions of one group: when a topic comes or goes, each is matched with all names."""


@define(eq=False)
class Targets:
    """
    Keeps the group's epoch, its expressions and its targets in step with members and topics.

    Between heartbeats nothing is watched: each one compares a version number first, so that one in a group where all
    stands still costs nothing.
    """

    _ledger: Ledger
    _topics: TopicsView
    _seen: int | None = field(default=None, init=False)
    _names: frozenset[str] | None = field(default=None, init=False)

    @property
    def names(self) -> frozenset[str]:
        """All topics that members are subscribed to, those that expressions stand for included."""
        if self._names is None:
            named: set[str] = set()
            for topics in {self._wanted(member) for member in self._ledger.members.values()}:
                named |= topics
            self._names = frozenset(named)
        return self._names

    @property
    def assignor(self) -> str:
        """The assignor that most members want."""
        wanted = Counter(member.assignor for member in self._ledger.members.values() if member.assignor in ASSIGNORS)
        return max(wanted, key=lambda name: (wanted[name], name), default=None) or DEFAULT_ASSIGNOR

    def forget(self) -> None:
        """Look at everything again next time: records were taken back, or read back."""
        self._seen = None
        self._names = None

    def subscriptions_changed(self, now_ms: int) -> None:
        """
        A member came, went, or changed its mind: the group's epoch grows.

        :raise ApiError: INVALID_REGULAR_EXPRESSION: there are too many different ones.
        """
        self._names = None
        self._ledger.set_epoch((self._ledger.epoch or 0) + 1)
        used = {member.regex for member in self._ledger.members.values() if member.regex}
        for regex in set(self._ledger.expressions) - used:
            self._ledger.set_expression(regex, None)
        new = sorted(used - set(self._ledger.expressions))
        if new and len(used) > MOST_EXPRESSIONS:
            raise ApiError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"the members of a group may use {MOST_EXPRESSIONS} different regular expressions, and do",
            )
        for regex in new:
            self._resolve(regex, now_ms)

    def look(self, now_ms: int) -> None:
        """If topics came, went or grew: the group's epoch grows, if the group has to do with them."""
        if self._topics.version == self._seen:
            return
        for regex in sorted(self._ledger.expressions):
            self._resolve(regex, now_ms)
        if self._ledger.epoch is not None and self._ledger.epoch == self._ledger.target_epoch:
            # Targets hold every partition of every topic wanted: what they hold tells which topics they were made for.
            held: Counter[TopicId] = Counter()
            for target in self._ledger.targets.values():
                held.update({topic_id: len(numbers) for topic_id, numbers in target.items()})
            if dict(held) != self._partition_counts(self.names):
                self._ledger.set_epoch(self._ledger.epoch + 1)
        self._seen = self._topics.version

    def update(self) -> None:
        """Make targets for the group's epoch, unless they are."""
        ledger = self._ledger
        if ledger.epoch is None or ledger.epoch == ledger.target_epoch:
            return
        counts = self._partition_counts(self.names)
        ids = {name: topic.topic_id for name in self.names if (topic := self._topics.topic(name)) is not None}
        same: dict[frozenset[str], frozenset[TopicId]] = {}
        wishes = {}
        # Static members keep their place when they come back under another member id.
        for member in sorted(ledger.members.values(), key=lambda member: (member.instance_id or "", member.member_id)):
            wanted = self._wanted(member)
            if wanted not in same:
                same[wanted] = frozenset(ids[name] for name in wanted if name in ids)
            wishes[member.member_id] = same[wanted]
        made = ASSIGNORS[self.assignor](wishes, counts, ledger.targets)
        for member_id, target in made.items():
            if target != ledger.targets.get(member_id):
                ledger.set_target(member_id, target)
        ledger.set_target_epoch(ledger.epoch)

    def _wanted(self, member: Member) -> frozenset[str]:
        named = frozenset(member.topics)
        return named | self._ledger.expressions.get(member.regex, frozenset()) if member.regex else named

    def _partition_counts(self, names: frozenset[str]) -> Mapping[TopicId, int]:
        found = (self._topics.topic(name) for name in names)
        return {topic.topic_id: topic.partitions for topic in found if topic is not None}

    def _resolve(self, regex: str, now_ms: int) -> None:
        try:
            topics = matching(regex, self._topics.names())
        except ApiError:
            # Read back from a broker whose engine took it: it stands for what it stood for there.
            return
        if topics != self._ledger.expressions.get(regex):
            self._ledger.set_expression(regex, topics, self._topics.version, now_ms)
            self._names = None
