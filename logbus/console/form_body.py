"""
Reads posted forms and queries: names and texts, each once, within limits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import parse_qsl

from logbus.admin.problem_details import HttpProblem

MOST_FIELDS = 200
_NUMBERS = re.compile(r"\d{1,9}( *, *\d{1,9}){0,99}", re.ASCII)
_ESCAPED = re.compile(r"[\ud800-\udfff]")


def read_form(text: str, what: str = "The form") -> Mapping[str, str]:
    """
    Return the fields of a form or a query.

    :param text: ``application/x-www-form-urlencoded``; what is not UTF-8 in it is escaped as surrogates.
    :param what: begins the sentence that tells an error.
    :raise HttpProblem: it is malformed, too long, or has a field twice.
    """
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="surrogateescape")
    except ValueError:
        raise HttpProblem(HTTPStatus.BAD_REQUEST, f"{what} has more than {MOST_FIELDS} fields.") from None
    fields: dict[str, str] = {}
    for name, value in pairs:
        if _ESCAPED.search(name + value):
            raise HttpProblem(HTTPStatus.BAD_REQUEST, f"{what} is not UTF-8: see the field {name[:100]!r}.")
        if name in fields:
            raise HttpProblem(HTTPStatus.BAD_REQUEST, f"{what} has the field {name[:100]!r} twice.")
        # Browsers send lines of a text area with CRLF.
        fields[name] = value.replace("\r\n", "\n")
    return fields


def numbers_of(text: str) -> list[int] | None:
    """Return the numbers of a field such as ``0, 2``, at most 100 of them; None: it has something else."""
    return [int(each) for each in text.split(",")] if _NUMBERS.fullmatch(text) else None
