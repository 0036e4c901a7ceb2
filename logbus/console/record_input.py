"""
Keys and values as people type them: text, JSON, base64 or hexadecimal digits. This module is pure.
"""

from __future__ import annotations

import json
from base64 import b64decode

TEXT, JSON, BASE64, HEX = "text", "json", "base64", "hex"
FORMS = {TEXT: "Text", JSON: "JSON", BASE64: "Base64", HEX: "Hexadecimal"}


def bytes_of(text: str, form: str) -> bytes:
    """
    Return the bytes that a text stands for. JSON is checked, and kept as it was typed.

    :raise ValueError: it stands for none, with a sentence that says why.
    """
    if form == BASE64:
        try:
            return b64decode("".join(text.split()), validate=True)
        except ValueError:
            raise ValueError("This is not base64.") from None
    if form == HEX:
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise ValueError("This must be hexadecimal digits, two for each byte.") from None
    if form == JSON:
        try:
            json.loads(text, parse_constant=_refuse)
        except json.JSONDecodeError as e:
            raise ValueError(f"This is not JSON: {e.msg} at line {e.lineno}, column {e.colno}.") from None
        except (ValueError, RecursionError) as e:
            raise ValueError(f"This is not JSON: {e}.") from None
    elif form != TEXT:
        raise ValueError(f"The form must be one of {', '.join(FORMS)}.")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("This has half of a surrogate pair, which is no character.") from None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number")
