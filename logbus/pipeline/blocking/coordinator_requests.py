"""Sends requests to the coordinator of a group or transactional id, and retries them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import evolve

from logbus.errors import ApiError, ErrorCode
from logbus.pipeline.blocking.brokers import GROUP, Brokers
from logbus.pipeline.blocking.retry import RetryTimer, api_error
from logbus.pipeline.errors import Disconnected, Unreachable
from logbus.wire.connection import api_key_of

T = TypeVar("T")

_NOT_HERE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_SOON = 0.02
"""Seconds before the first retry."""


def send_to_coordinator(
    brokers: Brokers,
    kind: int,
    key: str,
    request: Any,
    code_of: Callable[[Any], int],
    seconds: float | None,
    highest: int | None = None,
) -> tuple[Any, Any]:
    """
    Send a request to a key's coordinator, and retry on retriable errors.

    :param highest: the highest version to use.
    :returns: the response, and the finalized features of the broker that sent it.
    """
    noun = "group" if kind == GROUP else "transactional id"

    def ask() -> tuple[Any, Any]:
        connection = brokers.coordinator(kind, key)
        version = connection.version(api_key_of(request))
        response = connection.request(request, version=version if highest is None else min(highest, version))
        if code := code_of(response):
            raise api_error(code, f"{noun} {key!r}")
        return response, connection.features

    return ask_with_retries(brokers, ask, forget_on_error(brokers, kind, key), seconds)


def ask_with_retries(
    brokers: Brokers, ask: Callable[[], T], trouble: Callable[[Exception], None], seconds: float | None
) -> T:
    """
    Call ``ask`` until it succeeds or raises an error that is not retriable.

    :param trouble: is called with each error.
    """
    # Most retries wait for the previous transaction to end, which takes milliseconds.
    settings = evolve(brokers.settings, backoff=min(_SOON, brokers.settings.backoff))
    timer = RetryTimer.of(settings, seconds)
    while True:
        try:
            return ask()
        except (ApiError, Disconnected, Unreachable) as e:
            trouble(e)
            timer.failed(e)


def forget_on_error(brokers: Brokers, kind: int, key: str) -> Callable[[Exception], None]:
    """A function that forgets a key's coordinator upon errors that it may be wrong."""

    def trouble(error: Exception) -> None:
        if not isinstance(error, ApiError) or error.code in _NOT_HERE:
            brokers.forget((kind, key))

    return trouble
