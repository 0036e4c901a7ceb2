"""
Waits for groups: Kafka's protocol has no event for their states, so they are asked for at short intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from logbus.client import AdminClient
from logbus.client.retry import is_retriable
from logbus.coroutines import sleep
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.testing.topic_reader import TopicReader
from logbus.testing.waiting import WaitTimedOut

if TYPE_CHECKING:
    from logbus.client import Cluster, GroupDescription

POLL_SECONDS = 0.02

_NOT_YET = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def wait_stable(cluster: Cluster, group: str, members: int | None, seconds: float) -> GroupDescription:
    """
    A group, as soon as it is stable with members.

    :param members: how many it has then; None: any number from 1 on.
    :raise WaitTimedOut: it was not; says what it was.
    """
    admin = AdminClient(cluster, timeout=seconds)
    deadline = cluster.reactor.seconds() + seconds
    while True:
        found = (await admin.describe_groups([group]))[group]
        if isinstance(found, ApiError):
            if not _not_yet(found):
                raise found
        elif found.state == "Stable" and (len(found.members) == members if members is not None else found.members):
            return found
        if cluster.reactor.seconds() >= deadline:
            wanted = "stable" if members is None else f"stable with {_members(members)}"
            raise WaitTimedOut(f"group {group} was not {wanted} within {seconds:g} s: {_described(found)}")
        await sleep(cluster.reactor, POLL_SECONDS)


async def wait_no_lag(cluster: Cluster, group: str, topics: Sequence[str], seconds: float) -> dict[TopicPartition, int]:
    """
    The committed offsets of a group, as soon as it has committed all records.

    :param topics: of these topics; empty: of those that it has committed offsets of, or whose partitions it has.
    :raise WaitTimedOut: it had not; says where how many records are left.
    """
    deadline = cluster.reactor.seconds() + seconds
    reader = TopicReader(cluster, "read_committed")
    admin = AdminClient(cluster, timeout=seconds)
    try:
        while True:
            seen = ""
            try:
                committed = await _committed(admin, group)
                wanted = [which for topic in topics for which in await reader.partitions(topic)]
                if not topics:
                    wanted = sorted({*committed, *await _assigned(admin, group)})
                lags = {which: await _lag(reader, which, committed.get(which)) for which in wanted}
                behind = {which: lag for which, lag in lags.items() if lag}
                if wanted and not behind:
                    return {which: committed[which] for which in wanted if which in committed}
                seen = _behind(behind, committed) if wanted else "it has committed nothing, and has no partitions"
            except ApiError as e:
                if not _not_yet(e):
                    raise
                seen = str(e)
            if cluster.reactor.seconds() >= deadline:
                raise WaitTimedOut(f"the lag of group {group} was not 0 within {seconds:g} s: {seen}")
            await sleep(cluster.reactor, POLL_SECONDS)
    finally:
        reader.close()


async def _committed(admin: AdminClient, group: str) -> dict[TopicPartition, int]:
    found = (await admin.list_group_offsets([group]))[group]
    if isinstance(found, ApiError):
        raise found
    return {which: answer.offset for which, answer in found.items() if not isinstance(answer, ApiError)}


async def _assigned(admin: AdminClient, group: str) -> set[TopicPartition]:
    found = (await admin.describe_groups([group]))[group]
    if isinstance(found, ApiError):
        return set()
    return {which for member in found.members for which in member.assignment}


async def _lag(reader: TopicReader, which: TopicPartition, committed: int | None) -> int:
    """The records that are left.  Offsets of transaction markers, which no consumer gets, are none."""
    first, end = (await reader.bounds([which]))[which]
    position = first if committed is None else max(first, committed)
    return len(await reader.read_range(which, position, end))


def _behind(behind: dict[TopicPartition, int], committed: dict[TopicPartition, int]) -> str:
    return ", ".join(
        f"{which}: {lag} behind (committed: {committed.get(which, 'nothing')})" for which, lag in sorted(behind.items())
    )


def _described(found: GroupDescription | ApiError) -> str:
    if isinstance(found, ApiError):
        return str(found)
    clients = ", ".join(f"{member.client_id} ({len(member.assignment)} partitions)" for member in found.members)
    return f"it is {found.state} with {_members(len(found.members))}" + (f": {clients}" if clients else "")


def _members(count: int) -> str:
    return f"{count} member{'s' * (count != 1)}"


def _not_yet(error: ApiError) -> bool:
    return error.code in _NOT_YET or is_retriable(error)
