"""
Logs each new generation (or epoch) of a group.
"""

from __future__ import annotations

from collections.abc import Sequence

from twisted.logger import Logger

from logbus.coordination.group import Change, Group
from logbus.wire.messages.group_log import ConsumerGroupMetadataValue, GroupMetadataValue, ShareGroupMetadataValue
from logbus.wire.messages.streams_group_log import StreamsGroupMetadataValue

MAX_ID_LENGTH = 100
"""Number of characters of a group's id shown in the log; a client may send 32 kB of any text."""

_MODERN = (ConsumerGroupMetadataValue, ShareGroupMetadataValue, StreamsGroupMetadataValue)

_log = Logger()


def loggable_id(group_id: str) -> str:
    """A group's id for the log: quoted and shortened."""
    return repr(group_id if len(group_id) <= MAX_ID_LENGTH else f"{group_id[:MAX_ID_LENGTH]}…")


def log_generation(group_id: str, changes: Sequence[Change], group: Group | None) -> None:
    """
    Log the generation or epoch in records that were just appended, if there is one.

    :param changes: one batch. Of several epochs in it the last one is logged.
    :param group: the group with the changes applied.
    """
    for _, value in reversed(changes):
        if isinstance(value, GroupMetadataValue):
            _log_generation(group_id, "generation", value.generation, len(value.members))
            return
        if isinstance(value, _MODERN) and group is not None:
            _log_generation(group_id, "epoch", value.epoch, group.size)
            return


def _log_generation(group_id: str, kind: str, number: int, members: int) -> None:
    how = (
        "group {group} is at {kind} {number}, with {members} members"
        if members
        else ("group {group} is empty, at {kind} {number}")
    )
    _log.info(how, group=loggable_id(group_id), kind=kind, number=number, members=members)
