"""Sets and removes the throttle of a reassignment: rates of brokers, throttled replicas of topics (KIP-73)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logbus.cli.reassignment_plan import Plan
    from logbus.client.admin.admin_client import AdminClient

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


async def set_throttle(admin: AdminClient, current: Plan, target: Plan, rate: int) -> None:
    """
    Throttle the replicas that a plan moves.

    :param rate: bytes a second, for each broker, in each direction.
    """
    from logbus.cli.reassignment_plan import throttled_replicas
    from logbus.cli.runner import raise_errors
    from logbus.client.admin.admin_client import Resource, ResourceType

    changes: dict[Resource, dict[str, str | None]] = {
        Resource(ResourceType.TOPIC, topic): dict(zip(REPLICAS, map(",".join, both), strict=True))
        for topic, both in throttled_replicas(current, target).items()
    }
    for node in (await admin.describe_cluster()).nodes:
        changes[Resource(ResourceType.BROKER, str(node.node_id))] = dict.fromkeys(RATES, str(rate))
    raise_errors(await admin.alter_configs(changes))


async def lift_throttle(admin: AdminClient, topics: Collection[str]) -> None:
    """Remove the throttle from topics and all brokers."""
    from logbus.cli.runner import raise_errors
    from logbus.client.admin.admin_client import ConfigSource, Resource, ResourceType
    from logbus.errors import ApiError

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
