"""StreamsGroupHeartbeat as a value, its response, and the validation that does not depend on the group. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve, frozen

from logbus.coordination.streams.configured_topology import ConfiguredTopology
from logbus.coordination.streams.endpoints import EndpointPartitions
from logbus.coordination.streams.status import Status, StatusCode
from logbus.coordination.streams.streams_group_member import AWAY, JOINING, Endpoint, StreamsGroupMember
from logbus.coordination.streams.tasks import TaskSets
from logbus.coordination.streams.topology import InternalTopic, Topology, check_topology
from logbus.errors import ApiError, ErrorCode
from logbus.model import INTERNAL_TOPICS, topic_name_problem


@frozen
class StreamsHeartbeat:
    """
    A StreamsGroupHeartbeat request. None, and −1 for the timeout, mean "unchanged".

    :ivar epoch: 0 to join, −1 to leave, else the member's epoch.
    :ivar topology: given by members that join, and by no others.
    :ivar owned: the tasks that the member may be working on.
    :ivar endpoint_epoch: the epoch of the endpoints that the member knows.
    :ivar shutdown: whether all members shall stop.
    :ivar gives_offsets: whether it has offsets of its tasks' changelogs, which are for warm-up tasks.
    """

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    owned: TaskSets | None = None
    process_id: str | None = None
    endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] | None = None
    endpoint_epoch: int = 0
    shutdown: bool = False
    gives_offsets: bool = False
    client_id: str = ""
    client_host: str = ""

    def applied_to(self, member: StreamsGroupMember) -> StreamsGroupMember:
        """The member with the fields that are set."""
        timeout_ms = self.rebalance_timeout_ms
        return evolve(
            member,
            rack_id=member.rack_id if self.rack_id is None else self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            topology_epoch=member.topology_epoch if self.topology is None else self.topology.epoch,
            process_id=member.process_id if self.process_id is None else self.process_id,
            endpoint=member.endpoint if self.endpoint is None else self.endpoint,
            client_tags=member.client_tags if self.client_tags is None else self.client_tags,
        )


@frozen
class StreamsHeartbeatResult:
    """
    A StreamsGroupHeartbeat response.

    :ivar tasks: the tasks that the member may work on from now on; None: unchanged.
    :ivar endpoint_epoch: grows when the partitions at endpoints change.
    :ivar endpoints: the partitions at all endpoints; None: unchanged.
    :ivar missing_topics: the internal topics to be created.
    """

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    statuses: tuple[Status, ...] = ()
    tasks: TaskSets | None = None
    endpoint_epoch: int = 0
    endpoints: Sequence[EndpointPartitions] | None = None
    missing_topics: tuple[InternalTopic, ...] = ()


def statuses(
    member: StreamsGroupMember, configured: ConfiguredTopology, *, delay: str | None, stopped_by: str | None
) -> Iterator[Status]:
    """
    What a member should know.

    :param delay: why tasks are not assigned yet; None: they are.
    :param stopped_by: the member that asked that all stop.
    """
    if member.topology_epoch < configured.epoch:
        yield Status(
            StatusCode.STALE_TOPOLOGY,
            f"the member has the topology of epoch {member.topology_epoch}, the group that of {configured.epoch}",
        )
    if delay is not None:
        yield Status(StatusCode.ASSIGNMENT_DELAYED, delay)
    if configured.problem is not None:
        yield configured.problem
    if stopped_by is not None:
        yield Status(StatusCode.SHUTDOWN_APPLICATION, f"the member {stopped_by} asked the whole application to stop")


def check_heartbeat(heartbeat: StreamsHeartbeat) -> None:
    """
    Refuse a heartbeat that is invalid for any group, or that uses what Kafka has reserved for later releases.

    :raise ApiError: INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY.
    """
    _check_supported(heartbeat)
    if not heartbeat.member_id.strip():
        raise _invalid("the member id is empty")
    if heartbeat.rack_id is not None and not heartbeat.rack_id.strip():
        raise _invalid("the rack id is empty: leave it out instead")
    if heartbeat.epoch < AWAY:
        raise _invalid(f"the member epoch is {heartbeat.epoch}: none is below {AWAY}")
    if heartbeat.epoch == AWAY:
        raise _invalid(f"the member epoch {AWAY} is for members with an instance id")
    if heartbeat.epoch == JOINING:
        _check_joining(heartbeat)
    elif heartbeat.topology is not None:
        raise _invalid("a topology may be given by members that join only")


def _check_supported(heartbeat: StreamsHeartbeat) -> None:
    if heartbeat.instance_id is not None:
        raise _invalid("streams groups have no static members yet: leave out the instance id")
    if heartbeat.gives_offsets:
        raise _invalid("offsets of tasks are not used yet: leave them out")
    if heartbeat.owned is not None and heartbeat.owned.warmup:
        raise _invalid("warm-up tasks are not assigned yet, so that no member has any")
    if heartbeat.topology is not None and heartbeat.topology.source_topic_regexes:
        raise _invalid("regular expressions for source topics are not supported yet: name the topics")


def _check_joining(heartbeat: StreamsHeartbeat) -> None:
    if heartbeat.rebalance_timeout_ms == -1:
        raise _invalid("a member that joins must give a rebalance timeout")
    if heartbeat.owned is not None and not heartbeat.owned.is_empty:
        raise _invalid("a member that joins must say that it has no tasks")
    if heartbeat.topology is None:
        raise _invalid("a member that joins must give its topology")
    check_topology(heartbeat.topology)
    for name in sorted(heartbeat.topology.topics):
        problem = topic_name_problem(name)
        if problem is None and name in INTERNAL_TOPICS:
            problem = "a topic of the brokers"
        if problem is not None:
            raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"the topology has the topic {name!r}: {problem}")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
