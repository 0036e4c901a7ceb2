"""
An HTTP request of the admin listener: passed to the router or to a plugin's resource, and answered once.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.error import UnsupportedMethod
from twisted.web.http import datetimeToString
from twisted.web.resource import getChildForRequest
from twisted.web.server import NOT_DONE_YET, Request

from logbus.admin.authorization import HttpAccess, Right
from logbus.admin.probes import HEALTH_PATHS
from logbus.admin.problem_details import HttpProblem
from logbus.admin.request_guard import SECURITY_HEADERS
from logbus.admin.response_stream import ResponseStream
from logbus.admin.routing import Headers, ViewResponse, error_response, failure_response
from logbus.security.acl.acls import AclOperation

if TYPE_CHECKING:
    from logbus.admin.channel import AdminChannel
    from logbus.admin.site import MountedResource


class AdminRequest(Request):
    """
    A request, from its head to the end of its answer.

    :ivar access: what the client may do, for resources of plugins.
    """

    channel: AdminChannel
    content: BytesIO
    access: HttpAccess
    answered = False
    _log = Logger()

    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()

    def handleContentChunk(self, data: bytes) -> None:
        if not self.channel.refused:
            if self.content.tell() + len(data) > self.channel.body_bytes:
                self.channel.refuse_body()
            else:
                self.content.write(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        self._parsePOSTFormSubmission = False  # pages read their forms themselves
        super().requestReceived(command, path, version)

    def process(self) -> None:
        http = self.site = self.channel.site
        self.setHeader(b"Server", b"logbus")
        self.setHeader(b"Date", datetimeToString(http.wall_clock()))
        for name, value in SECURITY_HEADERS.items():
            self.setHeader(name.encode(), value.encode())
        headers = {
            name.decode("latin-1").lower(): [value.decode("latin-1") for value in values]
            for name, values in self.requestHeaders.getAllRawHeaders()
        }
        method, target = self.method.decode("ascii"), self.uri.decode("latin-1")
        host = self.channel.host
        try:
            if not target.startswith("/"):
                raise HttpProblem(HTTPStatus.BAD_REQUEST, "The request target is not a path that begins with '/'.")
            is_health = self.path in HEALTH_PATHS
            if self.channel.health_only:
                self.channel.persistent = 0
                self.setHeader(b"Connection", b"close")
                if not is_health:
                    raise HttpProblem(
                        HTTPStatus.SERVICE_UNAVAILABLE,
                        "All connections that this listener may have are in use; this one may only ask for "
                        "/healthz or /readyz.",
                    )
            path = self.path.decode("latin-1")
            is_page = http.pages.serves(path)
            is_refused = http.router.refuses(method, path)
            http.guard.check(method, self.clientproto.decode("ascii"), headers, is_page, is_refused)
            principal: str | Deferred[str] | None = None
            if path not in http.public_paths():
                principal = http.authentication.principal(host, self.channel.transport, headers)
        except Exception as e:
            self.send(self._answer_for(Failure(e)))
            return
        if not isinstance(principal, Deferred):
            self._serve(principal, method, target, headers)
        else:
            self.channel.logging_in = True
            principal.addBoth(_logged_in, self.channel)
            principal.addCallback(self._serve, method, target, headers)
            principal.addErrback(lambda failure: self.send(self._answer_for(failure)))

    def _serve(self, principal: str | None, method: str, target: str, headers: Headers) -> None:
        """
        Answer the client, unless it has left meanwhile.

        :param principal: None: the path is public.
        """
        if self._disconnected or self.channel.refused:
            return
        http, request = self.channel.site, f"{method} {target.partition('?')[0][:300]}"
        if principal is None:
            self.access = http.authorization.public_access(self.channel.host, request)
        else:
            self.access = http.authorization.access(
                principal, self.channel.host, request, http.authentication.challenge
            )
        try:
            mounted = http.mounted.get(self.path[1:].partition(b"/")[0])
            if mounted is not None:
                self._render_plugin(mounted)
                return
            served = http.pages if http.pages.serves(self.path.decode("latin-1")) else http.router
            answer = served.answer(method, target, headers, self.content.read(), self.access)
        except Exception as e:
            answer = self._answer_for(Failure(e))
        if isinstance(answer, Deferred):
            self._wait_for(answer)
        else:
            self.send(answer)

    def _render_plugin(self, mounted: MountedResource) -> None:
        resource = mounted.resource
        if not mounted.authorizes:
            reads = self.method in (b"GET", b"HEAD", b"OPTIONS")
            self.access.require_right(Right(AclOperation.DESCRIBE if reads else AclOperation.ALTER), {})
        first, *rest = map(unquote_to_bytes, self.path[1:].split(b"/"))
        self.prepath, self.postpath, self.sitepath = [first], rest, [first]
        try:
            body = getChildForRequest(resource, self).render(self)
        except UnsupportedMethod as e:
            methods: Iterable[bytes] = e.allowedMethods
            allow = b", ".join(sorted(methods)).decode()
            raise HttpProblem(
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"{self.path.decode('latin-1')} does not answer {self.method.decode()}; it answers {allow}.",
                {"Allow": allow},
            ) from None
        if body is not NOT_DONE_YET:
            self.setHeader(b"Content-Length", b"%d" % len(body))
            self.write(body)
            self.finish()

    def _wait_for(self, pending: Deferred[ViewResponse]) -> None:
        # A view is not cancelled when the client disconnects or times out: a change that has begun is completed.
        clock, limits = self.channel.site.clock, self.channel.site.limits
        late = HttpProblem(
            HTTPStatus.GATEWAY_TIMEOUT,
            f"There was no result within {limits.answer_seconds:g} seconds; what was asked for may still happen.",
        )
        timer = clock.callLater(limits.answer_seconds, lambda: self.send(error_response(late)))
        self.notifyFinish().addBoth(lambda _: timer.cancel() if timer.active() else None)
        pending.addErrback(self._answer_for).addCallback(self.send)
        pending.addErrback(lambda failure: self._log.failure("an answer could not be sent", failure))

    def _answer_for(self, failure: Failure) -> ViewResponse:
        error = failure.value
        assert error is not None
        try:
            return error_response(error)
        except BaseException:
            self._log.failure("{method} {path} failed", failure, method=self.method, path=self.path)
            return failure_response(error)

    def processingFailed(self, reason: Failure) -> Failure:
        """Log the traceback of a plugin's resource; the client does not see it."""
        self.send(self._answer_for(reason))
        return reason

    def send(self, answer: ViewResponse) -> None:
        """Send an answer, unless one was sent or the client has disconnected."""
        if self.answered or self.finished or self._disconnected:
            return
        self.answered = True
        if self.startedWriting:
            # A plugin's resource failed in the middle: a truncated answer must not look complete.
            self.channel.abort()
            return
        self.setResponseCode(int(answer.status), answer.status.phrase.encode())
        if answer.content_type:
            self.setHeader(b"Content-Type", answer.content_type.encode())
        else:
            self.defaultContentType = None
        for name, value in answer.headers.items():
            self.setHeader(name.encode(), value.encode("latin-1", "replace"))
        body = answer.body
        if isinstance(body, bytes):
            if answer.status is not HTTPStatus.NO_CONTENT:
                self.setHeader(b"Content-Length", b"%d" % len(body))
            self.write(body)
            self.finish()
        elif self.method == b"HEAD":
            self.finish()
        else:
            http = self.channel.site
            stall = http.limits.idle_seconds
            ResponseStream(self, body(), http.cooperator, http.clock, stall, self.channel.abort).start()


def _logged_in(result: Any, channel: AdminChannel) -> Any:
    channel.logging_in = False
    return result
