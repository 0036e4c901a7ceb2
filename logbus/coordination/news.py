"""
What an operator reads of groups: one line in the log for each new generation (or epoch), with nobody in it in the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from twisted.logger import Logger

from logbus.coordination.igroup import Change, Group
from logbus.wire.messages.group_log import ConsumerGroupMetadataValue, GroupMetadataValue

MAX_NAME = 100
"""How much of a group's id a line shows: a client may send 32 kB of anything."""

_log = Logger()


def named(group_id: str) -> str:
    """A group's id for a line in the log: quoted, and not too long."""
    return repr(group_id if len(group_id) <= MAX_NAME else f"{group_id[:MAX_NAME]}…")


def tell(group_id: str, changes: Sequence[Change], group: Group | None) -> None:
    """
    Say what records that were just appended mean for a group, if they make a generation or an epoch.

    :param changes: one batch. Of several epochs in it the last one counts.
    :param group: the group as it is with them.
    """
    for _, value in reversed(changes):
        if isinstance(value, GroupMetadataValue):
            _tell(group_id, "generation", value.generation, len(value.members))
            return
        if isinstance(value, ConsumerGroupMetadataValue) and group is not None:
            _tell(group_id, "epoch", value.epoch, group.size)
            return


def _tell(group_id: str, kind: str, number: int, members: int) -> None:
    how = (
        "group {group} is at {kind} {number}, with {members} members"
        if members
        else ("group {group} is empty, at {kind} {number}")
    )
    _log.info(how, group=named(group_id), kind=kind, number=number, members=members)
