"""
Compares the records of a topic with those that a test expects. Pure.

What is expected of a record is its value (bytes, text or None), a pair of key and value, or a mapping of any of
:data:`FIELDS`; what is left out may be anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logbus.client.consumer.consumer_record import ConsumerRecord

FIELDS = ("key", "value", "headers", "timestamp", "partition", "offset")

LONGEST = 200
"""Characters of a value that are shown."""
CONTEXT = 3
"""Equal records that are shown on both sides of a difference."""

Expected = bytes | str | None | Sequence[Any] | Mapping[str, Any]


def as_fields(expected: Expected) -> dict[str, Any]:
    """
    The expected values of a record's fields, with texts as their bytes.

    :raise TypeError: it cannot be what is expected of a record.
    """
    if expected is None or isinstance(expected, (bytes, str)):
        return {"value": _bytes(expected)}
    if isinstance(expected, Mapping):
        for name in expected:
            if name not in FIELDS:
                raise TypeError(f"{name!r} is no field of a record; there are {', '.join(FIELDS)}")
        return {name: _normal(name, value) for name, value in expected.items()}
    if isinstance(expected, tuple) and len(expected) == 2:
        return {"key": _bytes(expected[0]), "value": _bytes(expected[1])}
    raise TypeError(f"{expected!r}: expected of a record are a value, a pair of key and value, or a dict of its fields")


def differences(records: Sequence[ConsumerRecord], expected: Sequence[Expected], *, in_order: bool = True) -> list[str]:
    """
    Lines that show how the records differ from the expected ones; none if they are as expected.

    A line begins with ``-`` for what is expected and missing, ``+`` for what there is instead, and two spaces for both.

    :param in_order: whether their order matters.
    """
    wanted = [as_fields(each) for each in expected]
    if in_order:
        return _ordered(records, wanted)
    met = _paired(records, wanted)
    used = set(met.values())
    missing = [f"- {_shown(each)}" for number, each in enumerate(wanted) if number not in met]
    return missing + [f"+ {_shown_record(record)}" for place, record in enumerate(records) if place not in used]


def _paired(records: Sequence[ConsumerRecord], wanted: Sequence[dict[str, Any]]) -> dict[int, int]:
    """
    The place of a record for each expectation that one fulfils, so that as many are fulfilled as can be: a record that
    several expect goes to the one that no other fulfils (a maximum matching, by augmenting paths).
    """
    met: dict[int, int] = {}
    unused, used = dict.fromkeys(range(len(records))), dict[int, int]()
    # Those that a search has seen which found nothing are in no later one's way.
    passed: set[int] = set()
    for start in range(len(wanted)):
        takers: dict[int, int] = {}
        asking = deque([start])
        free: int | None = None
        while asking and free is None:
            number = asking.popleft()
            free = next((place for place in unused if _matches(records[place], wanted[number])), None)
            if free is None:
                others = (place for place in used if place not in takers and place not in passed)
                fitting = [place for place in others if _matches(records[place], wanted[number])]
                takers.update(dict.fromkeys(fitting, number))
                asking += [used[place] for place in fitting]
            else:
                takers[free] = number
                del unused[free]
        if free is None:
            passed |= takers.keys()
        while free is not None:
            taker = takers[free]
            before = met.get(taker)
            met[taker], used[free] = free, taker
            free = before
    return met


def _ordered(records: Sequence[ConsumerRecord], wanted: Sequence[dict[str, Any]]) -> list[str]:
    # Each record stands for the first expectation that it fulfils, so that sequences can be compared.
    if len(records) == len(wanted) and all(map(_matches, records, wanted)):
        return []
    names = [_whole(each) for each in wanted]
    found = [
        next((name for name, each in zip(names, wanted, strict=True) if _matches(record, each)), f"#{record!r}")
        for record in records
    ]
    lines: list[str] = []
    for kind, a, b, c, d in SequenceMatcher(None, names, found, autojunk=False).get_opcodes():
        if kind == "equal":
            lines += _same(records[c:d], at_start=not a, at_end=b == len(names))
        else:
            lines += [f"- {_shown(each)}" for each in wanted[a:b]] + [
                f"+ {_shown_record(record)}" for record in records[c:d]
            ]
    return lines


def _same(records: Sequence[ConsumerRecord], *, at_start: bool, at_end: bool) -> list[str]:
    before, after = (0 if at_start else CONTEXT), (0 if at_end else CONTEXT)
    if len(records) <= before + after + 1:
        return [f"  {_shown_record(record)}" for record in records]
    return [
        *(f"  {_shown_record(record)}" for record in records[:before]),
        f"  ... {len(records) - before - after} as expected",
        *(f"  {_shown_record(record)}" for record in records[len(records) - after :]),
    ]


def _matches(record: ConsumerRecord, wanted: Mapping[str, Any]) -> bool:
    return all(getattr(record, name) == value for name, value in wanted.items())


def _whole(fields: Mapping[str, Any]) -> str:
    """What tells an expectation from others; what is shown of two long ones may be the same."""
    return repr([(name, fields[name]) for name in FIELDS if name in fields])


def _shown(fields: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_short(fields[name])}" for name in FIELDS if name in fields)


def _shown_record(record: ConsumerRecord) -> str:
    return f"{record.partition}:{record.offset} {shown_content(record)}"


def shown_content(record: ConsumerRecord) -> str:
    """A record's key, value and headers, in a line."""
    parts = [] if record.key is None else [f"key={_short(record.key)}"]
    parts.append(f"value={_short(record.value)}")
    if record.headers:
        parts.append(f"headers={_short(list(record.headers))}")
    return " ".join(parts)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _normal(name: str, value: Any) -> Any:
    if name in ("key", "value"):
        return _bytes(value)
    if name == "headers":
        pairs = value.items() if isinstance(value, Mapping) else value
        return tuple((key, _bytes(each)) for key, each in pairs)
    return value
