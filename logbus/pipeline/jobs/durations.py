"""Parses and formats durations such as ``1 hour 30 minutes``, so that options are checked before Spark starts. Pure."""

from __future__ import annotations

from logbus.pipeline.errors import OptionError

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_DIGITS = 18
MAX_DURATION = 1000 * 365 * _UNITS["day"]
"""A limit that no sensible duration reaches, and that does not overflow in Spark."""


def duration_micros(option: str, text: str, *, least: int = 1) -> int:
    """
    Parse a duration to microseconds.

    Months and years are not accepted, since their length varies.

    :param option: the name of the option, for the error.
    :param least: the shortest allowed, in microseconds.
    :raise OptionError: it is invalid, too short or too long.
    """
    words = text.lower().split()
    pairs = list(zip(words[::2], words[1::2], strict=False))
    units = [_UNITS.get(unit.removesuffix("s"), 0) for _, unit in pairs]
    is_read = all(number.isascii() and number.isdigit() and len(number) <= _DIGITS for number, _ in pairs)
    if not words or len(words) % 2 or not is_read or not all(units):
        raise OptionError(
            f"{option} is {text!r}; it takes a duration such as '10 minutes' or '1 hour 30 minutes', "
            f"in {', '.join(f'{unit}s' for unit in reversed(_UNITS))}"
        )
    found = sum(int(number) * unit for (number, _), unit in zip(pairs, units, strict=True))
    if not least <= found <= MAX_DURATION:
        raise OptionError(f"{option} is {text!r}; it must be {'longer' if found < least else 'shorter'}")
    return found


def spark_duration(duration: int) -> str:
    """A duration for Spark, in microseconds: Spark's days are calendar days, which vary with daylight saving time."""
    return f"{duration} microseconds"


def readable_duration(duration: int) -> str:
    """A duration for people: the largest units first."""
    parts = []
    left = duration
    for unit, length in reversed(_UNITS.items()):
        number, left = divmod(left, length)
        if number:
            parts.append(f"{number} {unit}{'s' if number > 1 else ''}")
    return " ".join(parts) or "0 seconds"
