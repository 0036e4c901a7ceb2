"""Retriable errors, and the backoff between attempts."""

from __future__ import annotations

import re

from attrs import frozen

from logbus.errors import ApiError, Disconnected, LogbusError, error_of


class Unreachable(LogbusError):
    """No broker could be connected to; the message has the addresses and the reasons."""


class NoBroker(Unreachable):
    """Something listens at an address, but does not answer as a broker does to a client that connects as this one."""


class UnknownBroker(Unreachable):
    """The brokers that could be connected to know none of this id."""


class ClientClosed(LogbusError):
    """The :class:`~logbus.client.Cluster` was closed, and connects to no broker any more: not to be retried."""


def is_retriable(error: BaseException) -> bool:
    """Whether the same request may succeed later, perhaps with newer metadata or on another connection."""
    if isinstance(error, ApiError):
        return error.code.retriable
    return isinstance(error, (Disconnected, Unreachable))


def api_error(code: int, what: str, message: str | None = None) -> ApiError:
    """
    The error for a response code.

    :param code: as received; unknown codes become UNKNOWN_SERVER_ERROR.
    :param what: the subject, such as ``topic orders``; the message begins with it.
    :param message: the broker's message; default: the standard sentence for the code.
    """
    error = error_of(code)
    known = error.code
    if known != code:
        return ApiError(known, f"{what}: {error.message}")
    # A short name may be in the middle of a word.
    name = re.escape(what.rpartition(" ")[2])
    if message and message != known.sentence and re.search(rf"(?<!\w){name}(?!\w)", message):
        return ApiError(known, message)
    return ApiError(known, f"{what}: {message}" if message else f"{what}: {known.sentence} ({known.name})")


@frozen
class Backoff:
    """
    Exponential backoff: the wait doubles with each attempt.

    :ivar first: seconds before the second attempt.
    :ivar most: the longest wait.
    """

    first: float = 0.1
    most: float = 1.0

    def before(self, attempt: int) -> float:
        """
        :param attempt: 1 for the first repetition.
        """
        return min(self.most, self.first * (1 << min(attempt - 1, 16)))
