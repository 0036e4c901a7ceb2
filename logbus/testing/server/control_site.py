"""
The HTTP listener of the control interface.

It is an admin listener's (:mod:`logbus.admin.channel`), with its limits and errors, for clients with the token of the
port file.  A web page does not have the token, and a browser sends an ``Authorization`` to another origin only after a
preflight, which is never granted; so the type of a body does not matter.  The ``Host`` is checked as for the admin
listener.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Protocol, ServerFactory

from logbus.admin.authentication import HttpAuthentication, HttpLogins
from logbus.admin.authorization import HttpAuthorization
from logbus.admin.http_limits import HttpLimits
from logbus.admin.pages import NoPages
from logbus.admin.problem_details import HttpProblem
from logbus.admin.request_guard import ANY_HOST, RequestGuard
from logbus.admin.routing import Router
from logbus.net.connection_limits import WarningLimiter
from logbus.security.sasl.mechanism import Login, SaslAuthenticationError

ANSWER_SECONDS = 600.0
"""A cluster may take long to start on a busy machine, and whoever waits for it has a time-out of its own."""
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="logbus test-server"'}


class TokenAuthentication(HttpAuthentication):
    """Lets in whoever has the token."""

    def challenge(self, detail: str) -> HttpProblem:
        return HttpProblem(
            HTTPStatus.UNAUTHORIZED,
            "The token is missing or wrong: send 'Authorization: Bearer TOKEN' with the 'token' of the port file.",
            CHALLENGE,
        )


class ControlGuard(RequestGuard):
    """Checks the ``Host`` and the ``Origin``; bodies are JSON whatever their type says."""

    def check(
        self,
        method: str,
        version: str,
        headers: Mapping[str, Sequence[str]],
        takes_forms: bool = False,
        is_refused: bool = False,
    ) -> None:
        super().check(method, version, headers, takes_forms, is_refused=True)


@define(eq=False, slots=False)
class ControlSite(ServerFactory):
    """
    The factory of the listener; twisted.web is imported with the first connection.

    :ivar reactor: the process's.
    :ivar wall_clock: seconds since 1970, for the ``Date`` of answers.
    :ivar token: what a client must send.
    :ivar router: the routes.
    :ivar any_host: whether clients may use any name for this machine, as they do for containers.
    """

    noisy = False

    reactor: Any
    wall_clock: Callable[[], float]
    token: str
    router: Router
    any_host: bool = False
    _http: Any = field(default=None, init=False)

    def buildProtocol(self, addr: IAddress | None) -> Protocol | None:
        if self._http is None:
            self._http = self._make()
        built: Protocol | None = self._http.buildProtocol(addr)
        return built

    def drain(self) -> Deferred[None]:
        """Close idle connections now and the others after their answers; fires when all are closed."""
        return succeed(None) if self._http is None else self._http.drain()

    def _login(self, token: str) -> Login:
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            raise SaslAuthenticationError("a wrong token")
        return Login("test")

    def _make(self) -> Any:
        from logbus.admin.channel import AdminHTTPFactory

        def in_thread(work: Callable[[], bool]) -> Deferred[bool]:
            raise NotImplementedError("there are no passwords")

        authentication = TokenAuthentication(
            logins=lambda: HttpLogins(required=True, tokens=self._login),
            clock=self.reactor,
            in_thread=in_thread,
            delay=lambda: 0.0,
        )
        return AdminHTTPFactory(
            router=self.router,
            pages=NoPages(),
            guard=ControlGuard(lambda: [ANY_HOST] if self.any_host else []),
            authentication=authentication,
            authorization=HttpAuthorization("control", None, WarningLimiter(self.reactor.seconds)),
            public_paths=lambda: (),
            mounted={},
            clock=self.reactor,
            wall_clock=self.wall_clock,
            limits=HttpLimits(answer_seconds=ANSWER_SECONDS, body_bytes=1 << 20),
        )
