"""
Text from elsewhere, such as records and broker messages, made harmless for a terminal.

Terminals obey control characters: an escape sequence in a record can change the title, clear the screen, or send input
to the shell. What goes into a pipe or a file is left as it is.
"""

from __future__ import annotations

import json
import re
from typing import Any

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""C0 but for tab and newline, DEL, C1, and what turns the direction of writing."""


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def escape_controls(text: str) -> str:
    r"""The text with control characters spelled as ``\x1b``; tabs and newlines stay."""
    return _CONTROL.sub(_escaped, text)


def for_terminal(data: bytes) -> bytes:
    r"""The same for bytes; those that are not UTF-8 are spelled as ``\xff``, too."""
    return escape_controls(data.decode("utf-8", "backslashreplace")).encode()


def json_line(value: Any) -> str:
    """A value as JSON on one line, in which no control character stands as itself."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))
