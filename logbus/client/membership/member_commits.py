"""Commits offsets as the current member of a group, also while the group rebalances."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from attrs import define, field
from twisted.internet.defer import Deferred, succeed

from logbus.client.cluster.cluster import Cluster
from logbus.client.group_metadata import MOVED_ON, CommittedOffset, GroupMetadata
from logbus.client.membership.group_offsets import GroupOffsets
from logbus.client.membership.interface import CommitFailed
from logbus.client.membership.offset_requests import commit_failure
from logbus.coroutines import sleep
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

_PASSING = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH})


class CommittingMember(Protocol):
    """The part of a membership that commits depend on."""

    @property
    def metadata(self) -> GroupMetadata:
        """See :class:`.Membership`, likewise the next two."""

    @property
    def last_metadata(self) -> GroupMetadata: ...

    @property
    def assignment(self) -> frozenset[TopicPartition]: ...

    @property
    def is_settled(self) -> bool:
        """Whether the identity in the group is known, since no join is in progress."""


@define(eq=False)
class MemberCommits:
    """
    A member's commits.

    :ivar offsets: sends them.
    :ivar patience: seconds for which a commit waits for the end of a rebalance.
    """

    _cluster: Cluster
    _member: CommittingMember
    _offsets: GroupOffsets
    _patience: float
    _settling: list[Deferred[None]] = field(factory=list, init=False)

    async def commit(self, offsets: dict[TopicPartition, CommittedOffset]) -> None:
        """
        Commit, after the rebalance that is in progress.

        :raise LogbusError: see :meth:`.Membership.commit`.
        """
        deadline = self._cluster.reactor.seconds() + self._patience
        attempt = 0
        lost: dict[TopicPartition, ApiError] = {}
        while offsets:
            if attempt or not self._member.metadata.is_member:
                await self._settled(deadline)
            member = self._member.metadata
            # The coordinator does not check who owns a partition, so do not overwrite another member's offset.
            gone = [each for each in offsets if not member.is_member or each not in self._member.assignment]
            if gone:
                lost |= self.unassigned_errors(gone)
                offsets = {each: at for each, at in offsets.items() if each not in lost}
                continue
            try:
                await self._offsets.commit(offsets, member)
                break
            except CommitFailed as e:
                if not self._may_commit_later(e, member) or self._cluster.reactor.seconds() >= deadline:
                    lost |= e.errors
                    break
                offsets = {each: offsets[each] for each in e.errors}
            attempt += 1
            await sleep(self._cluster.reactor, self._cluster.backoff.before(attempt))
        failure = commit_failure(self._member.last_metadata, lost)
        if failure is not None:
            raise failure

    def unassigned_errors(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ApiError]:
        """The errors for partitions that were revoked, or never assigned."""
        if not self._member.is_settled:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        else:
            code = ErrorCode.ILLEGAL_GENERATION if self._member.metadata.is_member else ErrorCode.UNKNOWN_MEMBER_ID
        return {each: ApiError(code) for each in partitions}

    def settle(self) -> None:
        """Let waiting commits go on, if the identity is known now."""
        if self._member.is_settled and self._settling:
            settling, self._settling = self._settling, []
            for each in settling:
                if not each.called:
                    each.callback(None)

    def _may_commit_later(self, error: CommitFailed, member: GroupMetadata) -> bool:
        """
        Whether the commit failed because of a rebalance in progress, so that the partitions may still be assigned.
        """
        if error.code not in MOVED_ON:
            return False
        return error.code in _PASSING or self._member.metadata != member or not self._member.is_settled

    def _settled(self, deadline: float) -> Deferred[None]:
        """Fires when the identity is known, or at the deadline (in the reactor's time)."""
        if self._member.is_settled:
            return succeed(None)
        waiting: Deferred[None] = Deferred(self._settling.remove)
        self._settling.append(waiting)
        left = max(0.0, deadline - self._cluster.reactor.seconds())
        return waiting.addTimeout(left, self._cluster.reactor, onTimeoutCancel=lambda *_: None)
