"""
Computes the target assignment of a streams group from its topology, members and topics (Kafka:
TargetAssignmentBuilder). Pure.
"""

from __future__ import annotations

from hashlib import blake2b

from attrs import define, evolve, field

from logbus.coordination.assignment_interval import may_assign
from logbus.coordination.consumer.topics_view import TopicsView
from logbus.coordination.streams.configured_topology import ConfiguredTopology, configure
from logbus.coordination.streams.recorded_state import RecordedState
from logbus.coordination.streams.records import NOT_VALIDATED, GroupEpoch
from logbus.coordination.streams.sticky_assignor import MemberSpec, assign
from logbus.coordination.streams.streams_group_settings import StreamsGroupSettings
from logbus.coordination.streams.tasks import NO_TASK_SETS
from logbus.coordination.streams.topology import Topology
from logbus.errors import ApiError, ErrorCode

FIRST_EPOCH = 2
"""The first epoch of a group: members that wait for their first tasks are in the one before."""

MAX_TASKS = 20_000
"""Limit of the tasks of a group: to assign so many takes some 50 ms."""


@define(eq=False)
class TargetAssignment:
    """
    Updates the group's epoch and targets when members, topics or settings have changed.

    It is called by heartbeats only. Each compares the version of the topics first, so that a heartbeat without changes
    is cheap.
    """

    _recorded: RecordedState
    _topics: TopicsView
    _seen: tuple[int, Topology] | None = field(default=None, init=False)
    _configured: ConfiguredTopology | None = field(default=None, init=False)
    _hash: int = field(default=0, init=False)

    def partitions_of(self, name: str) -> int | None:
        """The number of partitions of a topic; None: there is no such topic."""
        topic = self._topics.topic(name)
        return None if topic is None else topic.partitions

    def configured(self) -> ConfiguredTopology | None:
        """
        The topology with what follows from the topics that there are; None: the group has none.

        :raise ApiError: STREAMS_INVALID_TOPOLOGY.
        """
        topology = self._recorded.topology
        if topology is None:
            return None
        if self._configured is None or self._seen != (self._topics.version, topology):
            configured = configure(topology, self.partitions_of)
            tasks = sum(each.tasks for each in configured.subtopologies.values())
            if tasks > MAX_TASKS:
                raise ApiError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY, f"the topology makes {tasks} tasks: {MAX_TASKS} are allowed"
                )
            self._configured = configured
            self._hash = self._topics_hash(topology)
            self._seen = (self._topics.version, topology)
        return self._configured

    def check(self, settings: StreamsGroupSettings, *, members_changed: bool) -> ConfiguredTopology:
        """
        Increase the group epoch if anything has changed that assignments depend on.

        :param members_changed: whether a member joined, or describes itself in another way.
        :raise ApiError: STREAMS_INVALID_TOPOLOGY.
        """
        configured = self.configured()
        if configured is None:
            # Its record is lost, or damaged: the first member brings a topology.
            raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, "the group has no topology: join it anew")
        before = self._recorded.epoch
        now = GroupEpoch(
            FIRST_EPOCH if before is None else before.epoch,
            self._hash,
            configured.epoch if configured.is_ready else NOT_VALIDATED,
            settings.of_assignment,
        )
        if before is None:
            self._recorded.set_epoch(now)
        elif members_changed or now != before:
            self._recorded.set_epoch(evolve(now, epoch=max(before.epoch + 1, FIRST_EPOCH)))
        return configured

    def members_left(self) -> None:
        """Increase the group epoch: members have left."""
        before = self._recorded.epoch or GroupEpoch(FIRST_EPOCH - 1)
        self._recorded.set_epoch(evolve(before, epoch=before.epoch + 1))

    @property
    def is_due(self) -> bool:
        """Whether the targets are older than the group epoch."""
        recorded = self._recorded
        return recorded.epoch is not None and recorded.epoch.epoch > (recorded.target_epoch or 0)

    def may_update(self, now_ms: int, settings: StreamsGroupSettings) -> bool:
        """Whether the targets may be computed anew now; see :func:`.may_assign`."""
        recorded = self._recorded
        return may_assign(len(recorded.members), recorded.target_ms, settings.assignment_interval_ms, now_ms)

    def update(self, configured: ConfiguredTopology, settings: StreamsGroupSettings, now_ms: int) -> None:
        """Compute the targets for the group epoch; without the topics that are needed nobody has tasks."""
        recorded = self._recorded
        if recorded.epoch is None:
            return
        if configured.is_ready:
            specs = {member_id: self._spec(member_id) for member_id in sorted(recorded.members)}
            made = assign(specs, configured, settings.num_standby_replicas)
        else:
            made = dict.fromkeys(recorded.members, NO_TASK_SETS)
        for member_id, target in made.items():
            if target != recorded.targets.get(member_id):
                recorded.set_target(member_id, target)
        recorded.set_target_epoch(recorded.epoch.epoch, now_ms)

    def _spec(self, member_id: str) -> MemberSpec:
        target = self._recorded.targets.get(member_id, NO_TASK_SETS)
        return MemberSpec(self._recorded.members[member_id].process_id, target.active, target.standby)

    def _topics_hash(self, topology: Topology) -> int:
        """A hash of the topics of a topology that exist: other topics, or another number of partitions, change it."""
        digest = blake2b(digest_size=8)
        for name in sorted(topology.topics):
            topic = self._topics.topic(name)
            if topic is not None:
                digest.update(f"{name}:{topic.topic_id.hex()}:{topic.partitions};".encode())
        return int.from_bytes(digest.digest(), "big", signed=True)
