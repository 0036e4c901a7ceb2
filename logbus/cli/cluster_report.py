"""The report of ``cluster describe``: brokers with their load, and numbers of faulty partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from attrs import asdict

from logbus.cli.output import print_table
from logbus.cli.partition_health import BrokerLoad, HealthFilter, broker_loads
from logbus.client.admin.admin_client import AdminClient
from logbus.wording import counted


async def cluster_report(admin: AdminClient) -> dict[str, Any]:
    """Return the report of a cluster, as JSON values."""
    found = await admin.describe_cluster()
    topics = await admin.list_topics(internal=True)
    features = await admin.features()
    alive = {each.node_id: each for each in found.nodes}
    health = HealthFilter(alive, await admin.min_insync_replicas(topic.name for topic in topics))
    load = broker_loads(topics)
    return {
        "cluster_id": found.cluster_id,
        "controller": found.controller_id if found.controller_id >= 0 else None,
        "features": dict(features),
        "brokers": [
            {
                "id": number,
                "host": alive[number].host if number in alive else None,
                "port": alive[number].port if number in alive else None,
                "rack": alive[number].rack if number in alive else None,
                **asdict(load.get(number, BrokerLoad())),
            }
            for number in sorted({*alive, *load})
        ],
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
        **health.counts(topics),
    }


def print_report(found: Mapping[str, Any]) -> None:
    """Print the report of a cluster."""
    click.echo(f"cluster {found['cluster_id']}")
    if found["features"]:
        levels = ", ".join(f"{name} {level}" for name, level in sorted(found["features"].items()))
        click.echo(f"features: {levels}")
    print_table(
        ["broker", "address", "rack", "role", "leads", "preferred", "replicas", "out of sync"],
        [
            [
                each["id"],
                f"{each['host']}:{each['port']}" if each["host"] else None,
                each["rack"],
                "controller" if each["id"] == found["controller"] else "",
                each["leaders"],
                each["preferred"],
                each["replicas"],
                each["out_of_sync"],
            ]
            for each in found["brokers"]
        ],
    )
    click.echo(
        f"{counted(found['partitions'], 'partition')} of {counted(found['topics'], 'topic')}: "
        f"{found['under_replicated']} under-replicated, "
        f"{found['under_min_isr']} under min.insync.replicas, {found['unavailable']} unavailable"
    )
