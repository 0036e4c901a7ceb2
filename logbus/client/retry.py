"""Which failures are worth another attempt, and how long to wait before it."""

from __future__ import annotations

from attrs import frozen

from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.net.channel import Disconnected

_BY_CODE = {int(code): code for code in ErrorCode}


class Unreachable(LogbusError):
    """No broker could be connected to; the message names the addresses and what they said."""


def is_retriable(error: BaseException) -> bool:
    """Whether the same request may succeed later, perhaps with newer metadata or over another connection."""
    if isinstance(error, ApiError):
        return error.code.retriable
    return isinstance(error, (Disconnected, Unreachable))


def api_error(code: int, what: str, message: str | None = None) -> ApiError:
    """
    The error that a response's code stands for.

    :param code: as the broker sent it; one that is not known here counts as UNKNOWN_SERVER_ERROR.
    :param what: what was asked for, such as ``topic orders``; the sentence begins with it.
    :param message: the broker's own words; default: the code's sentence.
    """
    known = _BY_CODE.get(code)
    if known is None:
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{what}: error {code}, which is not known here")
    if message and what.rpartition(" ")[2] in message:
        return ApiError(known, message)
    return ApiError(known, f"{what}: {message}" if message else f"{what}: {known.sentence} ({known.name})")


@frozen
class Backoff:
    """
    Seconds to wait before an attempt: doubled from one to the next.

    :ivar first: before the second attempt.
    :ivar most: never longer than this.
    """

    first: float = 0.1
    most: float = 1.0

    def before(self, attempt: int) -> float:
        """
        :param attempt: 1 for the first repetition.
        """
        return min(self.most, self.first * (1 << min(attempt - 1, 16)))
