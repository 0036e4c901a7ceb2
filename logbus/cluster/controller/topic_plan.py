"""
Checks requests to create or change topics against the cluster's state: pure, but for the random numbers passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from uuid import UUID

from attrs import frozen

from logbus.cluster.controller.controller_context import ControllerContext, PartitionRecord, TopicRecord
from logbus.cluster.controller.replica_assignment import Replicas, assign_replicas, check_assignment
from logbus.cluster.metadata_update import NO_OVERRIDES
from logbus.errors import ApiError, ConfigError, ErrorCode
from logbus.model import (
    CLUSTER_METADATA_TOPIC,
    INTERNAL_TOPICS,
    SHARE_GROUP_STATE_TOPIC,
    new_topic_id,
    topic_name_problem,
)

DEFAULT = -1
"""Stands for the broker's default number of partitions or replication factor."""

_COMPACTED = {"cleanup.policy": "compact"}
_PRUNED = {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"}

MAX_NEW_PARTITIONS = 10_000
"""Of one request, over all its topics; as Kafka's controller has it."""

Overrides = Mapping[str, str | None]
"""As a client gives them; None is refused by the check."""

ConfigCheck = Callable[[Overrides], object]
"""Raises ConfigError unless the overrides are valid together."""

ConfigChange = Callable[[Mapping[str, str], Mapping[str, str]], object]
"""Raises ConfigError unless overrides may change from the first to the second."""

ConfigEdit = Callable[[Mapping[str, str]], Overrides]
"""From the present overrides to the wanted ones; may raise ApiError or ConfigError."""


@frozen
class NewTopic:
    """
    A topic to be created.

    :ivar num_partitions: −1 for the broker's default, and when ``assignment`` is given; ``replication_factor``
        likewise.
    :ivar assignment: replicas of each partition, chosen by the client, the preferred leader first.
    """

    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignment: Sequence[Sequence[int]] | None = None
    configs: Overrides = NO_OVERRIDES


@frozen
class NewPartitions:
    """
    Partitions to be added.

    :ivar total_count: of the topic's partitions afterwards.
    :ivar assignment: replicas of each new partition, chosen by the client.
    """

    name: str
    total_count: int
    assignment: Sequence[Sequence[int]] | None = None


@frozen
class TopicDefaults:
    """
    The defaults of new topics, and the limits of the cluster.

    :ivar max_topics: topics of a cluster (``max.topics``).
    :ivar max_partitions_per_broker: replicas of partitions of a cluster for each live broker
        (``max.partitions.per.broker``).
    """

    num_partitions: int
    replication_factor: int
    max_topics: int = 2**31 - 1
    max_partitions_per_broker: int = 2**31 - 1


class TopicQuota:
    """
    Counts the topics and partitions that one request adds, and refuses too many. Internal topics do not count.

    :param brokers: how many are alive.
    """

    def __init__(self, brokers: int, limits: TopicDefaults) -> None:
        self._limits = limits
        self._topics = limits.max_topics
        self._brokers = brokers
        self._replicas = limits.max_partitions_per_broker * brokers

    def count(self, topics: Iterable[TopicRecord]) -> None:
        """Count topics that there are."""
        for topic in topics:
            if topic.name not in INTERNAL_TOPICS:
                self._topics -= 1
                self._replicas -= sum([len(partition.replicas) for partition in topic.partitions])

    def take(self, name: str, partitions: Iterable[Replicas], *, is_new: bool) -> None:
        """
        Count the partitions of a new topic, or those added to one.

        :raise ApiError: POLICY_VIOLATION: there would be too many. Then they are not counted.
        """
        if name in INTERNAL_TOPICS:
            return
        if is_new and self._topics < 1:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"topic {name!r}: there are as many topics as max.topics = {self._limits.max_topics} allows; delete "
                "some, or raise it",
            )
        replicas = sum(len(one) for one in partitions)
        if replicas > self._replicas:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"topic {name!r}: its {replicas} new partition replicas are too many; max.partitions.per.broker = "
                f"{self._limits.max_partitions_per_broker} leaves room for {max(0, self._replicas)} on "
                f"{self._brokers} live brokers",
            )
        self._topics -= is_new
        self._replicas -= replicas


def plan_topic(
    state: ControllerContext, topic: NewTopic, defaults: TopicDefaults, check: ConfigCheck, random: Random, room: int
) -> TopicRecord:
    """
    The record of a topic to be created.

    :param room: how many partitions the request may still create.
    :raise ApiError: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_REQUEST, INVALID_PARTITIONS,
        INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG; POLICY_VIOLATION: no room.
    """
    problem = topic_name_problem(topic.name)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if topic.name == CLUSTER_METADATA_TOPIC:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"nobody may create a topic {topic.name}: the name is Kafka's own")
    if topic.name in state.unreadable:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic.name!r} is there: {state.unreadable[topic.name]}")
    known = state.topics.get(topic.name)
    if known is not None:
        fate = "is being deleted" if known.deleting else "exists already"
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic.name!r} {fate}")
    replicas = _replicas(state, topic, defaults, random, room)
    configs = {**safe_configs(topic.name), **topic.configs}
    overrides = kept_if_internal(topic.name, checked(check, configs))
    topic_id = new_topic_id(random.randbytes(16))
    return TopicRecord(topic.name, topic_id, [PartitionRecord(one) for one in replicas], overrides)


