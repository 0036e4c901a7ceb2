"""The ``logbus cluster reassign`` command (Kafka: ReassignPartitionsCommand)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logbus.cli.options import bootstrap_options, json_option
from logbus.cli.output import print_json, print_table

if TYPE_CHECKING:
    from logbus.cli.reassignment_plan import Plan
    from logbus.client.admin.admin_client import AdminClient
    from logbus.model import TopicPartition

plan_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--generate", is_flag=True, help="Print a plan that spreads replicas evenly.")
@click.option("--topics", help="With --generate: the topics, separated by commas. Default: all.")
@click.option("--to", "brokers", help="With --generate: the brokers to use, such as 1,2,3. Default: all live ones.")
@click.option("--execute", type=plan_file, metavar="FILE", help="Execute a plan.")
@click.option("--throttle", type=click.IntRange(min=1), help="With --execute: most bytes a second for each broker.")
@click.option(
    "--rollback", type=click.Path(path_type=Path), help="With --execute: write the current assignment to a new file."
)
@click.option(
    "--verify",
    type=plan_file,
    metavar="FILE",
    help="Show the progress of a plan; removes the throttle when it is complete.",
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
    if sum([generate, listed, *(each is not None for each in (execute, verify, cancel))]) != 1:
        raise click.UsageError("give one of --generate, --execute, --verify, --cancel and --list")
    if (topics or brokers) and not generate:
        raise click.UsageError("--topics and --to go with --generate")
    if (throttle or rollback) and execute is None:
        raise click.UsageError("--throttle and --rollback go with --execute")

    def ask(work: Callable[[AdminClient], Any]) -> Any:
        from logbus.cli.runner import with_cluster
        from logbus.client.admin.admin_client import AdminClient

        return with_cluster(bootstrap, timeout, lambda cluster: work(AdminClient(cluster, timeout=timeout)))

    if generate:
        _generate(ask, topics, brokers)
    elif listed:
        _list(ask, as_json)
    elif execute is not None:
        _execute(ask, execute, throttle, rollback)
    elif verify is not None:
        _verify(ask, verify, as_json)
    elif cancel is not None:
        _cancel(ask, cancel)


Ask = Callable[[Callable[["AdminClient"], Any]], Any]


def _generate(ask: Ask, topics: str | None, brokers: str | None) -> None:
    from logbus.cli.reassignment_plan import InvalidPlan, spread_evenly, write_plan

    wanted = None if brokers is None else _broker_ids(brokers)

    async def work(admin: AdminClient) -> Plan:
        racks = {node.node_id: node.rack for node in (await admin.describe_cluster()).nodes}
        missing = sorted(set(wanted or ()) - set(racks))
        if missing:
            raise InvalidPlan(f"brokers {missing} are not there; there are: {sorted(racks)}")
        used = racks if wanted is None else {broker: racks[broker] for broker in wanted}
        return spread_evenly(await _current(admin, None if topics is None else topics.split(",")), used)

    click.echo(write_plan(ask(work)), nl=False)


def _list(ask: Ask, as_json: bool) -> None:
    found = ask(_under_way)
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


async def _under_way(admin: AdminClient) -> Any:
    return await admin.list_reassignments()


def _execute(ask: Ask, file: Path, throttle: int | None, rollback: Path | None) -> None:
    from logbus.cli.reassignment_plan import changed_replicas, write_plan
    from logbus.cli.reassignment_throttle import set_throttle
    from logbus.cli.runner import CommandFailed, raise_errors

    if rollback is not None and rollback.exists():
        raise CommandFailed(f"{rollback} exists already; choose another name")
    target = _read(file)

    def keep(current: Plan) -> None:
        if rollback is not None:
            rollback.write_text(write_plan({name: current[name] for name in target}), encoding="utf-8")

    async def work(admin: AdminClient) -> int:
        current = await _current(admin, {name.topic for name in target})
        missing = [name for name in target if name not in current]
        if missing:
            raise CommandFailed(f"there is no partition {missing[0]}")
        keep(current)
        if throttle is not None:
            await set_throttle(admin, current, target, throttle)
        wanted = changed_replicas(current, target)
        raise_errors(await admin.alter_reassignments(wanted) if wanted else {})
        return len(wanted)

    moving = ask(work)
    click.echo(f"{moving} partitions are being moved; see how far: logbus cluster reassign --verify {file}")


def _verify(ask: Ask, file: Path, as_json: bool) -> None:
    from logbus.cli.reassignment_throttle import lift_throttle
    from logbus.cli.runner import CommandFailed

    target = _read(file)

    async def work(admin: AdminClient) -> dict[TopicPartition, str]:
        under_way = await admin.list_reassignments(target)
        current = await _current(admin, {name.topic for name in target})
        states = {
            name: "under way" if name in under_way else "done" if current.get(name) == replicas else "differs"
            for name, replicas in target.items()
        }
        if not under_way:
            await lift_throttle(admin, {name.topic for name in target if name in current})
        return states

    states = ask(work)
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


def _cancel(ask: Ask, file: Path) -> None:
    from logbus.cli.reassignment_throttle import lift_throttle
    from logbus.cli.runner import raise_errors

    target = _read(file)

    async def work(admin: AdminClient) -> int:
        under_way = await admin.list_reassignments(target)
        raise_errors(await admin.alter_reassignments(dict.fromkeys(under_way)) if under_way else {})
        await lift_throttle(admin, {name.topic for name in under_way})
        return len(under_way)

    click.echo(f"{ask(work)} reassignments were cancelled")


async def _current(admin: AdminClient, topics: Any) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of all partitions of these topics (None: of all topics)."""
    from logbus.errors import ApiError
    from logbus.model import TopicPartition

    if topics is None:
        found = await admin.list_topics(internal=True)
    else:
        answers = await admin.describe_topics(dict.fromkeys(topics))
        for answer in answers.values():
            if isinstance(answer, ApiError):
                raise answer
        found = [each for each in answers.values() if not isinstance(each, ApiError)]
    return {
        TopicPartition(topic.name, number): partition.replicas
        for topic in found
        for number, partition in topic.partitions.items()
    }


def _read(file: Path) -> Plan:
    from logbus.cli.reassignment_plan import InvalidPlan, read_plan
    from logbus.cli.runner import CommandFailed

    try:
        return read_plan(file.read_text(encoding="utf-8"))
    except InvalidPlan as e:
        raise CommandFailed(f"{file}: {e}") from None
    except UnicodeDecodeError as e:
        raise CommandFailed(f"{file}: it is not JSON ({e})") from None


def _broker_ids(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not broker ids such as 1,2,3", param_hint="--to") from None
    return list(dict.fromkeys(found))


def _partition_json(name: TopicPartition) -> dict[str, Any]:
    return {"topic": name.topic, "partition": name.partition}
