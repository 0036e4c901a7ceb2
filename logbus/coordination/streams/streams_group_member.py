"""
A member of a streams group (Kafka: StreamsGroupMember): a thread of an application's process, and its position on the
way to its target. Pure.

The two change at different times and have separate records.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from attrs import field, frozen

from logbus.coordination.group import MEMBER_BYTES, TEXT_BYTES
from logbus.coordination.streams.tasks import NO_TASK_SETS, TaskSets

JOINING = 0
"""The epoch of a member that joins, which has no tasks yet."""

LEFT = -1
"""The epoch in the last heartbeat of a member that leaves."""

AWAY = -2
"""The epoch of a static member that leaves temporarily; there are none in streams groups yet, in Kafka neither."""

Task = tuple[str, int]
"""A subtopology's id, and a partition."""

Endpoint = tuple[str, int]
"""Host and port."""


class MemberState(IntEnum):
    """The state of a member's reconciliation; the values are those in its record (Kafka: MemberState)."""

    STABLE = 1
    """It has all tasks of its epoch's target."""

    UNREVOKED_TASKS = 2
    """It must give up tasks and confirm that; it stays in its epoch until then."""

    UNRELEASED_TASKS = 3
    """It waits for tasks that others have not given up yet."""

    UNKNOWN = 127
    """A state of a later release: the member must join again."""


@frozen
class StreamsGroupMember:
    """
    A member, as it described itself.

    :ivar topology_epoch: the epoch of the topology that it runs.
    :ivar process_id: the process that it is a thread of; a process has a task at most once, in whatever role.
    :ivar endpoint: where its process answers interactive queries; None: nowhere.
    :ivar client_tags: names and values that standby tasks are spread by, sorted.
    """

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()

    @property
    def memory(self) -> int:
        """About how many bytes it takes."""
        texts = [self.member_id, self.rack_id or "", self.client_id, self.process_id]
        texts += [] if self.endpoint is None else [self.endpoint[0]]
        texts += [text for tag in self.client_tags for text in tag]
        return MEMBER_BYTES + sum(len(text) + TEXT_BYTES for text in texts)


@frozen
class StreamsPosition:
    """
    A member's epoch and present tasks.

    :ivar epoch: the epoch that it has reached.
    :ivar previous_epoch: the one before; a member that still sends it has missed a response.
    :ivar assigned: the tasks that it may work on.
    :ivar revoking: the tasks that it must give up and may still be working on.
    :ivar since: for each active task among both, the epoch in which the member got it. Commits of an earlier epoch are
        not the member's (KIP-1251).
    """

    epoch: int = JOINING
    previous_epoch: int = JOINING
    state: MemberState = MemberState.STABLE
    assigned: TaskSets = NO_TASK_SETS
    revoking: TaskSets = NO_TASK_SETS
    since: Mapping[Task, int] = field(factory=dict)

    @property
    def held(self) -> TaskSets:
        """The tasks that others may have to wait for."""
        return self.assigned.union(self.revoking)
