"""``kafka-consumer-groups --reset-offsets``: what the options ask for, and the offsets that come of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from attrs import frozen

from logbus.cli.groups.group_offsets import committed_offsets
from logbus.cli.groups.offset_reset import OffsetResetPlan, check_existing, plan, resolve_scopes, write_plans
from logbus.cli.groups.offset_target import parse_duration, parse_scope
from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.consumer_group_report import reset_lines
from logbus.cli.kafka_scripts.option_parser import ParsedOptions, UsageError
from logbus.client.admin.admin_client import AdminClient
from logbus.coordination.offset_target import OffsetTarget, TargetKind
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition

SCENARIOS = (
    "to-offset",
    "shift-by",
    "from-file",
    "to-datetime",
    "by-duration",
    "to-latest",
    "to-current",
    "to-earliest",
)

_NO_ACTION = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)

Targets = Mapping[TopicPartition, OffsetTarget]


@frozen
class ResetRequest:
    """
    The offsets to reset, and their targets.

    :ivar scopes: topics, each with partition numbers or None for all; empty: all that is committed.
    :ivar target: None: the offsets of ``file``.
    :ivar file: the lines of a file that ``--export`` printed.
    :ivar execute: commit the offsets, rather than show them only.
    :ivar export: print CSV; with the group in each line if there may be several.
    """

    scopes: Sequence[tuple[str, tuple[int, ...] | None]]
    target: OffsetTarget | None
    file: Sequence[str]
    execute: bool
    export: bool
    one_group: bool

    @classmethod
    def of(cls, options: ParsedOptions) -> ResetRequest:
        """
        Read the options.

        :raise UsageError: they are wrong, or do not go together.
        """
        options.forbid("dry-run", ["execute"])
        if not (options.has("execute") or options.has("dry-run")):
            complain(_NO_ACTION)
        scenarios = ", ".join(f"[{name}]" for name in SCENARIOS)
        scenario = options.only_one(
            SCENARIOS, f"Option '[reset-offsets]' requires one of the following scenarios: [{scenarios}]"
        )
        if not (options.has("topic") or options.has("all-topics") or scenario == "from-file"):
            raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
        options.forbid("topic", ["all-topics"])
        try:
            target = _target(scenario, options)
            scopes = [parse_scope(text) for text in options.values("topic")]
        except LogbusError as e:
            raise UsageError(str(e)) from None
        lines: list[str] = []
        if scenario == "from-file":
            lines = _lines(options.text("from-file"))
        one = not options.has("all-groups") and len(set(options.values("group"))) == 1
        return cls(scopes, target, lines, options.has("execute"), options.has("export"), one)


async def reset_offsets(admin: AdminClient, request: ResetRequest, group_ids: Sequence[str]) -> None:
    """
    Reset the offsets of groups, and print them.

    :raise LogbusError: a topic or a partition does not exist, or the brokers refuse.
    """
    described = await admin.describe_groups(group_ids)
    there: set[str] = set()
    plans: list[OffsetResetPlan] = []
    for group_id in group_ids:
        answer = described[group_id]
        if isinstance(answer, ApiError):
            if answer.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise answer
        elif answer.is_active:
            say(
                f"\nError: Assignments can only be reset if the group '{group_id}' is inactive, but the current state "
                f"is {answer.state}."
            )
            continue
        else:
            there.add(group_id)
        targets = await _targets(admin, request, group_id)
        plans += await plan(admin, {group_id: {each: (at, "") for each, at in targets.items()}}, there)
    for change in (change for each in plans for change in each.changes):
        if change.note.startswith("no record"):
            say(
                f"\nWarn: Partition {change.partition.partition} from topic {change.partition.topic} is empty. Falling "
                "back to latest known offset."
            )
    if request.execute:
        await write_plans(admin, plans)
    if request.export:
        say("\n".join(export_lines(plans, one_group=request.one_group)) + "\n")
    else:
        say("\n" + "\n".join(reset_lines({each.group_id: each.changes for each in plans})))


def export_lines(plans: Sequence[OffsetResetPlan], *, one_group: bool) -> list[str]:
    """The lines of ``--export``; with several groups, each has its group."""
    return [
        ",".join(map(str, [*([] if one_group else [each.group_id]), *change.partition, change.new]))
        for each in plans
        for change in each.changes
    ]


def imported_targets(lines: Sequence[str], group_id: str, *, one_group: bool) -> dict[TopicPartition, OffsetTarget]:
    """
    The targets of a group in a file.

    :raise UsageError: a line is not one of ``--export``.
    """
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        fields = [each.strip() for each in line.split(",")]
        wanted = 3 if one_group else 4
        if len(fields) != wanted or not all(each.isascii() and each.isdigit() for each in fields[-2:]):
            form = "topic,partition,offset" if one_group else "group,topic,partition,offset"
            raise UsageError(f"line {number} of the file is {line!r}; it has to be {form}")
        if one_group or fields[0] == group_id:
            at = TopicPartition(fields[-3], int(fields[-2]))
            found[at] = OffsetTarget(TargetKind.OFFSET, int(fields[-1]))
    return found


async def _targets(admin: AdminClient, request: ResetRequest, group_id: str) -> Targets:
    if request.target is None:
        found = imported_targets(request.file, group_id, one_group=request.one_group)
        await check_existing(admin, found)
        return found
    if request.scopes:
        return dict.fromkeys(await resolve_scopes(admin, request.scopes), request.target)
    wanted = list((await committed_offsets(admin, [group_id]))[group_id])
    await check_existing(admin, wanted)
    return dict.fromkeys(wanted, request.target)


def _target(scenario: str, options: ParsedOptions) -> OffsetTarget | None:
    match scenario:
        case "to-offset":
            return OffsetTarget(TargetKind.OFFSET, options.integer("to-offset") or 0)
        case "shift-by":
            return OffsetTarget(TargetKind.SHIFT, options.integer("shift-by") or 0)
        case "to-datetime":
            return OffsetTarget(TargetKind.TIME, datetime_ms(options.text("to-datetime")))
        case "by-duration":
            return OffsetTarget(TargetKind.TIME, int(time.time() * 1000) - parse_duration(options.text("by-duration")))
        case "to-latest":
            return OffsetTarget(TargetKind.LATEST)
        case "to-current":
            return OffsetTarget(TargetKind.CURRENT)
        case "to-earliest":
            return OffsetTarget(TargetKind.EARLIEST)
    return None


def datetime_ms(text: str) -> int:
    """
    Milliseconds since 1970 of ``YYYY-MM-DDTHH:mm:SS.sss``, in UTC unless a zone follows.

    :raise UsageError: it does not have this form.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no time; write YYYY-MM-DDTHH:mm:SS.sss, with Z or +02:00 for a zone") from None
    if "T" not in text:
        raise UsageError(f"The timestamp format should contain a `T` between date and time: {text!r}")
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as e:
        raise UsageError(f"{path}: {e.strerror}") from None
    except UnicodeDecodeError as e:
        raise UsageError(f"{path}: {e}") from None
