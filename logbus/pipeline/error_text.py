"""
Removes tracebacks from errors of logbus that Spark shows to users.

Spark shows an exception of one of its Python processes with the whole traceback. The message about a mistyped option
would come after twenty lines of code.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from logbus.errors import LogbusError

P = ParamSpec("P")
R = TypeVar("R")


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
