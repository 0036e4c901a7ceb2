"""Retries: which errors are retriable, with exponential backoff until a deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from attrs import define, field

from logbus.errors import ApiError, error_of
from logbus.pipeline.blocking.connection_settings import ConnectionSettings
from logbus.pipeline.blocking.patience import PATIENCE, warn
from logbus.pipeline.errors import Disconnected, Unreachable

T = TypeVar("T")


def is_retriable(error: BaseException) -> bool:
    """Whether the request may succeed later, perhaps with newer metadata or over another connection."""
    if isinstance(error, ApiError):
        return error.code.retriable
    return isinstance(error, (Disconnected, Unreachable))


def api_error(code: int, what: str, message: str | None = None) -> ApiError:
    """
    The exception for an error code of a response.

    :param what: what was requested, such as ``topic orders``; the message begins with it.
    :param message: the broker's error message; default: the code's description.
    """
    error = error_of(code)
    said = message or (f"{error.message} ({error.code.name})" if error.code == code else error.message)
    return ApiError(error.code, f"{what}: {said}")


@define
class RetryTimer:
    """
    Counts failed attempts and waits between them, with exponential backoff and jitter, until a deadline. If that is
    far, it says after five seconds what fails.

    :ivar attempt: failed attempts so far.
    """

    settings: ConnectionSettings
    deadline: float
    sleep: Callable[[float], None] = time.sleep
    attempt: int = field(default=0, init=False)
    _begun: float = field(factory=time.monotonic, init=False)
    _told: bool = field(default=False, init=False)

    @classmethod
    def of(cls, settings: ConnectionSettings, seconds: float | None = None) -> RetryTimer:
        """
        A timer that starts now.

        :param seconds: until the deadline; default: as the settings say.
        """
        return cls(settings, time.monotonic() + (settings.retry_timeout if seconds is None else seconds))

    def failed(self, error: Exception) -> None:
        """
        Wait before the next attempt.

        :raises Exception: ``error`` itself: it is not retriable, or the deadline has passed.
        """
        pause = min(self.settings.backoff_max, self.settings.backoff * (1 << min(self.attempt, 16)))
        pause *= random.uniform(0.8, 1.2)
        self.attempt += 1
        now = time.monotonic()
        if not is_retriable(error) or now + pause > self.deadline:
            raise error
        if not self._told and now - self._begun >= PATIENCE:
            self._told = True
            warn(f"{error}; still trying for {self.deadline - now:.0f} s")
        self.sleep(pause)

    def succeeded(self) -> None:
        """Reset the attempts and the deadline after a success."""
        self.attempt, self._told = 0, False
        self._begun = time.monotonic()
        self.deadline = self._begun + self.settings.retry_timeout


def with_retries(settings: ConnectionSettings, ask: Callable[[], T]) -> T:
    """Call ``ask`` until it succeeds or raises an error that is not retriable; for as long as the settings say."""
    timer = RetryTimer.of(settings)
    while True:
        try:
            return ask()
        except Exception as e:
            timer.failed(e)
