"""
Keys, values and headers of records as people read them: JSON indented, text, or hexadecimal. This module is pure.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from logbus.console.figures import printable, size

FORMS = {"auto": "Fitting", "text": "Text", "hex": "Hexadecimal"}
HEX_BYTES = 1024
_DEEP = 60


@frozen
class Content:
    """
    What is shown.

    :ivar form: ``JSON``, ``text``, ``hex`` or ``null``.
    :ivar note: what else there is to say, as the size.
    """

    text: str
    form: str
    note: str = ""


def content_of(shown: Mapping[str, Any] | None, form: str = "auto") -> Content:
    """Return bytes as the HTTP API gives them for people."""
    if shown is None:
        return Content("null", "null")
    cut = f"the first bytes of {size(shown['size'])}" if shown["cut"] else size(shown["size"])
    data = b64decode(shown["base64"]) if "base64" in shown else shown["text"].encode("utf-8", "replace")
    schema = f", schema id {int.from_bytes(data[1:5], 'big')}" if len(data) > 5 and data[0] == 0 else ""
    if form == "hex" or (form != "text" and "base64" in shown):
        return Content(_hex(data[:HEX_BYTES]), "hex", cut + schema)
    text = data.decode("utf-8", "replace")
    if form == "auto" and not shown["cut"] and text[:1] in ("{", "["):
        indented = _indented(text)
        if indented is not None:
            return Content(indented, "JSON", cut)
    return Content("\n".join(map(printable, text.split("\n"))), "cut text" if shown["cut"] else "text", cut + schema)


def _indented(text: str) -> str | None:
    depth = 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        if depth > _DEEP:
            return None
    try:
        value = json.loads(text)
        return "\n".join(map(printable, json.dumps(value, indent=2, ensure_ascii=False).split("\n")))
    except (ValueError, RecursionError):
        return None


def _hex(data: bytes) -> str:
    rows = [data[at : at + 16] for at in range(0, len(data), 16)]
    return "\n".join(
        f"{16 * number:04x}  {row.hex(' '):<47}  {''.join(chr(byte) if 32 <= byte < 127 else '.' for byte in row)}"
        for number, row in enumerate(rows)
    )
