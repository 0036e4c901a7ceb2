"""
JSON that is made while it is sent: lists of any length, a few rows in a turn of the reactor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from logbus.admin import strict_json
from logbus.admin.routing import JSON, ViewResponse

ROWS_A_TURN = 100
"""A row costs some 10 µs."""


def json_stream(members: Mapping[str, Any | Callable[[], Iterator[Any]]]) -> ViewResponse:
    """
    An object as an answer.

    :param members: in order; what can be called makes the rows of a list, where None is a pause that costs as much as
        a row and stands for none.
    """
    return ViewResponse(HTTPStatus.OK, JSON, lambda: _pieces(members))


def _pieces(members: Mapping[str, Any | Callable[[], Iterator[Any]]]) -> Iterator[bytes]:
    piece = b"{"
    for number, (name, value) in enumerate(members.items()):
        piece += (b"," if number else b"") + _json(name) + b":"
        if not callable(value):
            piece += _json(value)
            continue
        piece += b"["
        first = True
        for made, row in enumerate(value(), 1):
            if row is not None:
                piece += (b"" if first else b",") + _json(row)
                first = False
            if made % ROWS_A_TURN == 0:
                yield piece
                piece = b""
        piece += b"]"
    yield piece + b"}\n"


def _json(value: Any) -> bytes:
    return strict_json.dumps(value)[:-1]
