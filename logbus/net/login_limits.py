"""
The limits of a client that has not logged in: short frames, little time, and late answers to failed logins.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall

from logbus.net.sasl_login import SaslLogin
from logbus.net.shared_resources import SharedResources
from logbus.security.sasl.sasl_session import LOGIN_MAX_BYTES
from logbus.wire.frame_buffer import FrameBuffer


class LoginLimits:
    """
    The bounds of one connection, from its beginning on, and the counts of its logins.

    :param policy: how clients log in.
    :param frames: whose limit is lowered until the client has logged in.
    """

    __slots__ = ("_deadline", "_farewell", "_frames", "_policy", "_request_max_bytes", "_shared")

    def __init__(self, policy: SaslLogin, frames: FrameBuffer, shared: SharedResources) -> None:
        self._policy = policy
        self._frames = frames
        self._shared = shared
        # When the client must have logged in, in seconds of the reactor; inf: it has.
        self._deadline = shared.clock.seconds() + policy.seconds
        self._farewell: IDelayedCall | None = None
        # In bytes, once it has.
        self._request_max_bytes = frames.limit
        frames.limit = min(frames.limit, LOGIN_MAX_BYTES)

    def is_overdue(self, now: float) -> bool:
        """Whether the client has not logged in in time."""
        return now >= self._deadline and self._farewell is None

    def logged_in(self) -> None:
        """The client has logged in, or logged in again: it may send requests of any length."""
        if self._deadline == math.inf:
            self._shared.metrics.reauthentications += 1
            return
        self._deadline = math.inf
        self._frames.limit = self._request_max_bytes
        self._shared.metrics.authentications += 1

    def failed(self, say_farewell: Callable[[], None]) -> None:
        """
        The client could not log in. That it learns after a delay: whoever tries passwords, or tries the same one again
        and again, gets slow (Kafka: ``connection.failed.authentication.delay.ms``).

        :param say_farewell: called then, unless the connection is lost.
        """
        if self._deadline == math.inf:
            self._shared.metrics.reauthentication_failures += 1
        else:
            self._shared.metrics.authentication_failures += 1

        def over() -> None:
            self._farewell = None
            say_farewell()

        self._farewell = self._shared.clock.callLater(self._policy.delay(), over)

    def connection_lost(self) -> None:
        """Say nothing more."""
        if self._farewell is not None:
            self._farewell.cancel()
            self._farewell = None
