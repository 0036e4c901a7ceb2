"""
JSON objects with long lists, encoded in chunks of a few rows per reactor turn while they are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from logbus.admin import strict_json
from logbus.admin.routing import JSON, ViewResponse

ROWS_A_TURN = 100
"""A row costs about 10 µs."""


def json_stream(members: Mapping[str, Any | Callable[[], Iterator[Any]]]) -> ViewResponse:
    """
    Return a response with a JSON object.

    :param members: in order; a callable returns the rows of a list, in which None stands for work that costs as much as
        a row, and adds no row.
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
