"""The ``logbus cluster rolling-restart`` command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logbus.cli.number_types import FloatRange, IntRange
from logbus.cli.options import bootstrap_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logbus.cli.rolling_restart import RollingRestart
    from logbus.cli.rolling_restart_plan import Machine
    from logbus.client.cluster.cluster import Cluster


@click.command("rolling-restart")
@click.argument("command")
@click.option("--broker", type=IntRange(min=0), multiple=True, help="Only this one. May be repeated.")
@click.option(
    "--limit",
    type=FloatRange(min=1),
    default=600.0,
    show_default=True,
    help="Seconds until a broker must be in sync again.",
)
@click.option(
    "--settle",
    type=FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="Seconds for which all must have been in sync before the next one.",
)
@click.option("--force", is_flag=True, help="Even if partitions refuse acks=all, or have no leader, meanwhile.")
@click.option("--dry-run", is_flag=True, help="Print the commands, in order.")
@bootstrap_options
def rolling_restart(
    command: str,
    broker: tuple[int, ...],
    limit: float,
    settle: float,
    force: bool,
    dry_run: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Restart the brokers of a cluster one after the other. COMMAND restarts one: a line for the shell, in which {host}
    is the broker's advertised host, and {broker} its id (also LOGBUS_HOST and LOGBUS_BROKER in its environment).

    The next broker is restarted when the last one has been away and no partition is under-replicated. The controller is
    the last; workers are restarted together. Nothing is restarted if something is not in sync at the beginning, or if
    partitions would refuse acks=all meanwhile, and nothing more if a command fails or a broker does not come back.

    \b
    Example:
      logbus cluster rolling-restart 'ssh {host} sudo systemctl restart logbus'
      logbus cluster rolling-restart 'kubectl delete pod logbus-{broker}'
    """
    from logbus.cli.rolling_restart import RollingRestart, run_in_shell, shell_command
    from logbus.cli.runner import with_cluster
    from logbus.client.admin.admin_client import AdminClient

    def work(cluster: Cluster) -> RollingRestart:
        return RollingRestart(
            AdminClient(cluster, timeout=timeout),
            cluster.reactor,
            lambda machine: run_in_shell(cluster.reactor, command, machine),
            limit,
            settle,
            force,
            click.echo,
        )

    if dry_run:

        async def planned(cluster: Cluster) -> Sequence[Machine]:
            return await work(cluster).plan(broker)

        for machine in with_cluster(bootstrap, timeout, planned):
            click.echo(f"{machine}: {shell_command(command, machine)}")
        return

    async def carried_out(cluster: Cluster) -> int:
        return await work(cluster).carry_out(broker)

    click.echo(f"{with_cluster(bootstrap, timeout, carried_out)} brokers have been restarted")
