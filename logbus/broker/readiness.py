"""
Whether clients should use a broker now.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from logbus.storage.log_manager import LogManager


@define(eq=False)
class Readiness:
    """
    Knows the reasons why clients should not use this broker, or the brokers that are run with it as one.

    :ivar is_cut_off: whether others may lead by now what this broker led, and it cannot know.
    :ivar serving: whether the broker has started, and not begun to stop.
    :ivar elsewhere: the reasons of the others.
    """

    _logs: LogManager
    is_cut_off: Callable[[], bool]
    serving: bool = False
    elsewhere: list[str] = field(factory=list)

    def not_ready(self) -> list[str]:
        """Return the reasons why clients should not use these brokers now; empty if they may."""
        return self.here() + self.elsewhere

    def here(self) -> list[str]:
        """Return the reasons that are this broker's."""
        if not self.serving:
            return ["the broker is starting or stopping"]
        reasons = [f"log directory {path} is offline" for path in self._logs.offline_directories]
        if self.is_cut_off():
            reasons.append("the broker is cut off from the metadata store and all followers")
        return reasons + [f"log directory {path} is full" for path in self._logs.space.full_directories]
