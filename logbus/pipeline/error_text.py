"""
Makes errors short for users: errors of logbus that Spark shows, and Spark's own.

Spark shows an exception of one of its Python processes with the whole traceback, so the message about a mistyped option
would come after twenty lines of code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from logbus.errors import LogbusError

P = ParamSpec("P")
R = TypeVar("R")

_CALLING = "An error occurred while calling "
_CAUSE = "Caused by: "
_OURS = re.compile(r"\blogbus(?:\.\w+)+: (.+)")
_STACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)")
_FAILED = re.compile(r"^\[STREAM_FAILED\] Query .*? terminated with exception: ")


def without_traceback(call: Callable[P, R]) -> Callable[P, R]:
    """
    Decorate a function that Spark calls: a :exc:`.LogbusError` it raises has no traceback below this function.

    The environment variable ``LOGBUS_DEBUG`` keeps the traceback.
    """

    @wraps(call)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except LogbusError as e:
            if os.environ.get("LOGBUS_DEBUG"):
                raise
            problem = e.with_traceback(None)
        problem.__cause__ = problem.__context__ = None
        raise problem

    return called


def short_message(text: str) -> str:
    """
    The part of a long Spark error message that says what is wrong.

    That is the message of an error of logbus, if there is one; else the last line of a Python traceback; else the first
    line with the last "Caused by".
    """
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_CALLING)]
    ours = [found[1] for line in lines if (found := _OURS.search(line))]
    if ours or not lines:
        return (ours or ["Spark failed without a message"])[-1]
    if ends := _STACK.findall(text):
        return str(ends[-1])
    first = _FAILED.sub("", lines[0].removeprefix(": "))
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    return f"{first}: {causes[-1]}" if causes and causes[-1] not in first else first
