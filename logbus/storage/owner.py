"""
Who keeps a log, and is told what must be done for it later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from logbus.storage.log import Log
    from logbus.storage.segment import Segment


class LogOwner(Protocol):
    """What a log tells the one who keeps it."""

    def touched(self, log: Log) -> None:
        """The log was written to for the first time since ``log.is_touched`` was last set to False."""

    def dirtied(self, log: Log) -> None:
        """Something of the log is not synced, after everything was."""

    def written_back(self, log: Log) -> None:
        """The log's recovery point moved far enough to be put down."""

    def remove_later(self, log: Log, paths: list[str]) -> None:
        """Files that are not the log's any more, and may go once nobody can be reading them."""

    def suspected(self, log: Log, segment: Segment) -> None:
        """Something that is no batch was met in a segment, which may be damaged."""


class Alone:
    """The owner of a log that nobody manages: files go when they are not needed."""

    def touched(self, log: Log) -> None:
        """Nobody keeps count."""

    def dirtied(self, log: Log) -> None:
        """Nobody is in a hurry."""

    def written_back(self, log: Log) -> None:
        """Nobody puts down recovery points."""

    def suspected(self, log: Log, segment: Segment) -> None:
        """Nobody looks into it."""

    def remove_later(self, log: Log, paths: list[str]) -> None:
        """At once, then."""
        for path in paths:
            log.disk.unlink(path)
