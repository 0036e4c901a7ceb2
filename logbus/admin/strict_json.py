"""
Strict JSON for untrusted input (RFC 8259): refuses ambiguous and expensive documents.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

MAX_DEPTH = 32
MAX_DIGITS = 19
"""Digits of a number: as many as a signed 64-bit integer may have."""

_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)  # a string without an end goes to the end


def loads(text: bytes) -> Any:
    """
    Parse a JSON value.

    :raise ValueError: it is not UTF-8, not JSON, too deep, names a member twice, or has a number that is not finite or
        longer than :data:`MAX_DIGITS`; the message is for the client.
    """
    depth = 0
    for found in _STRUCTURE.finditer(text):
        mark = found[0]
        if mark in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(f"the body nests deeper than {MAX_DEPTH} levels")
        elif mark in b"]}":
            depth -= 1
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as e:
        raise ValueError(f"the body is not UTF-8: byte {e.start} is no part of a character") from None
    try:
        value = json.loads(
            decoded,
            object_pairs_hook=_object,
            parse_int=_whole,
            parse_float=_decimal,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as e:
        raise ValueError(f"the body is not JSON: {e.msg} at line {e.lineno}, column {e.colno}") from None
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(r"the body has half of a surrogate pair (\ud800 to \udfff), which is no character") from None
    return value


def dumps(value: Any) -> bytes:
    """Encode a value; NaN is an error."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the member {_quoted(name)} is there twice")
        members[name] = value
    return members


def _whole(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits)} characters; at most {MAX_DIGITS} digits are read")
    return int(digits)


def _decimal(digits: str) -> float:
    if len(digits) > MAX_DIGITS + 6:
        raise ValueError(f"a number has {len(digits)} characters; at most {MAX_DIGITS + 6} are read")
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {digits} is too large")
    return value


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _quoted(name: str) -> str:
    return json.dumps(name if len(name) <= 100 else name[:100] + "…")
