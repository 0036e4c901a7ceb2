"""The ``logbus cluster elect-leaders`` command (Kafka: LeaderElectionCommand)."""

from __future__ import annotations

import click

from logbus.cli.options import bootstrap_options, json_option
from logbus.cli.output import print_json


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
    from logbus.cli.leader_election import elect
    from logbus.cli.runner import CommandFailed, with_admin

    if everything == bool(names):
        raise click.UsageError("name topics or partitions, or give --all")
    if everything and unclean:
        raise click.UsageError("--unclean loses records: name the partitions")

    answers = with_admin(bootstrap, timeout, lambda admin: elect(admin, names, unclean=unclean))
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
