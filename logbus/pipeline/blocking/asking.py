"""Asking coordinators, wherever they are, until they answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import evolve

from logbus.errors import ApiError, ErrorCode
from logbus.pipeline.blocking.brokers import GROUP, Brokers
from logbus.pipeline.blocking.retry import Patience, api_error
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
"""Seconds before the first other attempt."""


def ask_coordinator(
    brokers: Brokers,
    kind: int,
    key: str,
    request: Any,
    code_of: Callable[[Any], int],
    seconds: float | None,
    highest: int | None = None,
) -> tuple[Any, Any]:
    """
    Ask who coordinates a key, and again.

    :param highest: the latest version to use.
    :returns: the answer, and the features of the broker that gave it.
    """
    noun = "group" if kind == GROUP else "transactional id"

    def ask() -> tuple[Any, Any]:
        connection = brokers.coordinator(kind, key)
        version = connection.version(api_key_of(request))
        response = connection.request(request, version=version if highest is None else min(highest, version))
        if code := code_of(response):
            raise api_error(code, f"{noun} {key!r}")
        return response, connection.features

    return patiently(brokers, ask, forgetting(brokers, kind, key), seconds)


def patiently(brokers: Brokers, ask: Callable[[], T], trouble: Callable[[Exception], None], seconds: float | None) -> T:
    """
    Ask until there is an answer, or an error that waiting does not help.

    :param trouble: told of each error.
    """
    # The end of the transaction before is mostly a matter of milliseconds.
    settings = evolve(brokers.settings, backoff=min(_SOON, brokers.settings.backoff))
    patience = Patience.of(settings, seconds)
    while True:
        try:
            return ask()
        except (ApiError, Disconnected, Unreachable) as e:
            trouble(e)
            patience.failed(e)


def forgetting(brokers: Brokers, kind: int, key: str) -> Callable[[Exception], None]:
    def trouble(error: Exception) -> None:
        if not isinstance(error, ApiError) or error.code in _NOT_HERE:
            brokers.forget((kind, key))

    return trouble
