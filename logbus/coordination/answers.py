"""
Answers of a classic group, and records it has stored: all happens last, when the group is in its new state. Pure.

The one who is answered may ask the next thing at once, within the call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import define, field

from logbus.coordination.igroup import Change
from logbus.coordination.requests import JoinReply, JoinResult, SyncReply, SyncResult
from logbus.errors import ApiError, ErrorCode

Stored = Callable[[ApiError | None], None]
Save = Callable[[Change, Stored], None]
"""Has a record written; calls its second argument once, at once or later: None when it is durable, else the error."""

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


def answer_to(failure: ApiError) -> ErrorCode:
    """What members are told when a record of their group was not stored: what they can do about it."""
    return _ANSWERS.get(failure.code, failure.code)


@define(eq=False)
class Answers:
    """What is to happen when the group is in its new state, in the order it was asked for."""

    _save: Save
    _queue: deque[Callable[[], None]] = field(factory=deque, init=False)

    def join(self, reply: JoinReply, result: JoinResult) -> None:
        """Answer a JoinGroup."""
        self._queue.append(lambda: reply(result))

    def sync(self, reply: SyncReply, result: SyncResult) -> None:
        """Answer a SyncGroup."""
        self._queue.append(lambda: reply(result))

    def store(self, change: Change, stored: Stored) -> None:
        """Have a record written."""
        self._queue.append(lambda: self._save(change, stored))

    def flush(self) -> None:
        """Now. To be called at the end of each input."""
        while self._queue:
            self._queue.popleft()()
