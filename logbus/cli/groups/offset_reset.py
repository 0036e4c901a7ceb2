"""
Resets committed offsets of groups: resolves the partitions, plans the changes, commits and prints them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from logbus.cli.groups.group_lag import member_count, offsets_at
from logbus.cli.groups.group_offsets import Scope, committed_offsets
from logbus.cli.groups.offset_file import SavedOffset
from logbus.cli.output import print_json, print_table
from logbus.cli.runner import CommandFailed, raise_errors, results
from logbus.client.admin.admin_client import AdminClient
from logbus.client.group_metadata import CommittedOffset
from logbus.client.list_offsets import EARLIEST, LATEST
from logbus.coordination.offset_target import OffsetChange, OffsetTarget, PartitionBounds, TargetKind, resolve_target
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition


@frozen
class OffsetResetPlan:
    """
    The changes for one group.

    :ivar is_new: whether the group does not exist yet.
    """

    group_id: str
    is_new: bool
    changes: Sequence[OffsetChange]


async def reset(
    admin: AdminClient, group_id: str, scopes: Sequence[Scope], target: OffsetTarget, *, execute: bool
) -> list[OffsetResetPlan]:
    """
    Plan to reset the offsets of a group, and commit the plan.

    :param scopes: topics and partitions; empty: all with committed offsets.
    :param execute: False: only plan.
    :raise CommandFailed: the group has members, a target cannot be resolved, or the broker refuses.
    """
    there = await require_inactive(admin, [group_id])
    if scopes:
        wanted = await resolve_scopes(admin, scopes)
    else:
        if group_id not in there:
            raise CommandFailed(f"there is no group {group_id!r}; --topic names what a new one begins with")
        wanted = list((await committed_offsets(admin, [group_id]))[group_id])
        if not wanted:
            raise CommandFailed(f"group {group_id!r} has committed nothing; --topic names what to set")
        await check_existing(admin, wanted)
    plans = await plan(admin, {group_id: dict.fromkeys(wanted, (target, ""))}, there)
    if execute:
        await write_plans(admin, plans)
    return plans


async def reset_to_saved(
    admin: AdminClient, saved: Mapping[str, Mapping[TopicPartition, SavedOffset]], *, execute: bool
) -> list[OffsetResetPlan]:
    """
    Plan to set the offsets of groups to those in a file, and commit the plan; see :func:`reset`.

    :raise CommandFailed: a group has members, a partition does not exist, or the broker refuses.
    """
    there = await require_inactive(admin, list(saved))
    await check_existing(admin, (each for offsets in saved.values() for each in offsets))
    targets = {
        group_id: {each: (OffsetTarget(TargetKind.OFFSET, at.offset), at.metadata) for each, at in offsets.items()}
        for group_id, offsets in saved.items()
    }
    plans = await plan(admin, targets, there)
    if execute:
        await write_plans(admin, plans)
    return plans


async def require_inactive(admin: AdminClient, group_ids: Sequence[str]) -> set[str]:
    """
    Return the groups that exist, after checking that none has members.

    :raise CommandFailed: a group has members, which would overwrite the reset offsets.
    """
    answers = await admin.describe_groups(group_ids)
    busy = [
        f"group {each.group_id!r} is {each.state} with {member_count(each)}; stop its consumers first"
        for each in answers.values()
        if not isinstance(each, ApiError) and each.is_active
    ]
    if busy:
        raise CommandFailed("; ".join(busy))
    there = {each.group_id for each in answers.values() if not isinstance(each, ApiError)}
    raise_errors(
        {
            name: each if isinstance(each, ApiError) and each.code is not ErrorCode.GROUP_ID_NOT_FOUND else None
            for name, each in answers.items()
        }
    )
    return there


async def resolve_scopes(admin: AdminClient, scopes: Sequence[Scope]) -> list[TopicPartition]:
    """
    Return the partitions of the given scopes.

    :param scopes: topics, each with partition numbers; None: all.
    :raise CommandFailed: a topic or partition does not exist.
    """
    topics = await admin.describe_topics(dict.fromkeys(topic for topic, _ in scopes))
    known = {topic.name: topic for topic in results(topics)}
    found: dict[TopicPartition, None] = {}
    for name, numbers in scopes:
        partitions = known[name].partitions
        for number in partitions if numbers is None else numbers:
            if number not in partitions:
                raise CommandFailed(_no_partition(TopicPartition(name, number), len(partitions)))
            found[TopicPartition(name, number)] = None
    return list(found)


async def check_existing(admin: AdminClient, partitions: Iterable[TopicPartition]) -> None:
    """
    Check that partitions exist.

    :raise CommandFailed: names all that do not.
    """
    there = {topic.name: len(topic.partitions) for topic in await admin.list_topics(internal=True)}
    missing: dict[str, None] = {}
    for each in partitions:
        if each.topic not in there:
            missing[f"there is no topic {each.topic!r}"] = None
        elif each.partition >= there[each.topic]:
            missing[_no_partition(each, there[each.topic])] = None
    if missing:
        raise CommandFailed("; ".join(missing))


async def plan(
    admin: AdminClient, targets: Mapping[str, Mapping[TopicPartition, tuple[OffsetTarget, str]]], there: set[str]
) -> list[OffsetResetPlan]:
    """
    Plan the changes of groups' offsets.

    :param targets: the target and the metadata of each partition; all targets have the same kind and time.
    :param there: the groups that exist.
    :raise CommandFailed: a target cannot be resolved.
    """
    wanted = list(dict.fromkeys(partition for each in targets.values() for partition in each))
    times = {target.value for each in targets.values() for target, _ in each.values() if target.kind is TargetKind.TIME}
    starts, ends = await offsets_at(admin, wanted, EARLIEST), await offsets_at(admin, wanted, LATEST)
    at_time = await offsets_at(admin, wanted, times.pop()) if times else dict.fromkeys(wanted, -1)
    bounds: dict[TopicPartition, PartitionBounds] = {}
    for partition in wanted:
        start, end, at = starts[partition], ends[partition], at_time[partition]
        if start is None or end is None or at is None:
            raise CommandFailed(f"{partition} has no leader that tells its offsets")
        bounds[partition] = PartitionBounds(start, end, at)
    now = await committed_offsets(admin, list(targets))
    plans = []
    for group_id, theirs in targets.items():
        changes = []
        for partition, (target, metadata) in sorted(theirs.items(), key=lambda each: each[0]):
            old = now[group_id].get(partition)
            try:
                changes.append(
                    resolve_target(partition, target, None if old is None else old.offset, bounds[partition], metadata)
                )
            except LogbusError as e:
                raise CommandFailed(f"group {group_id!r}: {e}") from None
        plans.append(OffsetResetPlan(group_id, group_id not in there, changes))
    return plans


async def write_plans(admin: AdminClient, plans: Iterable[OffsetResetPlan]) -> None:
    """
    Commit the planned offsets.

    :raise CommandFailed: the broker refuses some; the others are committed.
    """
    refused: dict[object, ApiError | None] = {}
    for each in plans:
        offsets = {change.partition: CommittedOffset(change.new, -1, change.metadata) for change in each.changes}
        answers = await admin.alter_group_offsets(each.group_id, offsets) if offsets else {}
        # Report the same error of many partitions once.
        refused.update((error.message, error) for error in answers.values() if error is not None)
    raise_errors(refused)


def print_plans(plans: Sequence[OffsetResetPlan], executed: bool, as_json: bool) -> None:
    """Print the committed or planned offsets."""
    if as_json:
        print_json([_as_json(each, executed) for each in plans])
        return
    rows = [
        [each.group_id, *change.partition, change.old, change.new, change.note]
        for each in plans
        for change in each.changes
    ]
    if not rows:
        print("There are no offsets to write.")
        return
    print_table(["group", "topic", "partition", "old", "new", "note"], rows)
    for each in plans:
        if each.is_new:
            print(f"There {'was' if executed else 'is'} no group {each.group_id!r}; it begins with these offsets.")
    if not executed:
        print("Nothing is written yet: --execute writes it.")


def _as_json(plan: OffsetResetPlan, executed: bool) -> dict[str, Any]:
    return {
        "group": plan.group_id,
        "new": plan.is_new,
        "executed": executed,
        "offsets": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "old": each.old,
                "new": each.new,
                "note": each.note or None,
            }
            for each in plan.changes
        ],
    }


def _no_partition(partition: TopicPartition, count: int) -> str:
    return f"topic {partition.topic!r} has no partition {partition.partition}; it has 0 to {count - 1}"
