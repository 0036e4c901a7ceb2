"""The ``logbus topics`` commands (Kafka: TopicCommand)."""

from __future__ import annotations

import click

from logbus.cli.commands.topics_files import export_topic, import_topic
from logbus.cli.number_types import IntRange
from logbus.cli.options import bootstrap_options, json_option, parse_pairs
from logbus.cli.output import print_json, print_table


@click.group()
def topics() -> None:
    """Create, list, describe and delete topics, and add partitions.

    \b
    Example:
      logbus topics create orders --partitions 12 --config retention.ms=86400000
      logbus topics list
    """


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option("--partitions", "-p", type=IntRange(min=1), help="Default: the broker's num.partitions.")
@click.option("--replication-factor", "-r", type=IntRange(min=1), help="Default: the broker's.")
@click.option(
    "--replica-assignment",
    "-a",
    metavar="0:1,1:2,…",
    help="The brokers of each partition, the preferred leader first; instead of the two numbers.",
)
@click.option("--config", "-c", "configs", multiple=True, metavar="NAME=VALUE", help="A setting; may be repeated.")
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic exists.")
@click.option("--validate-only", is_flag=True, help="Only check whether the topics can be created.")
@bootstrap_options
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Create topics.

    \b
    Example:
      logbus topics create orders --partitions 12 --config cleanup.policy=compact
      logbus topics create orders --partitions 12 --replication-factor 3
      logbus topics create orders --replica-assignment 0:1,1:2,2:0
    """
    from logbus.cli.runner import raise_errors, with_admin, without_error
    from logbus.client.admin.admin_client import NewTopic
    from logbus.errors import ErrorCode

    settings = parse_pairs(configs, "--config")
    assignment = None
    if replica_assignment is not None:
        if partitions is not None or replication_factor is not None:
            raise click.UsageError("--replica-assignment says how many partitions and replicas there are")
        assignment = replicas_of(replica_assignment)

    new = [
        NewTopic(name, partitions or -1, replication_factor or -1, settings, assignment)
        for name in dict.fromkeys(names)
    ]
    answers = with_admin(bootstrap, timeout, lambda admin: admin.create_topics(new, validate_only=validate_only))
    for name, error in answers.items():
        if error is None:
            click.echo(f"Topic {name} can be created." if validate_only else f"Created topic {name}.")
        elif if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            click.echo(f"Topic {name} exists already.")
    raise_errors(without_error(answers, ErrorCode.TOPIC_ALREADY_EXISTS) if if_not_exists else answers)


@topics.command("list")
@click.option("--internal", is_flag=True, help="Include internal topics.")
@json_option
@bootstrap_options
def list_topics(internal: bool, as_json: bool, bootstrap: str, timeout: float) -> None:
    """Print the names of all topics.

    \b
    Example:
      logbus topics list --json
    """
    from logbus.cli.runner import with_admin

    found = with_admin(bootstrap, timeout, lambda admin: admin.list_topics(internal=internal))
    if as_json:
        print_json(
            [{"name": each.name, "partitions": len(each.partitions), "internal": each.internal} for each in found]
        )
    else:
        for each in found:
            click.echo(each.name)
        if not found:
            # Brokers leave out what the user may not describe.
            click.echo("there are no topics, or none that you may describe", err=True)


@topics.command()
@click.argument("names", nargs=-1, metavar="[TOPIC]...")
@click.option("--under-replicated", is_flag=True, help="Only partitions with replicas that are not in sync.")
@click.option("--unavailable", is_flag=True, help="Only partitions without a live leader.")
@click.option("--under-min-isr", is_flag=True, help="Only partitions with fewer in sync than min.insync.replicas.")
@json_option
@bootstrap_options
def describe(
    names: tuple[str, ...],
    under_replicated: bool,
    unavailable: bool,
    under_min_isr: bool,
    as_json: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Show the partitions of topics (of all, if none is named): leader, replicas, first and last offsets.

    Several filters show partitions that match any of them, including those of internal topics.

    \b
    Example:
      logbus topics describe orders
      logbus topics describe --under-replicated --unavailable
    """
    from logbus.cli.runner import with_admin
    from logbus.cli.topic_report import HEAD, rows, topic_reports

    wanted = {"under_replicated": under_replicated, "unavailable": unavailable, "under_min_isr": under_min_isr}
    faults = [name for name, given in wanted.items() if given]
    described = with_admin(bootstrap, timeout, lambda admin: topic_reports(admin, names, faults))
    if as_json:
        print_json(described)
    else:
        print_table(HEAD, rows(described))


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option("--if-exists", is_flag=True, help="Succeed if the topic does not exist.")
@bootstrap_options
def delete(names: tuple[str, ...], if_exists: bool, bootstrap: str, timeout: float) -> None:
    """Delete topics and all their records.

    \b
    Example:
      logbus topics delete orders
    """
    from logbus.cli.runner import raise_errors, with_admin, without_error
    from logbus.errors import ErrorCode

    answers = with_admin(bootstrap, timeout, lambda admin: admin.delete_topics(dict.fromkeys(names)))
    raise_errors(without_error(answers, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) if if_exists else answers)


@topics.command("add-partitions")
@click.argument("name", metavar="TOPIC")
@click.option("--total", "-t", type=IntRange(min=1), required=True, help="The total number of partitions.")
@click.option("--replica-assignment", "-a", metavar="0:1,1:2,…", help="The brokers of each new partition.")
@bootstrap_options
def add_partitions(name: str, total: int, replica_assignment: str | None, bootstrap: str, timeout: float) -> None:
    """Add partitions to a topic. Existing records do not move; keys may map to other partitions afterwards.

    \b
    Example:
      logbus topics add-partitions orders --total 24
    """
    from logbus.cli.runner import raise_errors, with_admin

    assignments = {} if replica_assignment is None else {name: replicas_of(replica_assignment)}
    raise_errors(
        with_admin(bootstrap, timeout, lambda admin: admin.create_partitions({name: total}, assignments=assignments))
    )


def replicas_of(text: str) -> list[list[int]]:
    """
    Parse ``0:1,1:2`` into the broker ids of each partition's replicas.

    :raises click.BadParameter: it does not have this form.
    """
    try:
        found = [[int(number) for number in one.split(":")] for one in text.split(",")]
    except ValueError:
        found = []
    if not found or any(number < 0 for one in found for number in one):
        raise click.BadParameter(
            f"{text!r} is not broker ids such as 0:1,1:2 (two partitions of two replicas each)",
            param_hint="--replica-assignment",
        )
    return found


for _command in (export_topic, import_topic):
    topics.add_command(_command)
