"""
The records that lines of input stand for: values, keys and values, or JSON as ``logbus consume --json`` prints it.
Pure.
"""

from __future__ import annotations

import binascii
import json
import os
from base64 import b64decode
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

IGNORABLE = ("partition", "timestamp")
"""Members of JSON that can be ignored: another topic may have other partitions."""

_PLACE = ("topic", "offset")
"""Members that say where a record was, which is not where it goes."""

_MEMBERS = ("key", "key_base64", "value", "value_base64", "headers", *IGNORABLE, *_PLACE)

_LARGEST = (1 << 63) - 1


class InputRecord(NamedTuple):
    """
    A record to send.

    :ivar partition: None: chosen by the key, or any.
    :ivar timestamp: milliseconds since 1970; None: now.
    """

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp: int | None = None


InputFormat = Callable[[bytes], InputRecord | None]
"""
Returns the record that a line stands for; None: it stands for none. Raises ValueError if it should, and does not: the
message is about "it", the line.
"""


def lines(key_separator: bytes | None, null: bytes | None) -> InputFormat:
    """
    Return the format in which a line is a value, or a key and a value.

    :param key_separator: splits lines into key and value; None: no keys.
    :param null: the value that stands for null.
    """

    def record(line: bytes) -> InputRecord:
        key, value = None, line
        if key_separator is not None:
            key, found, value = line.partition(key_separator)
            if not found:
                raise ValueError(f"it has no {os.fsdecode(key_separator)!r} in it")
        return InputRecord(key, None if value == null else value)

    return record


def json_lines(ignored: Collection[str] = ()) -> InputFormat:
    """
    Return the format in which a line is a JSON object with ``value``, and perhaps ``key``, ``headers``, ``partition``
    and ``timestamp``. Keys and values are strings, null, base64 (``value_base64``), or other JSON, sent as such.

    :param ignored: of :data:`IGNORABLE`.
    """

    def record(line: bytes) -> InputRecord | None:
        if not line.strip():
            return None
        given = _parsed(line)
        if unknown := given.keys() - set(_MEMBERS):
            raise ValueError(f"its member {min(unknown)!r} is unknown; there are {', '.join(_MEMBERS)}")
        if not given.keys() & {"value", "value_base64"}:
            raise ValueError("it has no value; null is a tombstone")
        return InputRecord(
            _content(given, "key"),
            _content(given, "value"),
            _headers(given.get("headers")),
            None if "partition" in ignored else _number(given, "partition", (1 << 31) - 1),
            None if "timestamp" in ignored else _timestamp(given),
        )

    return record


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        # Programs of Windows put a byte order mark before the first line.
        text = line.removeprefix(BOM_UTF8).decode()
        found = json.loads(text, parse_constant=_refuse, object_pairs_hook=_without_repetition)
    except UnicodeDecodeError as e:
        raise ValueError(f"it is not UTF-8 at byte {e.start + 1}") from None
    except json.JSONDecodeError as e:
        raise ValueError(f"it is not JSON: {e.msg.removesuffix(' at')} at column {e.colno}") from None
    except RecursionError:
        raise ValueError("it is not JSON that can be read: it nests too deep") from None
    if not isinstance(found, dict):
        raise ValueError('it is no JSON object, such as {"key": "a", "value": "b"}')
    return found


def _refuse(name: str) -> None:
    raise ValueError(f"it is not JSON: {name} is no number of JSON")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"its member {next(each for each in names if names.count(each) > 1)!r} is there twice")
    return found


def _content(given: Mapping[str, Any], name: str) -> bytes | None:
    coded = f"{name}_base64"
    if coded not in given:
        value = given.get(name)
        if value is None:
            return None
        try:
            return (
                value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            ).encode()
        except UnicodeEncodeError:
            raise ValueError(f"its {name} has half of a surrogate pair, which is no character") from None
    if name in given:
        raise ValueError(f"it has both {name} and {coded}")
    value = given[coded]
    try:
        if isinstance(value, str):
            return b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        pass
    raise ValueError(f"its {coded} is not base64")


def _headers(given: object) -> Sequence[tuple[str, bytes | None]]:
    if given is None:
        return ()
    if not isinstance(given, list):
        raise ValueError('its headers are no array, such as [{"name": "a", "value": "b"}]')
    found = []
    for each in given:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str) or len(each) != 2:
            raise ValueError('one of its headers is no object with name and value, such as {"name": "a", "value": "b"}')
        if not each.keys() & {"value", "value_base64"}:
            raise ValueError(f"its header {each['name']!r} has no value or value_base64")
        found.append((each["name"], _content(each, "value")))
    return found


def _timestamp(given: Mapping[str, Any]) -> int | None:
    return None if given.get("timestamp") == -1 else _number(given, "timestamp", _LARGEST)


def _number(given: Mapping[str, Any], name: str, largest: int) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= largest:
        raise ValueError(f"its {name} is {json.dumps(value)}; it must be a whole number from 0 to {largest}")
    return value
