"""
Assignment epochs (KIP-1251): since which epoch a member has each of its partitions or tasks. Pure.

A member learns of its next epoch by a heartbeat, and may have sent commits meanwhile. One for a partition that it had
in that epoch, and has had since, is as good as before; others are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

Part = TypeVar("Part")


def epochs_of(parts: Iterable[Part], since: Mapping[Part, int]) -> dict[Part, int]:
    """The epochs of parts that a member keeps; 0 for one whose epoch is not known."""
    return {part: since.get(part, 0) for part in parts}


def aligned(numbers: Collection[int], epochs: Collection[int] | None, member_epoch: int) -> Collection[int]:
    """
    The epochs in a record, one for each of its partitions.

    If it is of an older release, or damaged, that of the member stands for them, as in Kafka: only commits in the
    member's present epoch are accepted then.
    """
    known = epochs is not None and len(epochs) == len(numbers)
    return epochs if known and epochs is not None else [max(member_epoch, 0)] * len(numbers)


def check_commit_epoch(
    member_id: str,
    reached: int,
    epoch: int,
    partitions: Collection[TopicPartition],
    since: Callable[[TopicPartition], int | None],
    code: ErrorCode = ErrorCode.STALE_MEMBER_EPOCH,
) -> None:
    """
    Refuse a commit in a later epoch than the member's, or in an earlier one than that in which it got a partition.

    :param reached: the member's epoch.
    :param epoch: that of the commit.
    :param since: the epoch in which the member got a partition, or the task that reads it; None: it does not have it.
    :raise ApiError: with ``code``.
    """
    if epoch == reached:
        return
    if epoch > reached:
        raise ApiError(code, f"the member {member_id} is in epoch {reached}, not yet in {epoch}")
    for partition in partitions:
        got = since(partition)
        if got is None:
            raise ApiError(code, f"the member {member_id} is in epoch {reached}, and does not have {partition}")
        if epoch < got:
            raise ApiError(code, f"the member {member_id} has {partition} since epoch {got}, and not in {epoch}")
