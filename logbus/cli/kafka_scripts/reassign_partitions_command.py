"""``kafka-reassign-partitions``: moves replicas by plans in JSON (Kafka: ReassignPartitionsCommand)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from logbus.cli.kafka_scripts.console import say
from logbus.cli.kafka_scripts.java_errors import broker_text
from logbus.cli.kafka_scripts.json_file import read_json
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import with_cluster
from logbus.cli.reassignment import cancel, current_replicas, execute, generate, verify
from logbus.cli.reassignment_plan import InvalidPlan, Plan, read_plan
from logbus.cli.runner import CommandFailed
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.replica_admin import Reassignment
from logbus.client.cluster.cluster import Cluster
from logbus.errors import ApiError, LogbusError
from logbus.model import TopicPartition

_ACTIONS = ("generate", "execute", "verify", "cancel", "list")
_DIRECTORIES = "logbus log-dirs move moves partitions between the directories of a broker"

LogDirs = Mapping[tuple[int, TopicPartition], str]

PARSER = OptionParser(
    "Moves replicas between brokers.",
    [
        Option("generate", help="Print a plan that spreads the partitions of topics over brokers."),
        Option("execute", help="Begin to move replicas by a plan."),
        Option("verify", help="Print how far the moves of a plan are; clear throttles when all are done."),
        Option("cancel", help="Cancel the moves of a plan."),
        Option("list", help="Print the moves that are under way."),
        Option("topics-to-move-json-file", "topics to reassign json file path", '{"topics": [{"topic": "t"}]}.'),
        Option("broker-list", "brokerlist", "With --generate: the brokers to use, separated by commas."),
        Option("reassignment-json-file", "manual assignment json file path", "The plan, as --generate prints it."),
        Option("throttle", "throttle", "With --execute: bytes a second of each broker, in each direction.", bits=64),
        Option("additional", help="With --execute: although others are under way."),
        Option("preserve-throttles", help="With --verify and --cancel: do not clear throttles."),
        Option("disable-rack-aware", refusal="plans spread replicas over racks if all brokers have one"),
        Option("disallow-replication-factor-change", help="With --execute: refuse a plan that changes it."),
        Option("timeout", "timeout", "Accepted, without an effect.", bits=64),
        Option("replica-alter-log-dirs-throttle", "throttle", bits=64, refusal=_DIRECTORIES),
        Option("bootstrap-controller", "controller", refusal="use --bootstrap-server: a broker is the controller"),
    ],
)


@frozen
class _Request:
    """An action with its options."""

    action: str
    options: ParsedOptions
    plan: Plan
    log_dirs: LogDirs
    topics: Sequence[str]
    brokers: Sequence[int]

    async def __call__(self, cluster: Cluster, admin: AdminClient) -> None:
        lifts = not self.options.has("preserve-throttles")
        match self.action:
            case "generate":
                await _generate(admin, self.topics, self.brokers)
            case "execute":
                await _execute(admin, self.plan, self.log_dirs, self.options)
            case "verify":
                await _verify(admin, self.plan, lifts=lifts)
            case "cancel":
                await _cancel(admin, self.plan, lifts=lifts)
            case _:
                say("\n".join(list_lines(await admin.list_reassignments())))


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    actions = ", ".join(f"--{name}" for name in _ACTIONS)
    action = options.only_one(_ACTIONS, f"Command must include exactly one action: {actions}")
    options.require("bootstrap-server")
    plan: Plan = {}
    log_dirs: LogDirs = {}
    topics: list[str] = []
    brokers: list[int] = []
    if action == "generate":
        options.require("topics-to-move-json-file", "broker-list")
        topics = topics_to_move(options.text("topics-to-move-json-file"))
        brokers = broker_list(options.text("broker-list"))
    elif action != "list":
        options.require("reassignment-json-file")
        plan, log_dirs = plan_of(options.text("reassignment-json-file"))
    for name in ("throttle", "additional", "disallow-replication-factor-change"):
        options.forbid(name, [each for each in _ACTIONS if each != "execute"])
    try:
        with_cluster(options, _Request(action, options, plan, log_dirs, topics, brokers))
    except LogbusError as e:
        say(f"Error: {broker_text(e) if isinstance(e, ApiError) else e}")
        return 1
    return 0


def topics_to_move(path: str) -> list[str]:
    """
    The topics in a file.

    :raise UsageError: it is not ``{"topics": [{"topic": …}]}``.
    """
    value = read_json(path)
    entries = value.get("topics") if isinstance(value, dict) else None
    topics = [each.get("topic") for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []
    names = [each for each in topics if isinstance(each, str)]
    if not topics or len(names) < len(topics):
        raise UsageError(f'{path}: it is not {{"version": 1, "topics": [{{"topic": "t"}}]}}')
    return list(dict.fromkeys(names))


def broker_list(text: str) -> list[int]:
    """
    Brokers' ids, separated by commas.

    :raise UsageError: one is not an id, or is there twice.
    """
    words = [each.strip() for each in text.split(",")]
    if not all(each.isascii() and each.isdigit() for each in words):
        raise UsageError(f"--broker-list is {text!r}; it has to be brokers' ids, such as 0,1,2")
    if len(set(words)) < len(words):
        raise UsageError(f"Broker list contains duplicate entries: {text}")
    return list(map(int, words))


def plan_of(path: str) -> tuple[Plan, LogDirs]:
    """
    The plan in a file, and the directories in it that are not ``any``.

    :raise UsageError: it is none.
    """
    value = read_json(path)
    log_dirs: dict[tuple[int, TopicPartition], str] = {}
    entries = value.get("partitions") if isinstance(value, dict) else None
    named: dict[tuple[str, str], Any] = {}
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("log_dirs") is not None:
            named[str(entry.get("topic")), str(entry.get("partition"))] = entry.pop("log_dirs")
    try:
        plan = read_plan(json.dumps(value))
    except InvalidPlan as e:
        raise UsageError(f"{path}: {e}") from None
    for (topic, number), directories in named.items():
        name = TopicPartition(topic, int(number))
        if not isinstance(directories, list) or len(directories) != len(plan[name]):
            raise UsageError(f'{path}: {name}: "log_dirs" is not a list of a directory for each replica')
        for broker, directory in zip(plan[name], directories, strict=True):
            if directory != "any":
                log_dirs[broker, name] = str(directory)
    return plan, log_dirs


def elsewhere(wanted: LogDirs, held: LogDirs) -> str | None:
    """
    Why the directories in a plan cannot be had: a replica is in another one of its broker; None: none is.

    :param held: where replicas are; a replica that its broker does not have yet gets a directory that the broker
        chooses.
    """
    for (broker, name), directory in sorted(wanted.items()):
        if held.get((broker, name), directory) != directory:
            return f"{name} is in {held[broker, name]} of broker {broker}, not in {directory}; {_DIRECTORIES}"
    return None


def plan_json(plan: Plan, log_dirs: LogDirs) -> str:
    """
    A plan as Kafka's command prints it.

    :param log_dirs: the directories of replicas, by broker; ``any`` where one is not there.
    """
    partitions = [
        {
            "topic": name.topic,
            "partition": name.partition,
            "replicas": list(replicas),
            "log_dirs": [log_dirs.get((broker, name), "any") for broker in replicas],
        }
        for name, replicas in sorted(plan.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"), ensure_ascii=False)


def list_lines(moving: Mapping[TopicPartition, Reassignment]) -> list[str]:
    """The lines of ``--list``."""
    if not moving:
        return ["No partition reassignments found."]
    lines = ["Current partition reassignments:"]
    for name, each in sorted(moving.items(), key=lambda one: one[0]):
        line = f"{name}: replicas: {_joined(each.replicas)}."
        if each.adding:
            line += f" adding: {_joined(each.adding)}."
        if each.removing:
            line += f" removing: {_joined(each.removing)}."
        lines.append(line)
    return lines


def verify_lines(plan: Plan, states: Mapping[TopicPartition, str], current: Plan) -> list[str]:
    """
    The lines of ``--verify``.

    :param states: as :func:`logbus.cli.reassignment.verify` returns them.
    """
    lines = ["Status of partition reassignment:"]
    for name, replicas in sorted(plan.items()):
        if states[name] == "under way":
            lines.append(f"Reassignment of partition {name} is still in progress.")
        elif states[name] == "done":
            lines.append(f"Reassignment of partition {name} is completed.")
        else:
            lines.append(
                f"There is no active reassignment of partition {name}, but replica set is "
                f"{_joined(current.get(name, ()))} rather than {_joined(replicas)}."
            )
    return [*lines, ""]


async def _generate(admin: AdminClient, topics: Sequence[str], brokers: Sequence[int]) -> None:
    proposed = await generate(admin, topics, brokers)
    current = await current_replicas(admin, topics)
    say(f"Current partition replica assignment\n{plan_json(current, await _log_dirs(admin, current))}\n")
    say(f"Proposed partition reassignment configuration\n{plan_json(proposed, {})}")


async def _execute(admin: AdminClient, plan: Plan, log_dirs: LogDirs, options: ParsedOptions) -> None:
    if not options.has("additional") and await admin.list_reassignments():
        raise CommandFailed(
            "Cannot execute because there is an existing partition assignment.  Use --additional to override this and "
            "create a new partition assignment in addition to the existing one. The --additional flag can also be used "
            "to change the throttle by resubmitting the current reassignment."
        )
    there = {node.node_id for node in (await admin.describe_cluster()).nodes}
    for broker in (broker for replicas in plan.values() for broker in replicas):
        if broker not in there:
            raise CommandFailed(f"Unknown broker id {broker}")
    every = await current_replicas(admin, {name.topic for name in plan})
    current = {name: every[name] for name in plan if name in every}
    if options.has("disallow-replication-factor-change"):
        changed = sorted(name for name in current if len(current[name]) != len(plan[name]))
        if changed:
            raise CommandFailed(f"Replication factor of {_joined(changed)} would change")
    held = await _log_dirs(admin, {**current, **plan})
    problem = elsewhere(log_dirs, held)
    if problem is not None:
        raise CommandFailed(problem)
    say(f"Current partition replica assignment\n\n{plan_json(current, held)}\n")
    say("Save this to use as the --reassignment-json-file option during rollback")
    throttle = options.integer("throttle")
    await execute(admin, plan, throttle, None)
    if throttle is not None:
        say(
            "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
            f"removed.\nThe inter-broker throttle limit was set to {throttle} B/s"
        )
    say(f"Successfully started partition {_plural('reassignment', plan)} for {_joined(sorted(plan))}")


async def _verify(admin: AdminClient, plan: Plan, *, lifts: bool) -> None:
    verified = await verify(admin, plan, lifts_throttle=lifts)
    current = await current_replicas(admin, {name.topic for name in plan})
    say("\n".join(verify_lines(plan, verified.states, current)))
    if verified.is_lifted:
        await _say_cleared(admin, plan)


async def _cancel(admin: AdminClient, plan: Plan, *, lifts: bool) -> None:
    cancelled = await cancel(admin, plan, lifts_throttle=lifts)
    active = cancelled.partitions
    if active:
        say(f"Successfully cancelled partition {_plural('reassignment', active)} for: {_joined(active)}")
    else:
        say("None of the specified partition reassignments are active.")
    say("None of the specified partition moves are active.", end="")
    if cancelled.is_lifted:
        await _say_cleared(admin, plan)
    else:
        say()


async def _say_cleared(admin: AdminClient, plan: Plan) -> None:
    brokers = [node.node_id for node in (await admin.describe_cluster()).nodes]
    topics = sorted({name.topic for name in plan})
    say(f"Clearing broker-level throttles on {_plural('broker', brokers)} {_joined(brokers)}")
    say(f"Clearing topic-level throttles on {_plural('topic', topics)} {_joined(topics)}")


async def _log_dirs(admin: AdminClient, plan: Plan) -> LogDirs:
    """The directories of a plan's replicas, of brokers that are there."""
    found = {}
    there = {node.node_id for node in (await admin.describe_cluster()).nodes}
    for broker in sorted({broker for replicas in plan.values() for broker in replicas} & there):
        for directory in await admin.describe_log_dirs(broker):
            found.update(
                {(broker, name): directory.path for name, each in directory.replicas.items() if not each.is_future}
            )
    return found


def _plural(noun: str, things: Sequence[object] | Plan) -> str:
    return noun if len(things) == 1 else f"{noun}s"


def _joined(things: Iterable[object]) -> str:
    return ",".join(map(str, things))
