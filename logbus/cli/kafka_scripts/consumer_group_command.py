"""
``kafka-consumer-groups``: lists, describes and deletes groups, and resets and deletes their offsets (Kafka:
ConsumerGroupCommand).
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from logbus.cli.groups.group_lag import group_reports
from logbus.cli.groups.offset_reset import resolve_scopes
from logbus.cli.groups.offset_target import parse_scope
from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.consumer_group_report import (
    deletion_lines,
    list_lines,
    member_lines,
    offset_lines,
    state_lines,
    state_remark,
)
from logbus.cli.kafka_scripts.consumer_group_reset import SCENARIOS, ResetRequest, reset_offsets
from logbus.cli.kafka_scripts.java_errors import broker_text, java_text
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import with_cluster
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.group_results import GroupDescription, ListedGroup
from logbus.client.cluster.cluster import Cluster
from logbus.errors import ApiError, ErrorCode, LogbusError

_ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
_STATES = ("Assigning", "CompletingRebalance", "Dead", "Empty", "PreparingRebalance", "Reconciling", "Stable")
_TYPES = ("Classic", "Consumer")
_OF_GROUPS = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID)

PARSER = OptionParser(
    "Lists, describes and deletes consumer groups, and resets and deletes their offsets.",
    [
        Option("list", help="Print the groups."),
        Option("describe", help="Print the offsets and lag of groups, or their members or state."),
        Option("delete", help="Delete groups."),
        Option("reset-offsets", help="Set the offsets of groups without members."),
        Option("delete-offsets", help="Delete the offsets of a group for topics."),
        Option("validate-regex", "regex", refusal="logbus consume --group subscribes to topics by name"),
        Option("group", "consumer group", "The group; may be repeated."),
        Option("all-groups", help="All groups."),
        Option("topic", "topic", "A topic, or partitions of it: orders:0,1; may be repeated."),
        Option("all-topics", help="With --reset-offsets: all that the group has committed."),
        Option("offsets", help="With --describe: offsets (the default)."),
        Option("members", help="With --describe: members."),
        Option("state", "state", "With --describe: the state. With --list: of which states.", is_optional=True),
        Option("type", "type", "With --list: of which types.", is_optional=True),
        Option("verbose", help="With --describe: more columns."),
        Option("execute", help="With --reset-offsets: commit the offsets."),
        Option("dry-run", help="With --reset-offsets: only show them (the default)."),
        Option("export", help="With --reset-offsets: print CSV."),
        Option("to-earliest", help="To the first offsets."),
        Option("to-latest", help="To the ends."),
        Option("to-current", help="To where the group is."),
        Option("to-offset", "offset", "To an offset.", bits=64),
        Option("shift-by", "number-of-offsets", "By a number of records.", bits=64),
        Option("to-datetime", "datetime", "To a time: YYYY-MM-DDTHH:mm:SS.sss."),
        Option("by-duration", "duration", "By a time span back from now: PnDTnHnMnS."),
        Option("from-file", "path to CSV file", "To the offsets in a file that --export printed."),
        Option("timeout", "timeout (ms)", "Accepted, without an effect.", bits=64),
    ],
)


@frozen
class _Request:
    """An action with its options."""

    action: str
    options: ParsedOptions
    reset: ResetRequest | None

    async def __call__(self, cluster: Cluster, admin: AdminClient) -> None:
        match self.action:
            case "list":
                await _list(admin, self.options)
            case "describe":
                await _describe(admin, self.options)
            case "delete":
                await _delete(admin, self.options)
            case "delete-offsets":
                await _delete_offsets(admin, self.options)
            case _:
                assert self.reset is not None
                await reset_offsets(admin, self.reset, await _group_ids(admin, self.options))


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status, which is 0 for errors of brokers, as Kafka's has it."""
    action = _checked(options)
    request = _Request(action, options, ResetRequest.of(options) if action == "reset-offsets" else None)
    try:
        with_cluster(options, request)
    except LogbusError as e:
        say(f"\nError: Executing consumer group command failed due to {java_text(e) if isinstance(e, ApiError) else e}")
    return 0


