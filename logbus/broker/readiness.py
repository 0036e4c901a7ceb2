"""
Whether clients should use a broker now.
"""

from __future__ import annotations

from attrs import define

from logbus.storage.log_manager import LogManager


@define(eq=False)
class Readiness:
    """
    Knows the reasons why clients should not use this broker.

    :ivar serving: whether the broker has started, and not begun to stop.
    """

    _logs: LogManager
    serving: bool = False

    def not_ready(self) -> list[str]:
        """Return the reasons why clients should not use this broker now; empty if they may."""
        if not self.serving:
            return ["the broker is starting or stopping"]
        reasons = [f"log directory {path} is offline" for path in self._logs.offline_directories]
        return reasons + [f"log directory {path} is full" for path in self._logs.space.full_directories]
