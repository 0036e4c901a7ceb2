"""Durations as options spell them: ``10 minutes``, ``1 hour 30 minutes``. Pure: they are checked before Spark runs."""

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
MOST = 1000 * 365 * _UNITS["day"]
"""Longer than anything that is meant, and short enough for Spark's numbers."""


def micros(option: str, text: str, *, least: int = 1) -> int:
    """
    A duration in microseconds.

    Months and years are none: they are not always as long.

    :param option: what it is of, for the error.
    :param least: the shortest that may be, in microseconds.
    :raise OptionError: it is none, or too short or long.
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
    if not least <= found <= MOST:
        raise OptionError(f"{option} is {text!r}; it must be {'longer' if found < least else 'shorter'}")
    return found


def spelled(duration: int) -> str:
    """Microseconds as Spark reads them. In days it would take those of the calendar, where clocks are changed."""
    return f"{duration} microseconds"


def in_words(duration: int) -> str:
    """Microseconds as people read them: the largest units first."""
    parts = []
    left = duration
    for unit, length in reversed(_UNITS.items()):
        number, left = divmod(left, length)
        if number:
            parts.append(f"{number} {unit}{'s' if number > 1 else ''}")
    return " ".join(parts) or "0 seconds"
