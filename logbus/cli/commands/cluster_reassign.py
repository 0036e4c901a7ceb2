"""The ``logbus cluster reassign`` command (Kafka: ReassignPartitionsCommand)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from logbus.cli.number_types import IntRange
from logbus.cli.options import bootstrap_options, json_option
from logbus.cli.output import print_json, print_table
from logbus.model import TopicPartition
from logbus.wording import counted

plan_file = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.command()
@click.option("--generate", is_flag=True, help="Print a plan that spreads replicas evenly.")
@click.option("--topics", help="With --generate: the topics, separated by commas. Default: all.")
@click.option("--to", "brokers", help="With --generate: the brokers to use, such as 1,2,3. Default: all live ones.")
@click.option("--execute", type=plan_file, metavar="FILE", help="Execute a plan; -: from standard input.")
@click.option("--throttle", type=IntRange(min=1), help="With --execute: most bytes a second for each broker.")
@click.option(
    "--rollback", type=click.Path(path_type=Path), help="With --execute: write the current assignment to a new file."
)
@click.option(
    "--verify",
    type=plan_file,
    metavar="FILE",
    help="Show the progress of a plan; removes the throttle when no partition is being moved any more.",
)
@click.option("--cancel", type=plan_file, metavar="FILE", help="Cancel a plan: return to the assignment before.")
@click.option("--list", "listed", is_flag=True, help="List ongoing reassignments.")
@json_option
@bootstrap_options
def reassign(
    generate: bool,
    topics: str | None,
    brokers: str | None,
    execute: Path | None,
    throttle: int | None,
    rollback: Path | None,
    verify: Path | None,
    cancel: Path | None,
    listed: bool,
    as_json: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Move replicas to other brokers, by a plan in Kafka's JSON. Partitions stay available meanwhile.

    \b
    Example:
      logbus cluster reassign --generate --to 1,2,3 > plan.json
      logbus cluster reassign --execute plan.json --throttle 50000000
      logbus cluster reassign --verify plan.json
    """
    from logbus.cli import reassignment
    from logbus.cli.reassignment_plan import write_plan
    from logbus.cli.runner import CommandFailed, with_admin

    if sum([generate, listed, *(each is not None for each in (execute, verify, cancel))]) != 1:
        raise click.UsageError("give one of --generate, --execute, --verify, --cancel and --list")
    if (topics or brokers) and not generate:
        raise click.UsageError("--topics and --to go with --generate")
    if (throttle or rollback) and execute is None:
        raise click.UsageError("--throttle and --rollback go with --execute")
    if generate:
        wanted = None if brokers is None else _broker_ids(brokers)
        names = None if topics is None else topics.split(",")
        plan = with_admin(bootstrap, timeout, lambda admin: reassignment.generate(admin, names, wanted))
        click.echo(write_plan(plan), nl=False)
    elif listed:
        _print_reassignments(with_admin(bootstrap, timeout, lambda admin: admin.list_reassignments()), as_json)
    elif execute is not None:
        if rollback is not None and rollback.exists():
            raise CommandFailed(f"{rollback} exists already; choose another name")
        target = reassignment.read_file(execute)
        moving = with_admin(bootstrap, timeout, lambda admin: reassignment.execute(admin, target, throttle, rollback))
        follow = "--list" if str(execute) == "-" else f"--verify {execute}"
        click.echo(f"moving {counted(moving, 'partition')}; see how far: logbus cluster reassign {follow}")
    elif verify is not None:
        target = reassignment.read_file(verify)
        verified = with_admin(bootstrap, timeout, lambda admin: reassignment.verify(admin, target))
        _print_states(verified.states, as_json)
    elif cancel is not None:
        target = reassignment.read_file(cancel)
        cancelled = with_admin(bootstrap, timeout, lambda admin: reassignment.cancel(admin, target))
        click.echo(f"cancelled {counted(len(cancelled.partitions), 'reassignment')}")


def _print_reassignments(found: Mapping[TopicPartition, Any], as_json: bool) -> None:
    rows = [
        {**_partition_json(name), "replicas": each.replicas, "adding": each.adding, "removing": each.removing}
        for name, each in sorted(found.items())
    ]
    if as_json:
        print_json(rows)
        return
    head = ["topic", "partition", "replicas", "adding", "removing"]
    lists = ("replicas", "adding", "removing")
    print_table(
        head, [[row["topic"], row["partition"], *(",".join(map(str, row[key])) for key in lists)] for row in rows]
    )


def _print_states(states: Mapping[TopicPartition, str], as_json: bool) -> None:
    from logbus.cli.runner import CommandFailed

    if as_json:
        print_json([{**_partition_json(name), "state": state} for name, state in sorted(states.items())])
    else:
        print_table(
            ["topic", "partition", "state"],
            [[name.topic, name.partition, state] for name, state in sorted(states.items())],
        )
    if "differs" in states.values():
        raise CommandFailed("some partitions are neither as planned nor on their way: cancelled, or planned anew")
    moving = sum(state == "under way" for state in states.values())
    if moving:
        raise CommandFailed(f"not done yet: {moving} of {len(states)} partitions are being moved")


def _broker_ids(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not broker ids such as 1,2,3", param_hint="--to") from None
    return list(dict.fromkeys(found))


def _partition_json(name: TopicPartition) -> dict[str, Any]:
    return {"topic": name.topic, "partition": name.partition}
