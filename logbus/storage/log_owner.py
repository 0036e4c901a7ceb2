"""The owner of a log: told of work to be done for the log later."""

from __future__ import annotations

from typing import Protocol, TypeVar

from logbus.storage.log_state import LogState
from logbus.storage.remote.remote_log import RemoteLog
from logbus.storage.segments.segment import Segment

LogType = TypeVar("LogType", contravariant=True)


class LogOwner(Protocol[LogType]):
    """The calls that a log makes to its owner (:class:`~logbus.storage.housekeeping.Housekeeping` in a broker)."""

    def touched(self, log: LogType) -> None:
        """The first write to the log since ``log.is_touched`` was last set to False."""

    def dirtied(self, log: LogType) -> None:
        """The log has unsynced data, after everything was synced."""

    def written_back(self, log: LogType) -> None:
        """The recovery point moved far enough to be checkpointed."""

    def remove_later(self, log: LogType, paths: list[str]) -> None:
        """These files left the log. They may be removed once no reader can have them open."""

    def suspected(self, log: LogType, segment: Segment) -> None:
        """A read found something that is not a batch: the segment may be damaged."""

    def remote_log(self, log: LogType) -> RemoteLog | None:
        """The remote part of a log whose topic has one; None: this broker has no remote storage."""


class NoOwner(LogOwner[LogState]):
    """The owner of a log without a manager: does nothing, and removes files at once."""

    def remove_later(self, log: LogState, paths: list[str]) -> None:
        """Remove the files at once."""
        for path in paths:
            log.disk.unlink(path)
