"""
Reads the target and the scope of an offset reset from the command line.
"""

from __future__ import annotations

import re

from logbus.errors import LogbusError
from logbus.model import topic_name_problem

_UNITS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_PARTS = re.compile(r"([0-9]{1,15})(ms|[wdhms])")
_ISO_PERIOD = re.compile(
    r"P(?!$)(?:(?P<w>\d{1,9})W)?(?:(?P<d>\d{1,9})D)?"
    r"(?:T(?!$)(?:(?P<h>\d{1,9})H)?(?:(?P<m>\d{1,9})M)?(?:(?P<s>\d{1,9}(?:\.\d{1,3})?)S)?)?",
    re.ASCII,
)
_MAX_INT32 = 2**31 - 1
MAX_OFFSET = 2**63 - 1


def parse_duration(text: str) -> int:
    """
    Parse a time span like ``1h30m``, ``250ms``, or ISO 8601's ``PT1H30M``, ``P7D``, into ms.

    :raise LogbusError: it has neither form.
    """
    iso = _ISO_PERIOD.fullmatch(text.upper())
    if iso is not None:
        return sum(round(float(number) * _UNITS[unit]) for unit, number in iso.groupdict().items() if number)
    parts = _PARTS.findall(text.lower())
    if not parts or "".join(number + unit for number, unit in parts) != text.lower():
        raise LogbusError(f"{text!r} is not a time span; write 1h30m, 250ms, or PT1H30M or P7D as in ISO 8601")
    return sum(int(number) * _UNITS[unit] for number, unit in parts)


def parse_scope(text: str) -> tuple[str, tuple[int, ...] | None]:
    """
    Parse ``orders`` or ``orders:0,2`` into a topic and its partitions (None: all).

    :raise LogbusError: it has neither form.
    """
    topic, colon, rest = text.partition(":")
    problem = topic_name_problem(topic)
    if problem is not None:
        raise LogbusError(problem)
    if not colon:
        return topic, None
    numbers = [each.strip() for each in rest.split(",")]
    for each in numbers:
        if not (each.isascii() and each.isdigit() and len(each) < 11 and int(each) <= _MAX_INT32):
            raise LogbusError(f"{each!r} in {text!r} is not the number of a partition; write {topic}:0,1,2")
    return topic, tuple(sorted({int(each) for each in numbers}))
