"""
Moves replicas by plans for ``cluster reassign``, with a throttle: rates of brokers, throttled replicas of topics
(KIP-73).
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from attrs import frozen

from logbus.cli.new_file import write_new_file
from logbus.cli.reassignment_plan import (
    InvalidPlan,
    Plan,
    Replicas,
    changed_replicas,
    read_plan,
    spread_evenly,
    throttled_replicas,
    write_plan,
)
from logbus.cli.runner import CommandFailed, raise_errors
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.config_admin import ConfigSource, Resource, ResourceType
from logbus.errors import ApiError
from logbus.model import TopicPartition

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def read_file(file: Path) -> Plan:
    """
    Read a plan.

    :raise CommandFailed: the file is not a plan.
    """
    try:
        return read_plan(sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8"))
    except InvalidPlan as e:
        raise CommandFailed(f"{file}: {e}") from None
    except UnicodeDecodeError as e:
        raise CommandFailed(f"{file}: it is not JSON ({e})") from None


async def generate(admin: AdminClient, topics: Sequence[str] | None, brokers: Sequence[int] | None) -> Plan:
    """
    Return a plan that spreads replicas evenly.

    :param topics: None: all.
    :param brokers: to use; None: all live ones.
    :raise InvalidPlan: a broker is not there, or there are too few; or partitions are being moved.
    """
    racks = {node.node_id: node.rack for node in (await admin.describe_cluster()).nodes}
    missing = sorted(set(brokers or ()) - set(racks))
    if missing:
        raise InvalidPlan(f"brokers {missing} are not there; there are: {sorted(racks)}")
    used = racks if brokers is None else {broker: racks[broker] for broker in brokers}
    current = await current_replicas(admin, topics)
    moving = await admin.list_reassignments(current)
    if moving:
        # Their replicas are the former ones and the new ones: a plan would keep as many.
        raise InvalidPlan(f"partitions are being moved, such as {min(moving)}: wait for them (cluster reassign --list)")
    return spread_evenly(current, used)


async def execute(admin: AdminClient, target: Plan, throttle: int | None, rollback: Path | None) -> int:
    """
    Begin to move replicas.

    :param throttle: bytes a second, for each broker, in each direction.
    :param rollback: a new file for the plan that returns to the assignment before.
    :returns: how many partitions are being moved.
    :raise CommandFailed: there is no such partition, or the controller refuses.
    """
    current = await current_replicas(admin, {name.topic for name in target})
    missing = [name for name in target if name not in current]
    if missing:
        raise CommandFailed(f"there is no partition {missing[0]}")
    if rollback is not None:
        content = write_plan({name: current[name] for name in target})
        write_new_file(str(rollback), content.encode(), overwrite=False)
    if throttle is not None:
        await _set_throttle(admin, current, target, throttle)
    wanted = changed_replicas(current, target)
    raise_errors(await admin.alter_reassignments(wanted) if wanted else {})
    return len(wanted)


@frozen
class Verified:
    """
    What has become of a plan.

    :ivar states: of its partitions: under way, done or differs.
    :ivar is_lifted: whether the throttle was lifted.
    """

    states: Mapping[TopicPartition, str]
    is_lifted: bool


async def verify(admin: AdminClient, target: Plan, *, lifts_throttle: bool = True) -> Verified:
    """
    Look at each partition of a plan. Lifts the throttle, which is of whole brokers, when no partition is being moved
    any more, not even by other plans.
    """
    under_way = await admin.list_reassignments()
    current = await current_replicas(admin, {name.topic for name in target})
    is_lifted = lifts_throttle and not under_way
    if is_lifted:
        await _lift_throttle(admin, {name.topic for name in target if name in current})
    states = {
        name: "under way" if name in under_way else "done" if current.get(name) == replicas else "differs"
        for name, replicas in target.items()
    }
    return Verified(states, is_lifted)


@frozen
class Cancelled:
    """
    What was cancelled of a plan.

    :ivar partitions: those that were being moved.
    :ivar is_lifted: whether the throttle was lifted.
    """

    partitions: Sequence[TopicPartition]
    is_lifted: bool


async def cancel(admin: AdminClient, target: Plan, *, lifts_throttle: bool = True) -> Cancelled:
    """
    Cancel the moves of a plan that are under way. Lifts the throttle, which is of whole brokers, unless other plans
    move partitions still.
    """
    under_way = await admin.list_reassignments()
    partitions = sorted(under_way.keys() & target.keys())
    raise_errors(await admin.alter_reassignments(dict.fromkeys(partitions)) if partitions else {})
    is_lifted = lifts_throttle and len(partitions) == len(under_way)
    if is_lifted:
        await _lift_throttle(admin, {name.topic for name in partitions})
    return Cancelled(partitions, is_lifted)


async def current_replicas(admin: AdminClient, topics: Iterable[str] | None) -> dict[TopicPartition, Replicas]:
    """Return the replicas of all partitions of these topics (None: of all topics)."""
    if topics is None:
        found = await admin.list_topics(internal=True)
    else:
        answers = await admin.describe_topics(dict.fromkeys(topics))
        for answer in answers.values():
            if isinstance(answer, ApiError):
                raise answer
        found = [each for each in answers.values() if not isinstance(each, ApiError)]
    return {
        TopicPartition(topic.name, number): partition.replicas
        for topic in found
        for number, partition in topic.partitions.items()
    }


async def _set_throttle(admin: AdminClient, current: Plan, target: Plan, rate: int) -> None:
    """
    Throttle the replicas that a plan moves.

    :param rate: bytes a second, for each broker, in each direction.
    """
    changes: dict[Resource, dict[str, str | None]] = {
        Resource(ResourceType.TOPIC, topic): dict(zip(REPLICAS, map(",".join, both), strict=True))
        for topic, both in throttled_replicas(current, target).items()
    }
    for node in (await admin.describe_cluster()).nodes:
        changes[Resource(ResourceType.BROKER, str(node.node_id))] = dict.fromkeys(RATES, str(rate))
    raise_errors(await admin.alter_configs(changes))


async def _lift_throttle(admin: AdminClient, topics: Collection[str]) -> None:
    """Remove the throttle from topics and all brokers."""
    resources = [Resource(ResourceType.TOPIC, topic) for topic in sorted(topics)]
    resources += [Resource(ResourceType.BROKER, str(node.node_id)) for node in (await admin.describe_cluster()).nodes]
    described = await admin.describe_configs(resources)
    changes: dict[Resource, dict[str, str | None]] = {}
    for resource, entries in described.items():
        names = RATES if resource.type is ResourceType.BROKER else REPLICAS
        own = (ConfigSource.TOPIC, ConfigSource.DYNAMIC_BROKER)
        if isinstance(entries, ApiError):
            continue
        found = [one.name for one in entries if one.name in names and one.source in own]
        if found:
            changes[resource] = dict.fromkeys(found)
    if changes:
        raise_errors(await admin.alter_configs(changes))
