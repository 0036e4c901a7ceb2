"""
Errors of ours without the way that they took.

Spark shows what one of its Python processes raised together with the traceback, as text: who has mistyped an option
would look for the sentence that says so below twenty lines of our code.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from logbus.errors import LogbusError

P = ParamSpec("P")
R = TypeVar("R")


def brief(call: Callable[P, R]) -> Callable[P, R]:
    """Have a function that Spark calls raise errors of ours as if from here; ``LOGBUS_DEBUG`` leaves them alone."""

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
