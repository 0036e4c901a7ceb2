"""
Conditions that records must meet to be printed, such as ``key=42``, ``value.user.id>=7`` and ``header.trace~^ab``.
Pure.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.records.record import Record

AnyRecord = Record | ConsumerRecord

RecordFilter = Callable[[int, AnyRecord], bool]
"""Called with a partition and a record of it."""

_CONDITION = re.compile(r"(?P<field>[^=!~<>]+)(?P<operator>=|!=|~|!~|<=|>=|<|>)(?P<text>.*)", re.DOTALL)

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_NUMBERS: dict[str, Callable[[int, AnyRecord], int]] = {
    "partition": lambda partition, record: partition,
    "offset": lambda partition, record: record.offset,
    "timestamp": lambda partition, record: record.timestamp,
}


FIELDS = "key, value, value.MEMBER (of JSON; MEMBER.MEMBER for one within), header.NAME, partition, offset, timestamp"


def filter_of(conditions: Sequence[str], patterns: Sequence[str]) -> RecordFilter:
    """
    Return the filter of records that meet all conditions, and in whose key or value each pattern is found.

    :param conditions: FIELD, one of ``= != ~ !~ < <= > >=``, and text; ``~`` is for a regular expression.
    :param patterns: regular expressions.
    :raise ValueError: one of them is none, with what would be right.
    """
    tests = [
        *(_of_option("--filter", _condition, each) for each in conditions),
        *(_of_option("--grep", _found, each) for each in patterns),
    ]
    return lambda partition, record: all(test(partition, record) for test in tests)


def _of_option(option: str, read: Callable[[str], RecordFilter], text: str) -> RecordFilter:
    try:
        return read(text)
    except ValueError as e:
        raise ValueError(f"{option}: {e}") from None


def _found(pattern: str) -> RecordFilter:
    search = _pattern(pattern).search
    return lambda partition, record: bool(search(record.value or b"") or search(record.key or b""))


def _pattern(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(_coded(text))
    except (re.error, OverflowError, RecursionError) as e:
        raise ValueError(f"{text!r} is not a regular expression: {e}") from None


def _coded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _condition(text: str) -> RecordFilter:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not FIELD=TEXT; besides = there are != ~ !~ < <= > >=")
    field, sign, wanted = found["field"].strip(), found["operator"], found["text"]
    if wanted[:1] in ("=", "<", ">") and sign in _COMPARISONS:
        right = f"{field}={wanted[1:]}" if f"{sign}{wanted[0]}" == "==" else f"such as {field}>=7"
        if field not in _NUMBERS:
            right += f", or {field}~^{wanted[0]} for text that begins so"
        raise ValueError(f"{text!r}: there is no operator {sign}{wanted[0]}, but = != ~ !~ < <= > >=; {right}")
    name, _, member = field.partition(".")
    if field in _NUMBERS:
        return _number_condition(field, sign, wanted)
    if name not in ("key", "value", "header") or (member == "") != (field in ("key", "value")):
        raise ValueError(f"{field!r} is no field of a record; there are {FIELDS}")
    if name == "header":
        return _content_condition(sign, wanted, lambda record: _header(record, member))
    if member:
        return _member_condition(name, member.split("."), sign, wanted)
    return _content_condition(sign, wanted, operator.attrgetter(name))


def _number_condition(field: str, sign: str, wanted: str) -> RecordFilter:
    number = wanted.strip()
    if sign not in _COMPARISONS or not re.fullmatch(r"-?[0-9]{1,19}", number):
        raise ValueError(f"{field} is a number: {wanted!r} cannot be compared with it by {sign}")
    limit, compare, read = int(number), _COMPARISONS[sign], _NUMBERS[field]
    return lambda partition, record: compare(read(partition, record), limit)


def _content_condition(sign: str, wanted: str, read: Callable[[AnyRecord], bytes | None]) -> RecordFilter:
    """A condition on bytes, of which null is none: it differs from all, and has nothing in it."""
    if sign.endswith("~"):
        search = _pattern(wanted).search
        is_found = sign == "~"
        return lambda partition, record: bool(search(read(record) or b"")) is is_found
    text, compare = _coded(wanted), _COMPARISONS[sign]

    def meets(partition: int, record: AnyRecord) -> bool:
        content = read(record)
        return sign == "!=" if content is None else compare(content, text)

    return meets


def _header(record: AnyRecord, name: str) -> bytes | None:
    """The last header of the name, as Kafka's clients take it."""
    return next((content for each, content in reversed(record.headers) if each == name), None)


_ABSENT = object()


def _member_condition(name: str, path: Sequence[str], sign: str, wanted: str) -> RecordFilter:
    """A condition on a member of JSON; text is compared as text, and numbers, true, false and null as such."""
    read = operator.attrgetter(name)
    search = _pattern(wanted).search if sign.endswith("~") else None
    try:
        typed = json.loads(wanted)
    except ValueError:
        typed = wanted

    def meets(partition: int, record: AnyRecord) -> bool:
        found = _member(read(record), path)
        if search is not None:
            return bool(found is not _ABSENT and search(_coded(_text(found)))) is (sign == "~")
        if sign in ("=", "!="):
            # True is 1 in Python, and not in JSON.
            same = isinstance(found, bool) is isinstance(typed, bool) and found == typed
            return (same or found == wanted) is (sign == "=")
        try:
            return found is not _ABSENT and _COMPARISONS[sign](found, wanted if isinstance(found, str) else typed)
        except TypeError:
            return False

    return meets


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _member(content: bytes | None, path: Sequence[str]) -> Any:
    """The member that a path leads to; a number leads into an array."""
    try:
        found = json.loads(content or b"")
    except (ValueError, RecursionError):
        return _ABSENT
    for each in path:
        if isinstance(found, dict) and each in found:
            found = found[each]
        elif isinstance(found, list) and each.isdigit() and int(each) < len(found):
            found = found[int(each)]
        else:
            return _ABSENT
    return found
