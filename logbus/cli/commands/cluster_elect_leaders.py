"""The ``logbus cluster elect-leaders`` command (Kafka: LeaderElectionCommand)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from logbus.cli.options import bootstrap_options, json_option
from logbus.cli.output import print_json

if TYPE_CHECKING:
    from logbus.client.admin.admin_client import AdminClient
    from logbus.client.cluster.cluster import Cluster
    from logbus.model import TopicPartition


@click.command("elect-leaders")
@click.argument("names", nargs=-1, metavar="[TOPIC | TOPIC-PARTITION]...")
@click.option("--all", "everything", is_flag=True, help="Elect leaders of all partitions.")
@click.option(
    "--unclean", is_flag=True, help="Elect any live replica of a partition without a leader: records it lacks are LOST."
)
@json_option
@bootstrap_options
def elect_leaders(
    names: tuple[str, ...], everything: bool, unclean: bool, as_json: bool, bootstrap: str, timeout: float
) -> None:
    """Elect the preferred leader of partitions: the first replica, if it is in sync.

    With --unclean, a partition without a leader gets one that may lack acknowledged records.

    \b
    Example:
      logbus cluster elect-leaders --all
      logbus cluster elect-leaders orders payments-3
      logbus cluster elect-leaders orders-0 --unclean
    """
    from logbus.cli.runner import CommandFailed, with_cluster
    from logbus.client.admin.admin_client import AdminClient

    if everything == bool(names):
        raise click.UsageError("name topics or partitions, or give --all")
    if everything and unclean:
        raise click.UsageError("--unclean loses records: name the partitions")

    async def work(cluster: Cluster) -> Mapping[TopicPartition, Any]:
        admin = AdminClient(cluster, timeout=timeout)
        wanted = None if everything else await partitions_named(admin, names)
        return await admin.elect_leaders(wanted, unclean=unclean)

    answers = with_cluster(bootstrap, timeout, work)
    if as_json:
        print_json(
            [
                {"topic": name.topic, "partition": name.partition, "error": error and error.message}
                for name, error in sorted(answers.items())
            ]
        )
    else:
        elected = sorted(name for name, error in answers.items() if error is None)
        for name in elected:
            click.echo(f"{name.topic}-{name.partition} has another leader")
        if not answers:
            click.echo("there was nothing to do: the leaders are the right ones already")
    errors = [f"{name.topic}-{name.partition}: {error.message}" for name, error in sorted(answers.items()) if error]
    if errors:
        raise CommandFailed("; ".join(errors))


async def partitions_named(admin: AdminClient, names: tuple[str, ...]) -> list[TopicPartition]:
    """Return the named partitions, and all partitions of named topics; a topic's name may look like a partition's."""
    from logbus.cli.reassignment_plan import InvalidPlan, partitions_of

    topics = {topic.name: topic for topic in await admin.list_topics(internal=True)}
    found: list[TopicPartition] = []
    for name in names:
        if name in topics:
            found += partitions_of([f"{name}-{number}" for number in topics[name].partitions])
            continue
        try:
            (one,) = partitions_of([name])
        except InvalidPlan:
            raise InvalidPlan(f"there is no topic {name!r}") from None
        if one.topic not in topics or one.partition not in topics[one.topic].partitions:
            raise InvalidPlan(f"there is neither a topic nor a partition {name!r}")
        found.append(one)
    return found
