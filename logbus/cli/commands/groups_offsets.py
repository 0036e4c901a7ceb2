"""The commands of ``logbus groups`` that reset, delete, export and import committed offsets."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logbus.cli.number_types import IntRange
from logbus.cli.options import bootstrap_options, group_id, json_option, overwrite_option, timestamp_ms
from logbus.errors import LogbusError
from logbus.wording import counted

if TYPE_CHECKING:
    from logbus.coordination.offset_target import OffsetTarget

Scope = tuple[str, tuple[int, ...] | None]


def _read_scopes(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[Scope]:
    from logbus.cli.groups.offset_target import parse_scope

    try:
        return [parse_scope(each) for each in values]
    except LogbusError as e:
        raise click.BadParameter(str(e)) from None


_TOPICS = click.option(
    "--topic",
    "-t",
    "scopes",
    multiple=True,
    callback=_read_scopes,
    metavar="TOPIC[:P,...]",
    help="A topic, or some of its partitions; may be repeated.",
)
_SHIFT = IntRange(1 - 2**63, 2**63 - 1)
_EXECUTE = click.option("--execute", is_flag=True, help="Commit the offsets; otherwise they are only shown.")


@click.command("reset-offsets", short_help="Reset the committed offsets of a group.")
@click.argument("group", type=group_id)
@_TOPICS
@click.option("--all-topics", is_flag=True, help="All partitions for which the group has committed offsets.")
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="To the end: skip existing records.")
@click.option(
    "--to-datetime", metavar="WHEN", help="To the first record at or after 2024-05-01T12:00 (or ms since 1970)."
)
@click.option("--by-duration", metavar="SPAN", help="To the first record of the last 1h30m (or PT1H30M).")
@click.option("--to-offset", metavar="N", type=IntRange(0, 2**63 - 1), help="To this offset in each partition.")
@click.option(
    "--shift-by",
    metavar="N",
    type=_SHIFT,
    help="By this many records: -10 reads ten again.",
)
@click.option("--to-current", is_flag=True, help="To the current offset, or the nearest one that exists.")
@_EXECUTE
@json_option
@bootstrap_options
def reset_offsets(
    group: str,
    scopes: list[Scope],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_datetime: str | None,
    by_duration: str | None,
    to_offset: int | None,
    shift_by: int | None,
    to_current: bool,
    execute: bool,
    as_json: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Reset the committed offsets of a group without members. Only shows the result, unless --execute is given. An
    offset outside of a partition's log becomes the nearest one inside.

    \b
    Example:
      logbus groups reset-offsets billing --topic orders --to-earliest
      logbus groups reset-offsets billing --all-topics --by-duration 1h30m --execute
      logbus groups reset-offsets billing --topic orders:0,1 --shift-by -10 --execute
    """
    from logbus.cli.groups.offset_reset import print_plans, reset
    from logbus.cli.runner import with_admin

    target = _target(to_earliest, to_latest, to_datetime, by_duration, to_offset, shift_by, to_current)
    if bool(scopes) == all_topics:
        raise click.UsageError("say which offsets: either --topic (may be repeated) or --all-topics")

    plans = with_admin(bootstrap, timeout, lambda admin: reset(admin, group, scopes, target, execute=execute))
    print_plans(plans, execute, as_json)


def _target(
    to_earliest: bool,
    to_latest: bool,
    to_datetime: str | None,
    by_duration: str | None,
    to_offset: int | None,
    shift_by: int | None,
    to_current: bool,
) -> OffsetTarget:
    from logbus.cli.groups.offset_target import parse_duration
    from logbus.coordination.offset_target import OffsetTarget, TargetKind

    targets = []
    if to_earliest:
        targets.append(OffsetTarget(TargetKind.EARLIEST))
    if to_latest:
        targets.append(OffsetTarget(TargetKind.LATEST))
    if to_datetime is not None:
        targets.append(OffsetTarget(TargetKind.TIME, timestamp_ms(to_datetime, "--to-datetime")))
    if by_duration is not None:
        try:
            targets.append(OffsetTarget(TargetKind.TIME, max(int(time.time() * 1000) - parse_duration(by_duration), 0)))
        except LogbusError as e:
            raise click.BadParameter(str(e), param_hint="--by-duration") from None
    if to_offset is not None:
        targets.append(OffsetTarget(TargetKind.OFFSET, to_offset))
    if shift_by is not None:
        targets.append(OffsetTarget(TargetKind.SHIFT, shift_by))
    if to_current:
        targets.append(OffsetTarget(TargetKind.CURRENT))
    if len(targets) != 1:
        ways = "--to-earliest, --to-latest, --to-datetime, --by-duration, --to-offset, --shift-by, --to-current"
        raise click.UsageError(f"say where to, by one of {ways}")
    return targets[0]


