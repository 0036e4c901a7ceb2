"""Colours on terminals: none in files and pipes, none with ``NO_COLOR`` (https://no-color.org) or ``TERM=dumb``."""

from __future__ import annotations

import os
from typing import Literal, TextIO

Style = Literal["bold", "red", "yellow", "cyan"]

_CODES: dict[Style, str] = {"bold": "1", "red": "1;31", "yellow": "33", "cyan": "36"}
"""Of ECMA-48's SGR. Red is bold, too: it is the darkest on many terminals."""


def styled(text: str, style: Style, stream: TextIO) -> str:
    """Return text for a stream: between escape sequences, if it is a terminal that shows colours."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"
