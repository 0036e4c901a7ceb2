"""The output of commands: tables, JSON, and a progress line on terminals."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import define, field

from logbus.cli.colours import styled
from logbus.cli.terminal_escapes import json_line

PROGRESS_INTERVAL = 0.1
"""Seconds; a progress line that changes more often cannot be read, and costs time."""

_WIDEST = 255
"""Characters; a longer cell, such as a group's id, does not widen its column."""


def print_json(value: Any) -> None:
    """Print a JSON value on one line."""
    sys.stdout.write(json_line(value) + "\n")


def as_text(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return bytes as a JSON member: text if they are UTF-8, else base64 with ``_base64`` appended to the name."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def printable(text: str) -> str:
    """Return text for a terminal: unchanged, or as JSON if it has newlines or control characters."""
    return text if text.isprintable() else json.dumps(text)


def counted(count: int, noun: str) -> str:
    """``1 record``, ``2 records``: a noun whose plural has an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table with a heading; numbers are right-aligned."""
    cells = [[("-" if cell is None else printable(str(cell))) for cell in row] for row in rows]
    widths = [
        max([len(name), *(len(row[i]) for row in cells if len(row[i]) <= _WIDEST)]) for i, name in enumerate(head)
    ]
    right = [
        bool(cells) and all(row[i].lstrip("-").isdigit() or row[i] in ("-", "") for row in cells)
        for i in range(len(head))
    ]
    lines = []
    for row in [list(head), *cells]:
        padded = [
            cell.rjust(width) if r else cell.ljust(width) for cell, width, r in zip(row, widths, right, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    lines[0] = styled(lines[0], "bold", sys.stdout)
    sys.stdout.write("\n".join(lines) + "\n")


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Group partition numbers by topic."""
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found


def partition_list(partitions: Iterable[tuple[str, int]]) -> str | None:
    """Format partitions as in ``orders:0,1 payments:2``; None if there are none."""
    return " ".join(f"{topic}:{','.join(map(str, found))}" for topic, found in by_topic(partitions).items()) or None


def _is_terminal() -> bool:
    return sys.stderr.isatty()


@define
class Progress:
    """
    A progress line on the terminal; prints nothing if there is no terminal.

    :ivar interval: seconds for which a line stays, whatever is to be shown meanwhile.
    """

    interval: float = 0.0
    _due: float = field(default=0.0, init=False)
    _shown: bool = field(default=False, init=False)
    _on: bool = field(factory=_is_terminal, init=False)

    @property
    def is_on(self) -> bool:
        """Whether there is a terminal."""
        return self._on

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._on and time.monotonic() >= self._due:
            self._due = time.monotonic() + self.interval
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._shown = True

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False
            self._due = 0.0


def quantity(number: float) -> str:
    """Format a number of bytes or records, as in ``12.3 M``."""
    for unit in ("", " k", " M", " G"):
        if abs(number) < 1000:
            return f"{number:.0f}" if not unit else f"{number:.1f}{unit}"
        number /= 1000
    return f"{number:.1f} T"
