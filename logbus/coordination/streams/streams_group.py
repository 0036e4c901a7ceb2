"""
A streams group (KIP-1071; Kafka: StreamsGroup). Pure.

It has three kinds of epochs, as a group of the consumer protocol. The *group epoch* grows when members, topics or
settings change. The *target assignment* is then computed, and carries the group epoch that it was computed for. Each
*member* moves towards its target by its own heartbeats, and reaches an epoch when it has given up the tasks that this
requires. See :mod:`~logbus.coordination.streams.reconciliation`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from attrs import define, field, frozen

from logbus.coordination.assignment_epochs import check_commit_epoch
from logbus.coordination.classic.requests import admit_all
from logbus.coordination.consumer.consumer_group import OFFSET_COMMIT_WITH_EPOCH
from logbus.coordination.group import Change, GroupType
from logbus.coordination.modern_group import NO_MEMBER, ModernGroup
from logbus.coordination.streams import join_and_leave
from logbus.coordination.streams.configured_topology import ConfiguredTopology
from logbus.coordination.streams.endpoints import EndpointCache, EndpointPartitions
from logbus.coordination.streams.heartbeat import StreamsHeartbeat, StreamsHeartbeatResult, statuses
from logbus.coordination.streams.reconciliation import reconcile
from logbus.coordination.streams.recorded_state import RecordedState
from logbus.coordination.streams.streams_group_member import (
    JOINING,
    LEFT,
    MemberState,
    StreamsGroupMember,
    StreamsPosition,
    Task,
)
from logbus.coordination.streams.streams_group_settings import StreamsGroupSettings
from logbus.coordination.streams.target_assignment import FIRST_EPOCH, TargetAssignment
from logbus.coordination.streams.tasks import NO_TASK_SETS, TaskSets
from logbus.coordination.streams.topology import Topology
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

PROTOCOL_TYPE = "streams"
"""The protocol type of streams groups, as ListGroups shows it."""


@frozen
class StreamsGroupDescription:
    """
    A group, as StreamsGroupDescribe shows it: each member with its position and target.

    :ivar configured: the topology with numbers of partitions; None: these are not known, or do not fit together.
    """

    state: str
    epoch: int
    target_epoch: int
    topology: Topology | None
    configured: ConfiguredTopology | None
    members: tuple[tuple[StreamsGroupMember, StreamsPosition, TaskSets], ...]


@define(eq=False)
class StreamsGroup(ModernGroup[StreamsGroupSettings, RecordedState]):
    """
    One streams group. Requests carry the time, in seconds; state changes are returned as records.
    """

    _admit: Callable[[int], None] = admit_all
    targets: TargetAssignment = field(init=False)
    _waits_until: float | None = field(default=None, init=False)
    _stopped_by: str | None = field(default=None, init=False)
    _endpoint_epoch: int = field(default=0, init=False)
    _endpoint_cache: EndpointCache = field(factory=EndpointCache, init=False)

    def __attrs_post_init__(self) -> None:
        self.recorded = RecordedState(self.group_id)
        self.targets = TargetAssignment(self.recorded, self.topics)

    # The interface of any group.

    @property
    def group_type(self) -> GroupType:
        """STREAMS."""
        return GroupType.STREAMS

    @property
    def protocol_type(self) -> str:
        """Always ``streams``."""
        return PROTOCOL_TYPE

    @property
    def memory(self) -> int:
        """About how many bytes its members and its topology take."""
        topology = self.recorded.topology
        members = sum(member.memory for member in self.recorded.members.values())
        return members + (0 if topology is None else topology.memory)

    @property
    def state_name(self) -> str:
        """Empty, NotReady, Assigning, Reconciling, Stable or Dead."""
        recorded = self.recorded
        if self.is_empty:
            return "Dead" if self.is_dead else "Empty"
        validated = None if recorded.epoch is None else recorded.epoch.validated_topology
        if recorded.topology is None or validated != recorded.topology.epoch:
            return "NotReady"
        if self.targets.is_due:
            return "Assigning"
        positions = map(recorded.position, recorded.members)
        if all(each.epoch == recorded.target_epoch and each.state is MemberState.STABLE for each in positions):
            return "Stable"
        return "Reconciling"

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members read a topic, be it one of the user or a repartition topic."""
        return not self.is_empty and topic in self.recorded.subtopology_of

    def describe(self) -> StreamsGroupDescription:
        """The group and its members, in the order of their ids."""
        recorded = self.recorded
        try:
            configured = self.targets.configured()
        except ApiError:
            configured = None
        return StreamsGroupDescription(
            state=self.state_name,
            epoch=0 if recorded.epoch is None else recorded.epoch.epoch,
            target_epoch=self._target_epoch,
            topology=recorded.topology,
            configured=configured if configured is not None and configured.is_ready else None,
            members=tuple(
                (member, recorded.position(member_id), recorded.targets.get(member_id, NO_TASK_SETS))
                for member_id, member in sorted(recorded.members.items())
            ),
        )

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        version: int,
        transactional: bool = False,
        partitions: Collection[TopicPartition] = (),
    ) -> None:
        """
        Refuse a commit that does not come from a member in its epoch, or in an earlier one in which it had got the
        tasks that read the partitions (KIP-1251). Other clients may commit to an empty group, and in a transaction
        always: producers need not send the member.

        :raise ApiError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION.
        """
        if epoch < 0 and self.is_empty:
            return
        if transactional and (epoch, member_id, instance_id) == NO_MEMBER:
            return
        join_and_leave.find(self.recorded, member_id)
        if version < OFFSET_COMMIT_WITH_EPOCH and not transactional:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"members of streams groups commit with OffsetCommit {OFFSET_COMMIT_WITH_EPOCH} or later",
            )
        position, subtopology_of = self.recorded.position(member_id), self.recorded.subtopology_of

        def since(partition: TopicPartition) -> int | None:
            subtopology_id = subtopology_of.get(partition.topic)
            return None if subtopology_id is None else position.since.get((subtopology_id, partition.partition))

        check_commit_epoch(member_id, position.epoch, epoch, partitions, since)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """
        Refuse an OffsetFetch of a member that is not in its epoch; requests without a member id are accepted.

        :raise ApiError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
        """
        if epoch < 0 and member_id is None:
            return
        join_and_leave.find(self.recorded, member_id or "")
        current = self.recorded.position(member_id or "").epoch
        if epoch != current:
            raise ApiError(
                ErrorCode.STALE_MEMBER_EPOCH, f"the member {member_id} is in epoch {current}, not in {epoch}"
            )

    # Records.

    def activate(self, now: float) -> None:
        """Start the members' session and revocation timeouts after a load."""
        for member_id in self.recorded.members:
            self.renew_session(now, member_id)
            if self.recorded.position(member_id).state is MemberState.UNREVOKED_TASKS:
                self._await_revocation(now, member_id)

    # Heartbeats.

    def heartbeat(self, now: float, request: StreamsHeartbeat) -> tuple[StreamsHeartbeatResult, list[Change]]:
        """
        Let a member join, stay, or leave.

        :param request: a valid one: see :func:`.check_heartbeat`.
        :return: the response, to be sent when the changes are durable. The changes are in effect already: call
            :meth:`undo` if they cannot be appended.
        :raise ApiError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, GROUP_MAX_SIZE_REACHED, INVALID_REQUEST,
            STREAMS_INVALID_TOPOLOGY. Nothing is changed then.
        """
        with self.changing() as changes:
            if request.epoch == LEFT:
                join_and_leave.find(self.recorded, request.member_id)
                if request.shutdown:
                    self._stopped_by = self._stopped_by or request.member_id
                self.remove(now, [request.member_id])
                return StreamsHeartbeatResult(request.member_id, LEFT), changes
            return self._stay(now, request), changes

    def _stay(self, now: float, request: StreamsHeartbeat) -> StreamsHeartbeatResult:
        settings, recorded, member_id, now_ms = self.settings, self.recorded, request.member_id, int(now * 1000)
        begins = self.is_empty
        former = self._member_of(request, settings.max_size)
        member = request.applied_to(former or StreamsGroupMember(member_id))
        if member != former:
            self._admit(member.memory - (0 if former is None else former.memory))
            recorded.set_member(member_id, member)
        if request.topology is not None:
            join_and_leave.take_topology(recorded, request.topology, first=begins, admit=self._admit)
        configured = self.targets.check(settings, members_changed=member != former)
        if configured.is_ready and request.owned is not None:
            join_and_leave.check_tasks(request.owned, configured)
        if begins and settings.initial_rebalance_delay_ms:
            self._waits_until = now + settings.initial_rebalance_delay_ms / 1000
        waits = self._waits_until is not None and now < self._waits_until
        if self.targets.is_due and not waits and self.targets.may_update(now_ms, settings):
            self.targets.update(configured, settings, now_ms)
        before = recorded.position(member_id)
        after = self._advance(now, request, first=waits)
        self.renew_session(now, member_id)
        if request.shutdown:
            self._stopped_by = self._stopped_by or member_id
        changed = request.epoch == JOINING or after.assigned != before.assigned
        # Who says that it has other tasks may have missed a response; it says so after each error.
        told = changed or request.owned not in (None, after.assigned)
        if changed and member.endpoint is not None:
            self._endpoint_epoch += 1
        return StreamsHeartbeatResult(
            member_id,
            after.epoch,
            settings.heartbeat_interval_ms,
            tuple(statuses(member, configured, delay=self._delay(waits), stopped_by=self._stopped_by)),
            after.assigned if told else None,
            self._endpoint_epoch,
            None if request.endpoint_epoch == self._endpoint_epoch else self._endpoints(configured),
            configured.missing,
        )

    def _delay(self, first: bool) -> str | None:
        if not self.targets.is_due:
            return None
        if first:
            return "the group waits for more members before it assigns tasks"
        return "tasks were assigned a moment ago: the group collects changes before it assigns them anew"

    def _member_of(self, request: StreamsHeartbeat, max_size: int) -> StreamsGroupMember | None:
        if request.epoch == JOINING:
            return join_and_leave.join(self.recorded, request.member_id, max_size)
        return join_and_leave.stay(self.recorded, request)

    def _advance(self, now: float, request: StreamsHeartbeat, *, first: bool) -> StreamsPosition:
        """Move a member towards its target as far as possible now; there is none before the ``first`` assignment."""
        recorded, member_id = self.recorded, request.member_id
        before = recorded.position(member_id)
        target = NO_TASK_SETS if first else recorded.targets.get(member_id, NO_TASK_SETS)

        def is_free(task: Task, active: bool) -> bool:
            return recorded.is_free(member_id, task, active)

        after = reconcile(before, self._target_epoch, target, request.owned, is_free)
        if after != before:
            recorded.set_position(member_id, after)
            if after.state is MemberState.UNREVOKED_TASKS:
                self._await_revocation(now, member_id)
            else:
                self.deadlines.step_done(member_id)
        return after

    @property
    def _target_epoch(self) -> int:
        return max(FIRST_EPOCH - 1, self.recorded.target_epoch or 0)

    def _endpoints(self, configured: ConfiguredTopology) -> list[EndpointPartitions]:
        recorded = self.recorded
        members = ((member, recorded.position(each)) for each, member in sorted(recorded.members.items()))
        return self._endpoint_cache.partitions(members, configured, self.targets.partitions_of)

    def remove(self, now: float, member_ids: Sequence[str]) -> None:
        """Remove members: their tasks become free, and the group's epoch grows."""
        for member_id in member_ids:
            self.recorded.remove(member_id)
        self.targets.members_left()
        if self.is_empty:
            self._stopped_by = None
            self._waits_until = None

    def _await_revocation(self, now: float, member_id: str) -> None:
        """Give a member its rebalance timeout to give up tasks."""
        timeout_ms = self.recorded.members[member_id].rebalance_timeout_ms
        if timeout_ms < 0:
            timeout_ms = self.settings.session_timeout_ms
        self.deadlines.await_step(member_id, now + timeout_ms / 1000)
