"""
Queues a classic group's responses and record writes until the group has reached its new state. Pure.

A callback may send the next request at once, within the call; it must find the group in a consistent state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import define, field

from logbus.coordination.classic.requests import JoinCallback, JoinResult, SyncCallback, SyncResult
from logbus.coordination.group import Change
from logbus.errors import ApiError, ErrorCode

Stored = Callable[[ApiError | None], None]
Save = Callable[[Change, Stored], None]
"""Writes a record. Calls its second argument once, at once or later: with None when it is durable, else the error."""

_ANSWERS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def response_error(failure: ApiError) -> ErrorCode:
    """The error for members whose group's record was not stored (Kafka: appendGroupMetadataErrorToResponseError)."""
    return _ANSWERS.get(failure.code, failure.code)


@define(eq=False)
class ResponseQueue:
    """Responses and record writes that wait until the group is in its new state, in order."""

    _save: Save
    _queue: deque[Callable[[], None]] = field(factory=deque, init=False)

    def join(self, reply: JoinCallback, result: JoinResult) -> None:
        """Answer a JoinGroup."""
        self._queue.append(lambda: reply(result))

    def sync(self, reply: SyncCallback, result: SyncResult) -> None:
        """Answer a SyncGroup."""
        self._queue.append(lambda: reply(result))

    def store(self, change: Change, stored: Stored) -> None:
        """Write a record."""
        self._queue.append(lambda: self._save(change, stored))

    def flush(self) -> None:
        """Run the queue. Called at the end of each input."""
        while self._queue:
            self._queue.popleft()()
