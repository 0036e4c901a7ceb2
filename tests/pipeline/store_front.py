"""A server that stands before an emulator of a store, and does what the emulator lacks."""

from __future__ import annotations

import http.client
import multiprocessing
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from attrs import define, field, frozen
from werkzeug.serving import WSGIRequestHandler, make_server

_SECONDS = 60.0
_NOT_PASSED_ON = {"connection", "transfer-encoding", "date", "server", "content-length"}


@frozen
class Request:
    """
    :ivar target: the path and the query, as they came.
    :ivar headers: with names in lower case.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@frozen
class Answer:
    """What a server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Ask = Callable[[Request], Answer]


class _Quiet(WSGIRequestHandler):
    """Says nothing about requests, and leaves paths as they are."""

    protocol_version = "HTTP/1.1"

    def log(self, *_: Any) -> None:
        pass

    def handle_expect_100(self) -> bool:
        return True  # Werkzeug does it.

    def make_environ(self) -> Any:
        return {**super().make_environ(), "logbus.request": (self.path, self.headers.items())}


def ask(port: int, request: Request) -> Answer:
    """Have the server on a port of 127.0.0.1 answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    try:
        connection.request(request.method, request.target, request.body, dict(request.headers))
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def _serve(answer: Callable[[Request, Ask], Answer], behind: int, told: Any) -> None:
    """Be the server, to the end."""

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        target, headers = environ["logbus.request"]
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        given = {name.lower(): value for name, value in headers}
        made = answer(Request(environ["REQUEST_METHOD"], target, given, body), partial(ask, behind))
        kept = [each for each in made.headers.items() if each[0] not in _NOT_PASSED_ON]
        length = made.headers.get("content-length", "0") if environ["REQUEST_METHOD"] == "HEAD" else str(len(made.body))
        start(f"{made.status} {http.client.responses.get(made.status, '')}", [*kept, ("Content-Length", length)])
        return [made.body]

    server = make_server("127.0.0.1", 0, app, True, request_handler=_Quiet)
    told.send(server.server_port)
    server.serve_forever()


@define(eq=False)
class Front:
    """
    A server in a process of its own, since some of Arrow's clients keep other threads waiting; a context manager.

    :param answer: answers a request, with a function that asks the emulator; it is a module's own.
    :ivar behind: the emulator's port.
    :ivar host: with the port.
    """

    answer: Callable[[Request, Ask], Answer]
    behind: int
    host: str = ""
    _process: Any = field(init=False)

    def __enter__(self) -> Front:
        context = multiprocessing.get_context("spawn")
        told, tells = context.Pipe(duplex=False)
        self._process = context.Process(target=_serve, args=(self.answer, self.behind, tells), daemon=True)
        self._process.start()
        assert told.poll(_SECONDS)
        self.host = f"127.0.0.1:{told.recv()}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
