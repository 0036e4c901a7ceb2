"""Captures log messages for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from twisted.logger import LogLevel, formatEvent, globalLogPublisher


@contextmanager
def logged(least: LogLevel = LogLevel.info) -> Iterator[list[str]]:  # type: ignore[valid-type]
    """The lines logged meanwhile, of the level ``least`` and above."""
    lines: list[str] = []

    def observe(event: Any) -> None:
        if event.get("log_level", LogLevel.debug) >= least:
            lines.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    try:
        yield lines
    finally:
        globalLogPublisher.removeObserver(observe)
