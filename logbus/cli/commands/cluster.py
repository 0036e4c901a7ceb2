"""The ``logbus cluster`` commands, and ``cluster describe``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from attrs import asdict

from logbus.cli.commands.cluster_elect_leaders import elect_leaders
from logbus.cli.commands.cluster_reassign import reassign
from logbus.cli.commands.cluster_shutdown_broker import shutdown_broker
from logbus.cli.commands.cluster_start import start
from logbus.cli.options import bootstrap_options, json_option
from logbus.cli.output import print_json, print_table

if TYPE_CHECKING:
    from logbus.client.cluster.cluster import Cluster


@click.group()
def cluster() -> None:
    """Show the cluster, elect leaders, move replicas, run a cluster on this machine.

    \b
    Example:
      logbus cluster start --brokers 3
      logbus cluster describe
    """


for command in (start, elect_leaders, reassign, shutdown_broker):
    cluster.add_command(command)


@cluster.command()
@json_option
@bootstrap_options
def describe(as_json: bool, bootstrap: str, timeout: float) -> None:
    """Show the cluster's id, controller and brokers, the partitions that each broker leads and holds, and how many
    partitions lack replicas or a leader.

    A broker that has replicas but is not running is shown without an address.

    \b
    Example:
      logbus cluster describe --json
    """
    from logbus.cli.partition_health import BrokerLoad, HealthFilter, broker_loads
    from logbus.cli.runner import with_cluster
    from logbus.client.admin.admin_client import AdminClient

    async def work(cluster: Cluster) -> dict[str, Any]:
        admin = AdminClient(cluster, timeout=timeout)
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

    found = with_cluster(bootstrap, timeout, work)
    if as_json:
        print_json(found)
        return
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
        f"{found['partitions']} partitions of {found['topics']} topics: {found['under_replicated']} under-replicated, "
        f"{found['under_min_isr']} under min.insync.replicas, {found['unavailable']} unavailable"
    )
