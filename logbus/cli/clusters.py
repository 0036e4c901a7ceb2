"""``logbus cluster``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logbus.cli.options import bootstrap_options, json_option
from logbus.cli.output import print_json, print_table
from logbus.cli.starting import start

if TYPE_CHECKING:
    from logbus.client.admin import ClusterDescription
    from logbus.client.cluster import Cluster


@click.group()
def cluster() -> None:
    """Show the brokers.

    \b
    Example:
      logbus cluster describe
    """


cluster.add_command(start)


@cluster.command()
@json_option
@bootstrap_options
def describe(as_json: bool, bootstrap: str, timeout: float) -> None:
    """Show the cluster's id, its controller and its brokers.

    \b
    Example:
      logbus cluster describe --json
    """
    from logbus.cli.running import with_cluster
    from logbus.client.admin import AdminClient

    async def work(cluster: Cluster) -> ClusterDescription:
        return await AdminClient(cluster, timeout=timeout).describe_cluster()

    found = with_cluster(bootstrap, timeout, work)
    if as_json:
        print_json(
            {
                "cluster_id": found.cluster_id,
                "controller": found.controller_id if found.controller_id >= 0 else None,
                "brokers": [
                    {"id": each.node_id, "host": each.host, "port": each.port, "rack": each.rack}
                    for each in found.nodes
                ],
            }
        )
        return
    click.echo(f"cluster {found.cluster_id}")
    print_table(
        ["broker", "address", "rack", "role"],
        [
            [each.node_id, str(each), each.rack, "controller" if each.node_id == found.controller_id else ""]
            for each in found.nodes
        ],
    )
