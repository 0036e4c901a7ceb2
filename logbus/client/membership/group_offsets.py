"""Commits and fetches a group's offsets, as a member or without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import DeferredLock

from logbus.client.cluster.cluster import Cluster
from logbus.client.group_metadata import CommittedOffset
from logbus.client.membership.group_coordinator_client import GroupCoordinatorClient
from logbus.client.membership.interface import GroupMetadata
from logbus.client.membership.offset_requests import (
    COMMITS_A_REQUEST,
    OffsetResults,
    commit_failure,
    commit_request,
    fetch_request,
    read_committed,
    read_fetched,
)
from logbus.client.retry import is_retriable
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, LogbusError
from logbus.model import TopicPartition

_OFFSET_FETCH = 9
_BY_NAME = 9
"""The last version of OffsetCommit and OffsetFetch that identifies topics by name."""


class GroupOffsets:
    """
    The committed offsets of a group. Commits are sent one after another, so the last one wins.

    :param patience: seconds for which requests are retried.
    :ivar group_id: the group's id.
    """

    def __init__(self, cluster: Cluster, group_id: str, patience: float = 30.0) -> None:
        self._cluster = cluster
        self.group_id = group_id
        self._patience = patience
        self._coordinator = GroupCoordinatorClient(cluster, group_id)
        self._commits = DeferredLock()

    @returns_deferred
    async def commit(
        self, offsets: Mapping[TopicPartition, CommittedOffset], member: GroupMetadata | None = None
    ) -> None:
        """
        Commit offsets.

        Cancelling the Deferred does not cancel a request that was sent.

        :param member: the member that commits; None: the group has no members.
        :raise CommitFailed: (in the Deferred) some partitions are not committed; the message says which and why.
        :raise LogbusError: no coordinator could be reached in time.
        """
        offsets, member = dict(offsets), member or GroupMetadata(self.group_id)
        await self._commits.acquire()
        try:
            answers: dict[TopicPartition, ApiError | None] = {}
            for first in range(0, len(offsets), COMMITS_A_REQUEST):
                some = list(offsets)[first : first + COMMITS_A_REQUEST]
                answers |= await self._ask(some, lambda left: self._send_commit(offsets, left, member))
        finally:
            self._commits.release()
        failure = commit_failure(
            member, {each: answer for each, answer in answers.items() if isinstance(answer, ApiError)}
        )
        if failure is not None:
            raise failure

    @returns_deferred
    async def fetch(
        self, partitions: Sequence[TopicPartition], *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """
        The committed offsets of partitions; None: no offset.

        :param require_stable: wait for open transactions (KIP-447).
        :raise ApiError: (in the Deferred) the broker refuses, or transactions stay open for ``patience``.
        """
        wanted = list(dict.fromkeys(partitions))
        answers = await self._ask(wanted, lambda left: self._send_fetch(left, require_stable))
        found: dict[TopicPartition, CommittedOffset | None] = {}
        for partition, answer in answers.items():
            if isinstance(answer, ApiError):
                raise answer
            found[partition] = answer
        return found

    # Internals.

    async def _send_commit(
        self, offsets: Mapping[TopicPartition, CommittedOffset], left: Sequence[TopicPartition], member: GroupMetadata
    ) -> OffsetResults[None]:
        request = commit_request(member, {each: offsets[each] for each in left})
        return read_committed(await self._coordinator.ask(request, highest=_BY_NAME))

    async def _send_fetch(
        self, left: Sequence[TopicPartition], require_stable: bool
    ) -> OffsetResults[CommittedOffset | None]:
        channel = await self._coordinator.channel()
        version = min(channel.version(_OFFSET_FETCH), _BY_NAME)
        request = fetch_request(self.group_id, left, require_stable, version)
        return read_fetched(self.group_id, await self._coordinator.ask(request, highest=version))

    async def _ask(
        self, partitions: Sequence[TopicPartition], send: Callable[[Sequence[TopicPartition]], Any]
    ) -> dict[TopicPartition, Any]:
        """
        Send a request for partitions, and retry those with retriable errors.

        :return: a result or an error for each.
        :raise LogbusError: no attempt was answered.
        """
        attempts = self._cluster.attempts(self._patience)
        answers: dict[TopicPartition, Any] = {}
        left: Sequence[TopicPartition] = partitions
        while left:
            problem: LogbusError | None = None
            try:
                found = await send(left)
                for partition in left:
                    answers[partition] = found.of(partition)
                    if isinstance(answers[partition], ApiError):
                        self._coordinator.noticed(answers[partition].code)
            except LogbusError as e:
                if not is_retriable(e):
                    raise
                problem = e
            left = [each for each in left if problem or _is_passing(answers[each])]
            if left and not await attempts.again():
                if problem is not None:
                    raise problem
                break
        return answers


def _is_passing(answer: object) -> bool:
    return isinstance(answer, ApiError) and is_retriable(answer)
