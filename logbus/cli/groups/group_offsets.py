"""Reads and deletes the committed offsets of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from logbus.cli.groups.group_lag import group_descriptions
from logbus.cli.groups.offset_file import SavedOffset
from logbus.cli.runner import CommandFailed, raise_errors
from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import Cluster
from logbus.client.group_metadata import CommittedOffset
from logbus.errors import ApiError
from logbus.model import TopicPartition

CommittedOffsets = Mapping[TopicPartition, CommittedOffset]
Scope = tuple[str, tuple[int, ...] | None]
"""A topic, and the numbers of some of its partitions; None: all."""


async def committed_offsets(admin: AdminClient, group_ids: Sequence[str]) -> dict[str, CommittedOffsets]:
    """
    Return the committed offsets of groups.

    :raise CommandFailed: the offsets of a group cannot be read.
    """
    found: dict[str, CommittedOffsets] = {}
    errors: dict[object, ApiError | None] = {}
    for group_id, offsets in (await admin.list_group_offsets(group_ids)).items():
        if isinstance(offsets, ApiError):
            errors[group_id] = offsets
            continue
        errors.update((each, at) for each, at in offsets.items() if isinstance(at, ApiError))
        found[group_id] = {each: at for each, at in offsets.items() if not isinstance(at, ApiError)}
    raise_errors(errors)
    return found


async def delete_committed(admin: AdminClient, group_id: str, scopes: Sequence[Scope]) -> None:
    """
    Delete committed offsets of a group.

    :raise CommandFailed: the group or an offset does not exist, or the broker refuses.
    """
    await group_descriptions(admin, [group_id])
    known = (await committed_offsets(admin, [group_id]))[group_id]
    wanted: dict[TopicPartition, None] = {}
    for topic, numbers in scopes:
        chosen = [each for each in known if each.topic == topic]
        if numbers is not None:
            chosen = [TopicPartition(topic, number) for number in numbers]
        for each in chosen:
            if each not in known:
                raise CommandFailed(f"group {group_id!r} has committed nothing for {each}")
            wanted[each] = None
        if not chosen:
            raise CommandFailed(f"group {group_id!r} has committed nothing for topic {topic!r}")
    answers = await admin.delete_group_offsets(group_id, wanted)
    raise_errors({error.message: error for error in answers.values() if error is not None})


async def offsets_to_save(
    cluster: Cluster, names: Sequence[str], request_timeout: float
) -> tuple[dict[str, dict[TopicPartition, SavedOffset]], str | None]:
    """
    Return the committed offsets of groups, and the id of the cluster.

    :param names: empty: all groups that have some.
    :raise CommandFailed: a group does not exist, or its offsets cannot be read.
    """
    admin = AdminClient(cluster, timeout=request_timeout)
    wanted = list(dict.fromkeys(names))
    if wanted:
        await group_descriptions(admin, wanted)
    else:
        # Other types of groups do not commit offsets.
        kinds = ("classic", "consumer", "")
        wanted = [each.group_id for each in await admin.list_groups() if each.type in kinds]
    found = await committed_offsets(admin, wanted)
    saved = {
        group_id: {each: SavedOffset(at.offset, at.metadata) for each, at in offsets.items()}
        for group_id, offsets in found.items()
        if offsets or names
    }
    return saved, cluster.cluster_id