@click.command("delete-offsets", short_help="Delete committed offsets of a group.")
@click.argument("group", type=group_id)
@_TOPICS
@bootstrap_options
def delete_offsets(group: str, scopes: list[Scope], bootstrap: str, timeout: float) -> None:
    """Delete the offsets that a group has committed for topics it is not subscribed to.

    \b
    Example:
      logbus groups delete-offsets billing --topic orders
      logbus groups delete-offsets billing --topic orders:0,1 --topic payments
    """
    from logbus.cli.groups.group_offsets import delete_committed
    from logbus.cli.runner import with_admin

    if not scopes:
        raise click.UsageError("say which offsets: --topic TOPIC, or --topic TOPIC:0,1; it may be repeated")

    with_admin(bootstrap, timeout, lambda admin: delete_committed(admin, group, scopes))


@click.command("export", short_help="Write committed offsets of groups to a file.")
@click.argument("file", metavar="FILE")
@click.argument("names", nargs=-1, type=group_id, metavar="[GROUP]...")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "znodes"]),
    default="json",
    show_default=True,
    help="JSON, or lines as of Kafka's ExportZkOffsets.",
)
@overwrite_option
@bootstrap_options
def export_offsets(
    file: str, names: tuple[str, ...], form: str, overwrite: bool, bootstrap: str, timeout: float
) -> None:
    """Write the committed offsets of groups (all, if none is named) to a file; - is standard output.

    \b
    Example:
      logbus groups export offsets.json
      logbus groups export - billing | jq .groups[0].offsets
      logbus groups export offsets.txt --format znodes
    """
    from logbus.cli.groups.group_offsets import offsets_to_save
    from logbus.cli.groups.offset_file import write_offsets
    from logbus.cli.groups.znode_offsets import write_lines
    from logbus.cli.new_file import check_new_file, is_stream, write_new_file
    from logbus.cli.runner import CommandFailed, with_cluster

    if file != "-":
        check_new_file(file, overwrite=overwrite)
    try:
        saved, cluster_id = with_cluster(bootstrap, timeout, lambda cluster: offsets_to_save(cluster, names, timeout))
    except CommandFailed as e:
        if not any(each.endswith(".json") for each in names):
            raise
        raise CommandFailed(f"{e}; the file is named first, and then the groups") from None
    text = write_lines(saved) if form == "znodes" else write_offsets(saved, cluster_id, int(time.time() * 1000))
    if file == "-":
        sys.stdout.write(text)
        return
    if file in saved and not names:
        raise CommandFailed(
            f"{file!r} is a group, and would be the name of a file with the offsets of all; write 'logbus groups "
            f"export FILE {file}', or ./{file} for a file of that name"
        )
    write_new_file(file, text.encode(), overwrite=overwrite)
    offsets = sum(len(each) for each in saved.values())
    if not is_stream(file):
        click.echo(f"{file}: {counted(offsets, 'offset')} of {counted(len(saved), 'group')}")


@click.command("import", short_help="Commit the offsets of groups in a file.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.argument("names", nargs=-1, type=group_id, metavar="[GROUP]...")
@_EXECUTE
@json_option
@bootstrap_options
def import_offsets(
    file: str, names: tuple[str, ...], execute: bool, as_json: bool, bootstrap: str, timeout: float
) -> None:
    """Commit the offsets in a file written by "export" (of all its groups, if none is named), in either of its formats,
    or by Kafka's ExportZkOffsets; - is standard input. Only shows the result, unless --execute is given. None of the
    groups may have members.

    \b
    Example:
      logbus groups import offsets.json
      logbus groups import offsets.json billing --execute
    """
    from logbus.cli.groups.offset_file import read_offsets
    from logbus.cli.groups.offset_reset import print_plans, reset_to_saved
    from logbus.cli.groups.znode_offsets import is_lines, read_lines
    from logbus.cli.runner import CommandFailed, with_admin

    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    shown = "standard input" if file == "-" else file
    saved = read_lines(data, shown) if is_lines(data) else read_offsets(data, shown)
    missing = [name for name in names if name not in saved]
    if missing:
        there = ", ".join(saved) or "none"
        raise CommandFailed(f"{shown} has no group {', '.join(map(repr, missing))}; it has {there}")
    chosen = {name: saved[name] for name in (dict.fromkeys(names) or saved)}

    plans = with_admin(bootstrap, timeout, lambda admin: reset_to_saved(admin, chosen, execute=execute))
    print_plans(plans, execute, as_json)
