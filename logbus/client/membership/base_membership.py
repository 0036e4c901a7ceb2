"""
A consumer's membership in a group: the common part of both protocols' memberships. It joins the group, stays in it,
and rejoins by itself. It tells its :class:`.GroupListener` which partitions the consumer has, and awaits the listener's
result before it goes on.

A membership passes events to its state machine, and executes the actions that this returns. The state machine itself
never waits.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.client.background_tasks import BackgroundTasks
from logbus.client.cluster.cluster import Cluster
from logbus.client.group_metadata import CommittedOffset
from logbus.client.membership.actions import Action, ListenerEvent, NotifyListener, ReportFailure, ReportLeft
from logbus.client.membership.group_coordinator_client import GroupCoordinatorClient
from logbus.client.membership.group_offsets import GroupOffsets
from logbus.client.membership.interface import GroupListener, GroupMetadata, GroupOptions
from logbus.client.membership.member_commits import MemberCommits
from logbus.client.membership.missing_topics import MissingTopics
from logbus.client.membership.poll_watch import PollWatch
from logbus.client.membership.subscription import Subscription
from logbus.client.retry import ClientClosed
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition

LEAVING_TAKES = 5.0
"""Seconds to wait for the coordinator when leaving; after that the session expires there."""


class MemberStateMachine(Protocol):
    """The common interface of both state machines."""

    member_id: str
    owned: frozenset[TopicPartition]
    paused: bool

    @property
    def generation(self) -> int: ...
    @property
    def phase(self) -> Enum: ...
    def begin(self) -> list[Action]: ...
    def late(self) -> list[Action]: ...
    def stop(self, *, leave: bool) -> list[Action]: ...
    def listener_done(self) -> list[Action]: ...


class Membership:
    """
    A consumer's membership in a group. Made by :func:`~logbus.client.membership.membership_of`.

    :param listener: called with one change after another.
    :ivar options: as given.
    """

    _log = Logger()
    _state_machine: MemberStateMachine

    def __init__(self, cluster: Cluster, options: GroupOptions, listener: GroupListener) -> None:
        self.options = options
        self._cluster = cluster
        self._clock = cluster.reactor
        self._listener = listener
        self._coordinator = GroupCoordinatorClient(cluster, options.group_id)
        self._offsets = GroupOffsets(cluster, options.group_id, options.request_timeout)
        self._commits = MemberCommits(cluster, self, self._offsets, options.request_timeout)
        self._subscription: Subscription | None = None
        self._missing = MissingTopics(cluster, options.group_id)
        self._start = BackgroundTasks(self._task_failed).start
        self._stopping: list[Deferred[None]] = []
        self._poll_watch = PollWatch(self._clock, options.max_poll_interval, self._late)
        self._closed = False
        self._last_metadata = GroupMetadata(options.group_id, 0, group_instance_id=options.group_instance_id)

    @property
    def state(self) -> str:
        """One word for display: ``unjoined``, ``joining``, ``stable``, ...; differs between protocols."""
        return str(self._state_machine.phase.value)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """
        The partitions that the listener was told of: from before ``on_assigned`` is called until the result of
        ``on_revoked`` has fired.
        """
        return self._state_machine.owned

    @property
    def metadata(self) -> GroupMetadata:
        """The current identity in the group; generation −1 without one. Read it anew for each commit."""
        generation = self._state_machine.generation
        member_id = "" if generation < 0 else self._state_machine.member_id
        return GroupMetadata(self.options.group_id, generation, member_id, self.options.group_instance_id)

    @property
    def last_metadata(self) -> GroupMetadata:
        """
        The current or last identity. After the membership was lost it keeps its generation and member id here, so that
        the coordinator rejects commits made with it. Generation 0 before the first membership.
        """
        self._remember()
        return self._last_metadata

    def polled(self) -> None:
        """
        Note that the application asked for records. Call it each time, also while it waits for records, at least every
        ``max_poll_interval``. A member that has left because it was late joins again.
        """
        self._poll_watch.polled()
        if self._state_machine.paused and not self._closed:
            self._begin()

    def unsubscribe(self) -> Deferred[None]:
        """Give up all partitions and leave; fires when that is done. :meth:`subscribe` starts again."""
        return self._stop(self._leaves(None))

    def close(self, *, leave: bool | None = None) -> Deferred[None]:
        """
        End the membership; fires when the listener was called (``on_revoked``) and the coordinator was told. Never
        fails.

        :param leave: send LeaveGroup, so that others take over at once; default: unless the member is static.
        """
        self._closed = True
        return self._stop(self._leaves(leave))

    def rejoin(self, reason: str) -> None:
        """Trigger a rebalance (classic); does nothing in the consumer protocol, where the broker decides."""

    def committed(self, partitions: Sequence[TopicPartition]) -> Deferred[dict[TopicPartition, CommittedOffset | None]]:
        """
        The group's committed offsets for partitions; None: no offset.

        :raise ApiError: (in the Deferred) the broker refuses, or transactions stay open for ``request_timeout``.
        """
        return self._offsets.fetch(partitions, require_stable=self.options.require_stable)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> Deferred[None]:
        """
        Commit as the current member. During a rebalance, wait for its end, and commit the partitions that are still
        assigned.

        :raise CommitFailed: (in the Deferred) the group has rebalanced, a partition is not assigned (any more), or its
            offset is refused. The others are committed.
        :raise LogbusError: no coordinator could be reached within ``request_timeout``.
        """
        return Deferred.fromCoroutine(self._commits.commit(dict(offsets)))

    def unassigned_errors(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ApiError]:
        """The errors for partitions that were revoked, or never assigned, as in :class:`.CommitFailed`."""
        return self._commits.unassigned_errors(partitions)

    # Overridden by each protocol.

    def subscribe(self, subscription: Subscription) -> None:
        """Subscribe to this from now on: join, or rebalance. Returns at once; the listener is called later."""
        raise NotImplementedError

    def _do(self, actions: Sequence[Action]) -> None:
        raise NotImplementedError

    @property
    def is_settled(self) -> bool:
        """Whether the identity in the group is known, since no join is in progress."""
        raise NotImplementedError

    def _stop_activity(self) -> None:
        """Stop all activity: the membership has ended."""
        raise NotImplementedError

    def _leaves(self, leave: bool | None) -> bool:
        return self.options.group_instance_id is None if leave is None else leave

    def _closed_under(self, error: ClientClosed) -> ClientClosed:
        """The error that ends the membership when the client is closed under it."""
        return ClientClosed(f"group {self.options.group_id!r}: {error}")

    # Internals.

    def _remember(self) -> None:
        """Save the identity for :attr:`last_metadata`."""
        metadata = self.metadata
        if metadata.is_member:
            self._last_metadata = metadata

    def _begin(self) -> None:
        self._poll_watch.start()
        self._do(self._state_machine.begin())

    def _stop(self, leave: bool) -> Deferred[None]:
        self._subscription = None
        self._missing.stop()
        ended: Deferred[None] = Deferred()
        self._stopping.append(ended)
        self._do(self._state_machine.stop(leave=leave))
        return ended

    def _do_common(self, action: Action) -> None:
        if isinstance(action, NotifyListener):
            self._start(self._notify(action))
        elif isinstance(action, ReportFailure):
            self._missing.stop()
            self._log.error("{error}", error=action.error)
            self._ended()
            self._start(self._call(self._listener.on_failed, action.error))
        elif isinstance(action, ReportLeft):
            self._ended()

    def _ended(self) -> None:
        self._stop_activity()
        self._poll_watch.stop()
        stopping, self._stopping = self._stopping, []
        for each in stopping:
            if not each.called:
                each.callback(None)

    async def _notify(self, action: NotifyListener) -> None:
        method = {
            ListenerEvent.ASSIGNED: self._listener.on_assigned,
            ListenerEvent.REVOKED: self._listener.on_revoked,
            ListenerEvent.LOST: self._listener.on_lost,
        }[action.what]
        names = ", ".join(str(each) for each in sorted(action.partitions)[:10])
        self._log.info(
            "group {group}: {count} partitions {what}: {names}",
            group=self.options.group_id,
            count=len(action.partitions),
            what=action.what.value,
            names=names,
        )
        await self._call(method, action.partitions)
        self._do(self._state_machine.listener_done())

    async def _call(self, method: Any, argument: Any) -> None:
        try:
            waiting = method(argument)
            if waiting is not None:
                await waiting
        except (Exception, CancelledError):
            self._log.failure("a listener of group {group} failed", group=self.options.group_id)

    async def _send_leave(self, send: Callable[[], Coroutine[Deferred[Any], Any, int]]) -> None:
        """Send a request to leave, at most twice and for a short time, since callers wait for it."""

        async def say() -> None:
            for _ in range(2):
                try:
                    code = await send()
                except LogbusError as e:
                    self._log.debug("group {group}: {error}", group=self.options.group_id, error=e)
                    continue
                self._coordinator.noticed(code)
                if not code:
                    return

        try:
            await Deferred.fromCoroutine(say()).addTimeout(LEAVING_TAKES, self._clock)
        except Exception as e:
            self._log.debug("group {group}: {error}", group=self.options.group_id, error=e)

    def _late(self) -> None:
        self._log.warn(
            "group {group}: the consumer has not polled for {seconds:g} s, and leaves the group until it does: "
            "process fewer records at a time, or raise max_poll_interval",
            group=self.options.group_id,
            seconds=self.options.max_poll_interval,
        )
        self._do(self._state_machine.late())

    def _task_failed(self, failure: Failure) -> None:
        self._log.failure("group {group}", failure=failure, group=self.options.group_id)


def code_of(error: LogbusError) -> ErrorCode:
    """The error code for a failure to reach the coordinator."""
    return error.code if isinstance(error, ApiError) else ErrorCode.COORDINATOR_NOT_AVAILABLE
