"""The ``logbus cluster rebalance`` command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logbus.cli.number_types import IntRange
from logbus.cli.options import bootstrap_options, json_option
from logbus.cli.output import Progress, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logbus.cli.rebalance_plan import Move


@click.command()
@click.option(
    "--workers",
    type=IntRange(min=1),
    metavar="N",
    help="Only the first N workers of a machine keep partitions; the others are emptied. Default: all.",
)
@click.option("--topics", help="Only these topics, separated by commas.")
@click.option("--dry-run", is_flag=True, help="Show what would move.")
@json_option
@bootstrap_options
def rebalance(
    workers: int | None, topics: str | None, dry_run: bool, as_json: bool, bootstrap: str, timeout: float
) -> None:
    """Spread partitions evenly over the workers of each machine (twistd logbus --workers). Records are not copied, and
    partitions stay available meanwhile.

    With --workers, workers are emptied, so that fewer can be started. Interrupted, the command can be run again.

    \b
    Example:
      logbus cluster rebalance --dry-run
      logbus cluster rebalance
      logbus cluster rebalance --workers 2
    """
    from logbus.cli.rebalance import Rebalance
    from logbus.cli.runner import with_cluster
    from logbus.client.admin.admin_client import AdminClient
    from logbus.client.cluster.cluster import Cluster

    if workers is not None and topics is not None:
        raise click.UsageError("--workers empties workers of all topics; leave --topics out")
    names = None if topics is None else topics.split(",")
    progress = Progress()

    def work(cluster: Cluster) -> Rebalance:
        return Rebalance(
            AdminClient(cluster, timeout=timeout),
            cluster.reactor,
            workers,
            names,
            lambda moved, total: progress.show(f"{moved} of {total} partitions have moved"),
        )

    if dry_run:

        async def planned(cluster: Cluster) -> Sequence[Move]:
            return await work(cluster).plan()

        _print_plan(with_cluster(bootstrap, timeout, planned), as_json)
        return

    async def carried_out(cluster: Cluster) -> int:
        return await work(cluster).carry_out()

    try:
        moved = with_cluster(bootstrap, timeout, carried_out)
    finally:
        progress.clear()
    if as_json:
        print_json({"moved": moved})
    else:
        click.echo(f"{moved} partitions have moved" if moved else "all is even: no partition has moved")


def _print_plan(moves: Sequence[Move], as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "topic": move.partition.topic,
                    "partition": move.partition.partition,
                    "bytes": move.size,
                    "from": move.origin,
                    "to": move.target,
                }
                for move in moves
            ]
        )
        return
    rows = [[move.partition.topic, move.partition.partition, move.size, move.origin, move.target] for move in moves]
    print_table(["topic", "partition", "bytes", "from broker", "to broker"], rows)
