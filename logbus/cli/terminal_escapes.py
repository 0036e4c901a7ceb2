"""
Escapes control characters in untrusted text, such as records and broker messages, before it goes to a terminal.

Terminals obey control characters: an escape sequence in a record can change the title, clear the screen, or send input
to the shell. Output to a pipe or a file is not escaped.
"""

from __future__ import annotations

import json
import re
from typing import Any

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""C0 except tab and newline, DEL, C1, line separators and bidirectional controls."""


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def escape_controls(text: str) -> str:
    r"""Return the text with control characters escaped as in ``\x1b``, except tabs and newlines."""
    return _CONTROL.sub(_escaped, text)


def for_terminal(data: bytes) -> bytes:
    r"""Do the same for bytes, and escape bytes that are not UTF-8 as in ``\xff``."""
    return escape_controls(data.decode("utf-8", "backslashreplace")).encode()


def json_line(value: Any) -> str:
    """Return a value as JSON on one line, with all control characters escaped."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))
