"""
Checks that the peer of a connection has proved to be a broker.
"""

from __future__ import annotations

from attrs import define
from twisted.logger import Logger

from logbus.errors import ApiError, ErrorCode
from logbus.net.connection_limits import WarningLimiter
from logbus.net.request_context import RequestContext


@define(eq=False)
class InterBrokerIdentity:
    """
    Checks that the peer of a connection is a broker.

    :param warnings: limits the rate of warnings.
    """

    _warnings: WarningLimiter
    _log = Logger()

    def require(self, context: RequestContext, broker_id: int | None, what: str) -> int:
        """
        Check that the peer has proved to be the given broker.

        :raise ApiError: CLUSTER_AUTHORIZATION_FAILED.
        """
        if context.broker is None or context.broker != broker_id:
            who = "no broker" if context.broker is None else f"broker {context.broker}"
            self.warn(context, f"{what}, but is {who}")
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return context.broker

    def warn(self, context: RequestContext, sentence: str) -> None:
        """Log a warning about a connection, in one line."""
        if self._warnings.admit(context.host) is not None:
            self._log.warn("{host}:{port} {sentence}", host=context.host, port=context.port, sentence=sentence)
