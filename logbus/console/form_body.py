"""
Reads posted forms and queries: names and texts, each once, within limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import parse_qsl

from logbus.admin.problem_details import HttpProblem

MOST_FIELDS = 200


def read_form(text: str, what: str = "The form") -> Mapping[str, str]:
    """
    Return the fields of a form or a query.

    :param text: ``application/x-www-form-urlencoded``.
    :param what: begins the sentence that tells an error.
    :raise HttpProblem: it is malformed, too long, or has a field twice.
    """
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise HttpProblem(
            HTTPStatus.BAD_REQUEST, f"{what} is not UTF-8, or has more than {MOST_FIELDS} fields."
        ) from None
    fields: dict[str, str] = {}
    for name, value in pairs:
        if name in fields:
            raise HttpProblem(HTTPStatus.BAD_REQUEST, f"{what} has the field {name[:100]!r} twice.")
        # Browsers send lines of a text area with CRLF.
        fields[name] = value.replace("\r\n", "\n")
    return fields
