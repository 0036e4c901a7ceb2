"""Checks what Consumer's methods are called with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import fields

from logbus.client import validators as check
from logbus.client.consumer.consumer_options import ConsumerOptions
from logbus.client.consumer.partition_position import AtTime
from logbus.client.group_metadata import CommittedOffset
from logbus.client.list_offsets import EARLIEST
from logbus.client.membership import GroupListener, GroupOptions, Subscription
from logbus.model import TopicPartition


def group_options(group_id: str | None, client_rack: str | None, options: dict[str, Any]) -> GroupOptions | None:
    """
    The options of the group's member, if there is a group.

    :raises TypeError: there is no such option, or no group.
    """
    known = {each.name for each in fields(GroupOptions)}
    if unknown := options.keys() - known:
        raise check.unknown_options("a consumer", unknown, known | {each.name for each in fields(ConsumerOptions)})
    if group_id is None:
        if options:
            raise TypeError(f"without a group_id there is no use for {', '.join(sorted(options))}")
        return None
    found = GroupOptions(group_id, **{"client_rack": client_rack, **options})
    from logbus.client.membership.assignors import assignors_by_name

    assignors_by_name(found.assignors)
    return found


def committed_offsets(
    offsets: Mapping[TopicPartition, int | CommittedOffset] | None,
) -> dict[TopicPartition, CommittedOffset] | None:
    """
    Offsets as they are committed; None: none were given.

    :raises ConfigError: they are something else.
    """
    if offsets is None:
        return None
    check.offsets(offsets)
    return {each: CommittedOffset(at) if isinstance(at, int) else at for each, at in offsets.items()}


def check_position(partition: TopicPartition, position: object) -> None:
    """
    :raises ConfigError: it is no position.
    """
    if not isinstance(position, AtTime):
        is_offset = isinstance(position, int) and not isinstance(position, bool)
        if not is_offset or position < EARLIEST:  # type: ignore[operator]
            raise check.InvalidOption(
                f"the position of {partition} is {check.shown(position)}; it is an offset, EARLIEST, LATEST or AtTime"
            )


def check_listener(listener: GroupListener | None) -> None:
    """
    :raises ConfigError: it is no instance of a listener.
    """
    for name in ("on_assigned", "on_revoked", "on_lost", "on_failed"):
        if listener is not None and (isinstance(listener, type) or not callable(getattr(listener, name, None))):
            raise check.InvalidOption(f"listener is {check.shown(listener)}; give an instance of a GroupListener")


def subscription_to(topics: Iterable[str] | re.Pattern[str]) -> Subscription:
    """
    The subscription to topics by name, or by an expression.

    :raises ConfigError: no topic is named.
    """
    wanted = Subscription.matching(topics.pattern) if isinstance(topics, re.Pattern) else Subscription.of(topics)
    wanted.among([])
    return wanted
