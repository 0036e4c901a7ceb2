"""Which failures are worth another attempt, and how long to wait before it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from attrs import define, field

from logbus.errors import ApiError, error_of
from logbus.pipeline.blocking.settings import Settings
from logbus.pipeline.errors import Disconnected, Unreachable

T = TypeVar("T")


def is_retriable(error: BaseException) -> bool:
    """Whether the same request may succeed later, perhaps with newer metadata or over another connection."""
    if isinstance(error, ApiError):
        return error.code.retriable
    return isinstance(error, (Disconnected, Unreachable))


def api_error(code: int, what: str, message: str | None = None) -> ApiError:
    """
    The error that a response's code stands for.

    :param what: what was asked for, such as ``topic orders``; the sentence begins with it.
    :param message: the broker's own words; default: the code's sentence.
    """
    error = error_of(code)
    said = message or (f"{error.message} ({error.code.name})" if error.code == code else error.message)
    return ApiError(error.code, f"{what}: {said}")


@define
class Patience:
    """
    Another attempt, and another, until a deadline: pauses double, and are not the same for all of many workers.

    :ivar attempt: how many failed so far.
    """

    settings: Settings
    deadline: float
    sleep: Callable[[float], None] = time.sleep
    attempt: int = field(default=0, init=False)

    @classmethod
    def of(cls, settings: Settings, seconds: float | None = None) -> Patience:
        """
        :param seconds: until the deadline; default: the settings'.
        """
        return cls(settings, time.monotonic() + (settings.patience if seconds is None else seconds))

    def failed(self, error: Exception) -> None:
        """
        Wait before the next attempt; called while ``error`` is handled.

        :raises Exception: ``error`` itself: it is not worth another attempt, or it is too late for one.
        """
        pause = min(self.settings.backoff_max, self.settings.backoff * (1 << min(self.attempt, 16)))
        pause *= random.uniform(0.8, 1.2)
        self.attempt += 1
        if not is_retriable(error) or time.monotonic() + pause > self.deadline:
            raise error
        self.sleep(pause)

    def succeeded(self) -> None:
        """Something went well: begin anew."""
        self.attempt = 0
        self.deadline = time.monotonic() + self.settings.patience


def until_done(settings: Settings, ask: Callable[[], T], seconds: float | None = None) -> T:
    """
    Ask until there is an answer, or an error that waiting does not help.

    :param seconds: for how long; default: the settings' patience.
    """
    patience = Patience.of(settings, seconds)
    while True:
        try:
            return ask()
        except Exception as e:
            patience.failed(e)
