"""The owner of a log: told of work to be done for the log later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from logbus.storage.log import Log
    from logbus.storage.segments.segment import Segment


class LogOwner(Protocol):
    """The calls that a log makes to its owner (:class:`~logbus.storage.housekeeping.Housekeeping` in a broker)."""

    def touched(self, log: Log) -> None:
        """The first write to the log since ``log.is_touched`` was last set to False."""

    def dirtied(self, log: Log) -> None:
        """The log has unsynced data, after everything was synced."""

    def written_back(self, log: Log) -> None:
        """The recovery point moved far enough to be checkpointed."""

    def remove_later(self, log: Log, paths: list[str]) -> None:
        """These files left the log. They may be removed once no reader can have them open."""

    def suspected(self, log: Log, segment: Segment) -> None:
        """A read found something that is not a batch: the segment may be damaged."""


class NoOwner:
    """The owner of a log without a manager: does nothing, and removes files at once."""

    def touched(self, log: Log) -> None:
        """Ignored."""

    def dirtied(self, log: Log) -> None:
        """Ignored."""

    def written_back(self, log: Log) -> None:
        """Ignored."""

    def suspected(self, log: Log, segment: Segment) -> None:
        """Ignored."""

    def remove_later(self, log: Log, paths: list[str]) -> None:
        """Remove the files at once."""
        for path in paths:
            log.disk.unlink(path)