def _checked(options: ParsedOptions) -> str:
    """
    The action.

    :raise UsageError: options are missing, or do not go together.
    """
    actions = ", ".join(f"--{name}" for name in _ACTIONS)
    action = options.only_one(_ACTIONS, f"Command must include exactly one action: {actions}")
    options.require("bootstrap-server")
    if action in ("describe", "delete", "reset-offsets") and not (options.has("group") or options.has("all-groups")):
        raise UsageError(f"Option [{action}] takes one of these options: [group], [all-groups]")
    options.forbid("all-groups", ["group"])
    if action == "describe" and sum(map(options.has, ("offsets", "members", "state"))) > 1:
        raise UsageError("Option [describe] takes at most one of these options: [offsets], [members], [state]")
    if action == "delete-offsets" and not (options.has("group") and options.has("topic")):
        raise UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
    if action != "reset-offsets":
        for name in (*SCENARIOS, "execute", "dry-run", "export", "all-topics"):
            options.forbid(name, [action])
    if action in ("list", "describe", "delete"):
        options.forbid("topic", [action])
    return action


async def _group_ids(admin: AdminClient, options: ParsedOptions) -> list[str]:
    if not options.has("all-groups"):
        return list(dict.fromkeys(options.values("group")))
    return [group.group_id for group in await _consumer_groups(admin)]


async def _consumer_groups(
    admin: AdminClient, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[ListedGroup]:
    groups = await admin.list_groups(states=states, types=types)
    return [
        group
        for group in groups
        if group.protocol_type in ("consumer", "") and group.type.lower() in ("classic", "consumer", "")
    ]


async def _list(admin: AdminClient, options: ParsedOptions) -> None:
    states = _chosen(options.value("state"), _STATES, "state")
    types = _chosen(options.value("type"), _TYPES, "types")
    groups = await _consumer_groups(admin, states, [each.lower() for each in types])
    lines = list_lines(groups, types=options.has("type"), states=options.has("state"))
    if lines:
        say("\n".join(lines))


def _chosen(text: str | None, known: Sequence[str], what: str) -> list[str]:
    """
    The names in a list with commas, in any case.

    :raise UsageError: one is not known.
    """
    if text is None:
        return []
    by_case = {each.lower(): each for each in known}
    wanted = [each.strip().lower() for each in text.split(",")]
    if not set(wanted) <= by_case.keys():
        plural = "types" if what == "types" else "states"
        raise UsageError(f"Invalid {what} list '{text}'. Valid {plural} are: {', '.join(known)}")
    return [by_case[each] for each in wanted]


async def _describe(admin: AdminClient, options: ParsedOptions) -> None:
    described = await admin.describe_groups(await _group_ids(admin, options))
    groups = []
    for answer in described.values():
        if isinstance(answer, ApiError):
            raise answer
        groups.append(answer)
    verbose = options.has("verbose")
    for group in sorted(groups, key=lambda group: group.group_id):
        _remark(group)
        if options.has("members"):
            lines = member_lines(group, verbose=verbose)
        elif options.has("state"):
            lines = state_lines(group, verbose=verbose)
        else:
            (report,) = await group_reports(admin, [group])
            lines = offset_lines(report, verbose=verbose)
        say("\n" + "\n".join(lines))


def _remark(group: GroupDescription) -> None:
    remark = state_remark(group)
    if remark is not None:
        complain(f"\n{remark}")


async def _delete(admin: AdminClient, options: ParsedOptions) -> None:
    answers = await admin.delete_groups(await _group_ids(admin, options))
    deleted = ", ".join(f"'{name}'" for name, error in answers.items() if error is None)
    failed = {name: error for name, error in answers.items() if error is not None}
    if not failed:
        say(f"Deletion of requested consumer groups ({deleted}) was successful.")
        return
    say("\nError: Deletion of some consumer groups failed:")
    for name, error in failed.items():
        say(f"* Group '{name}' could not be deleted due to: {java_text(error, f'group {name!r}')}")
    if deleted:
        say(f"\nThese consumer groups were deleted successfully: {deleted}")


async def _delete_offsets(admin: AdminClient, options: ParsedOptions) -> None:
    group_id = options.text("group")
    partitions = await resolve_scopes(admin, [parse_scope(text) for text in options.values("topic")])
    answers = await admin.delete_group_offsets(group_id, partitions)
    errors = [error for error in answers.values() if error is not None]
    if not errors:
        say(f"Request succeeded for deleting offsets from group {group_id}.")
    elif errors[0].code in _OF_GROUPS:
        say(f"\nError: {broker_text(errors[0])}")
    else:
        say("\nError: Encountered some partition-level error, see the follow-up details.")
    texts = {each: None if error is None else java_text(error, str(each)) for each, error in answers.items()}
    say("\n" + "\n".join(deletion_lines(texts)))
