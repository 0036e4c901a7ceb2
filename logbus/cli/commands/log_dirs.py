"""The ``logbus log-dirs`` commands (Kafka: LogDirsCommand)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from logbus.cli.number_types import IntRange
from logbus.cli.options import bootstrap_options, json_option
from logbus.cli.output import print_json, print_table

if TYPE_CHECKING:
    from logbus.client.admin.admin_client import AdminClient
    from logbus.client.admin.log_dir_admin import LogDir
    from logbus.errors import ApiError
    from logbus.model import TopicPartition

_broker_option = click.option(
    "--broker", "broker_id", type=IntRange(min=0), default=0, show_default=True, help="The broker's id."
)


@click.group("log-dirs")
def log_dirs() -> None:
    """Show the log directories of a broker, and move partitions between them.

    \b
    Example:
      logbus log-dirs describe
      logbus log-dirs move /disk2/logbus orders:0 orders:1
    """


@log_dirs.command()
@_broker_option
@json_option
@bootstrap_options
def describe(broker_id: int, as_json: bool, bootstrap: str, timeout: float) -> None:
    """Show the log directories of a broker, their free space, and the partitions in them.

    A partition that is being moved to a directory is shown there as "copying", with the number of remaining offsets.

    \b
    Example:
      logbus log-dirs describe --broker 1 --json
    """
    from logbus.cli.runner import with_admin

    found = with_admin(bootstrap, timeout, lambda admin: admin.describe_log_dirs(broker_id))
    if as_json:
        print_json([_as_json(each) for each in found])
        return
    rows: list[Sequence[Any]] = []
    for each in found:
        free = f"{each.usable_bytes} free" if each.usable_bytes >= 0 else ""
        rows.append([each.path, "", "", each.error.message if each.error is not None else free])
        for name, replica in sorted(each.replicas.items()):
            state = f"copying, {replica.offset_lag} offsets left" if replica.is_future else ""
            rows.append(["", str(name), replica.size, state])
    print_table(["directory", "partition", "bytes", "state"], rows)


def _as_json(found: LogDir) -> dict[str, Any]:
    return {
        "path": found.path,
        "error": found.error.message if found.error is not None else None,
        "total_bytes": found.total_bytes if found.total_bytes >= 0 else None,
        "usable_bytes": found.usable_bytes if found.usable_bytes >= 0 else None,
        "partitions": [
            {
                "topic": name.topic,
                "partition": name.partition,
                "bytes": replica.size,
                "offset_lag": replica.offset_lag,
                "copying": replica.is_future,
            }
            for name, replica in sorted(found.replicas.items())
        ],
    }


@log_dirs.command()
@click.argument("path", metavar="DIRECTORY")
@click.argument("partitions", nargs=-1, required=True, metavar="TOPIC:PARTITION...")
@_broker_option
@bootstrap_options
def move(path: str, partitions: tuple[str, ...], broker_id: int, bootstrap: str, timeout: float) -> None:
    """Move partitions to another log directory of their broker.

    DIRECTORY is a path as "describe" shows it. The copy runs in the background while clients read and write;
    replica.alter.log.dirs.io.max.bytes.per.second limits its rate.

    \b
    Example:
      logbus log-dirs move /disk2/logbus orders:0 --broker 1
    """
    from logbus.cli.runner import raise_errors, with_admin

    moves = {_partition(each): path for each in partitions}
    raise_errors(with_admin(bootstrap, timeout, lambda admin: _move(admin, broker_id, moves, path)))


async def _move(
    admin: AdminClient, broker_id: int, moves: Mapping[TopicPartition, str], path: str
) -> dict[TopicPartition, ApiError | None]:
    from logbus.cli.runner import CommandFailed
    from logbus.errors import ErrorCode

    answers = await admin.alter_replica_log_dirs(broker_id, moves)
    if any(error is not None and error.code is ErrorCode.LOG_DIR_NOT_FOUND for error in answers.values()):
        there = ", ".join(each.path for each in await admin.describe_log_dirs(broker_id))
        raise CommandFailed(f"broker {broker_id} has no log directory {path}; it has {there}")
    return answers


def _partition(text: str) -> TopicPartition:
    from logbus.model import TopicPartition

    topic, _, number = text.rpartition(":")
    if not topic or not (number.isascii() and number.isdigit()):
        raise click.BadParameter(f"{text!r} is not TOPIC:PARTITION, such as orders:0")
    return TopicPartition(topic, int(number))