def _replicas(
    state: ControllerContext, topic: NewTopic, defaults: TopicDefaults, random: Random, room: int
) -> list[Replicas]:
    if topic.assignment is not None:
        if topic.num_partitions != DEFAULT or topic.replication_factor != DEFAULT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "a replica assignment comes without a number of partitions and a replication factor (-1)",
            )
        _check_room(topic.name, len(topic.assignment), room)
        return check_assignment(topic.assignment, state.brokers)
    partitions = defaults.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    factor = defaults.replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    _check_room(topic.name, partitions, room)
    return assign_replicas(_racks(state), partitions, factor, random)


def plan_partitions(
    state: ControllerContext, request: NewPartitions, random: Random, room: int
) -> tuple[TopicRecord, Sequence[Replicas]]:
    """
    The topic, and the replicas of its new partitions.

    :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT,
        INVALID_REPLICATION_FACTOR when too few brokers live; INVALID_TOPIC_EXCEPTION: an internal topic;
        POLICY_VIOLATION: no room.
    """
    topic = existing(state, request.name)
    if topic.name in INTERNAL_TOPICS:
        raise internal(topic.name, "is given no more partitions: each group or transaction would move to another one")
    count = len(topic.partitions)
    more = request.total_count - count
    if more <= 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {topic.name!r} has {count} partitions; it can be given more, not {request.total_count}",
        )
    _check_room(topic.name, more, room)
    factor = len(topic.partitions[0].target)
    if request.assignment is None:
        present = [record.replicas for record in topic.partitions]
        return topic, assign_replicas(_racks(state), more, factor, random, present)
    if len(request.assignment) != more:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"topic {topic.name!r} gets {more} partitions; replicas are given for {len(request.assignment)}",
        )
    return topic, check_assignment(request.assignment, state.brokers, first=count, replication_factor=factor)


def checked(check: ConfigCheck, overrides: Overrides, refused: ErrorCode = ErrorCode.INVALID_CONFIG) -> dict[str, str]:
    """
    Valid overrides.

    :param refused: the error code of overrides that are not.
    :raise ApiError: ``refused``.
    """
    try:
        check(overrides)
    except ConfigError as error:
        raise ApiError(refused, str(error)) from None
    return {name: value for name, value in overrides.items() if value is not None}


def edited(
    now: Mapping[str, str], edit: ConfigEdit, check: ConfigCheck, *, refused: ErrorCode = ErrorCode.INVALID_CONFIG
) -> dict[str, str]:
    """
    Overrides after an edit.

    :param refused: the error code of overrides that are not valid: Kafka has INVALID_REQUEST for those of brokers.
    :raise ApiError: INVALID_CONFIG, ``refused``, or what the edit raises.
    """
    try:
        wanted = edit(now)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return checked(check, wanted, refused)


def changed(check: ConfigChange, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """
    Check a change of valid overrides.

    :raise ApiError: INVALID_CONFIG.
    """
    try:
        check(before, after)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None


def kept_if_internal(topic: str, overrides: dict[str, str]) -> dict[str, str]:
    """
    The valid overrides of a topic.

    :raise ApiError: INVALID_CONFIG: an internal topic would lose records that are still needed.
    """
    for key, value in safe_configs(topic).items():
        if overrides.get(key, "").strip() != value:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"{key} of the internal topic {topic} must be {value}, or the brokers' state would be deleted",
            )
    return overrides


def safe_configs(topic: str) -> Mapping[str, str]:
    """The configs with which an internal topic keeps what the brokers need; the share coordinator prunes its own."""
    if topic not in INTERNAL_TOPICS:
        return {}
    return _PRUNED if topic == SHARE_GROUP_STATE_TOPIC else _COMPACTED


def internal(topic: str, why: str) -> ApiError:
    """
    The error for a change that would harm an internal topic.

    :param why: the refusal, as the predicate of a sentence about the topic.
    """
    return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the internal topic {topic} {why}")


def existing(state: ControllerContext, name: str) -> TopicRecord:
    """
    A topic that exists and is not being deleted.

    :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION.
    """
    topic = state.topics.get(name)
    if topic is None or topic.deleting:
        raise unknown(name)
    return topic


def unknown(topic: str | UUID) -> ApiError:
    """The error for an unknown name or id."""
    if isinstance(topic, UUID):
        return ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {topic}")
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic!r}")


class NameCollisions:
    """
    Finds topic names that differ only in ``.`` and ``_``, which are the same in metric names
    (Kafka: ``Topic.hasCollision``), among those added.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def add(self, name: str) -> None:
        """Add a topic."""
        self._known.setdefault(name.replace(".", "_"), name)

    def check(self, name: str) -> None:
        """
        :raise ApiError: INVALID_TOPIC_EXCEPTION: another topic has such a name.
        """
        other = self._known.get(name.replace(".", "_"), name)
        if other != name:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic {name!r} collides with the existing topic {other!r}: metric names do not tell '.' from '_'",
            )


def _racks(state: ControllerContext) -> dict[int, str | None]:
    return {broker.broker_id: broker.rack for broker in state.brokers.values()}


def _check_room(name: str, partitions: int, room: int) -> None:
    if partitions > room:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"topic {name!r}: a request can make {MAX_NEW_PARTITIONS} partitions in all; {partitions} are too many",
        )
