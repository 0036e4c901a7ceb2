"""
Numbers, sizes, durations and times as short text. This module is pure.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
THIN_SPACE = "\u2009"
MOST_CHARACTERS = 120
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def number(value: int | float) -> str:
    """Return a number with thin spaces between thousands."""
    if isinstance(value, float) and not value.is_integer() and abs(value) < 100:
        return f"{value:.1f}"
    return f"{value:,.0f}".replace(",", THIN_SPACE)


def size(value: float) -> str:
    """Return a number of bytes with its binary unit: ``1.5 MiB``."""
    rest = float(value)
    for unit in _SIZES:
        if abs(rest) < 1023.95 or unit == _SIZES[-1]:
            break
        rest /= 1024
    return f"{rest:.0f} {unit}" if unit == "B" or abs(rest) >= 99.95 else f"{rest:.1f} {unit}"


def rate(value: float) -> str:
    """Return bytes per second."""
    return f"{size(value)}/s"


def seconds(value: float) -> str:
    """Return a duration with the unit that suits it: ``1.2 ms``, ``3.4 s``, ``5 min``, ``2 h 3 min``, ``4 d 5 h``."""
    if value < 0.9995:
        return f"{value * 1000:.1f} ms" if value < 0.09995 else f"{value * 1000:.0f} ms"
    if value < 59.95:
        return f"{value:.1f} s"
    minutes = round(value / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def moment(milliseconds: int) -> str:
    """Return a time in UTC; a text that says so for one that no calendar has."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms since 1970"


def iso_time(milliseconds: int) -> str:
    """Return a time as ISO 8601 has it, with its zone; for one that no calendar has, the number."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)


def count(value: int, one: str, many: str = "") -> str:
    """Return a number with its noun: ``1 topic``, ``2 topics``."""
    return f"{number(value)} {one if value == 1 else many or one + 's'}"


def printable(text: str) -> str:
    """Return a text in which what is not seen, or changes the direction of others, is a replacement character."""
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text whose middle is left out if it is long."""
    if len(text) <= most:
        return printable(text)
    half = (most - 1) // 2
    return printable(f"{text[:half]}…{text[-half:]}")
