"""Says what is wrong with a record that could not be encoded. The encoder does not: it is fast for those that can."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from logbus.client.validators import InvalidOption, shown

_MOST = 2**63 - 1


def diagnosed(
    error: Exception, value: Any, key: Any, partition: object, timestamp: object, headers: object
) -> Exception:
    """
    A clearer error than that of encoding or placing a record, or the same one.

    :param error: what was raised.
    """
    found = _wrong(value, key, partition, timestamp, headers)
    if found is None:
        return error
    clearer = InvalidOption(found)
    clearer.__cause__ = error
    return clearer


def _wrong(value: Any, key: Any, partition: object, timestamp: object, headers: object) -> str | None:
    for name, data in (("value", value), ("key", key)):
        if not _is_data(data):
            return (
                f"the {name} is {shown(data)}; it is bytes or None, or give the producer a {name}_serializer, such as "
                f"{'StringSerializer()' if isinstance(data, str) else 'JsonSerializer()'} of logbus.client.serializers"
            )
    if partition is not None and not _is_integer(partition):
        return f"the partition is {shown(partition)}; it is a number, or None"
    if not _is_integer(timestamp) or not -1 <= timestamp <= _MOST:  # type: ignore[operator]
        return f"the timestamp is {shown(timestamp)}; it is a whole number of milliseconds since 1970, or None"
    expected = "they are a list of pairs of a text and bytes, such as [('source', b'web')]"
    if isinstance(headers, (str, bytes, Mapping)) or not isinstance(headers, Iterable):
        return f"the headers are {shown(headers)}; {expected}"
    for each in headers:
        if not isinstance(each, (tuple, list)) or len(each) != 2 or not isinstance(each[0], str):
            return f"the headers have {shown(each)}; {expected}"
        if not _is_data(each[1]):
            return f"the header {each[0]!r} is {shown(each[1])}; it is bytes or None"
    return None


def _is_data(value: object) -> bool:
    return value is None or isinstance(value, (bytes, bytearray, memoryview))


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
