"""The ``logbus cluster`` commands, and ``cluster describe``."""

from __future__ import annotations

import click

from logbus.cli.commands.cluster_elect_leaders import elect_leaders
from logbus.cli.commands.cluster_reassign import reassign
from logbus.cli.commands.cluster_rebalance import rebalance
from logbus.cli.commands.cluster_rolling_restart import rolling_restart
from logbus.cli.commands.cluster_shutdown_broker import shutdown_broker
from logbus.cli.commands.cluster_start import start
from logbus.cli.options import bootstrap_options, json_option
from logbus.cli.output import print_json


@click.group()
def cluster() -> None:
    """Show the cluster, elect leaders, move replicas, run a cluster on this machine.

    \b
    Example:
      logbus cluster start --brokers 3
      logbus cluster describe
    """


for command in (start, elect_leaders, reassign, rebalance, shutdown_broker, rolling_restart):
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
    from logbus.cli.cluster_report import cluster_report, print_report
    from logbus.cli.runner import with_admin

    found = with_admin(bootstrap, timeout, cluster_report)
    if as_json:
        print_json(found)
    else:
        print_report(found)
