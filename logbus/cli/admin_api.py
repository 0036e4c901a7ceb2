"""
The HTTP API of a broker, for commands: options that say where it is and who asks, and requests.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click
from attrs import frozen

if TYPE_CHECKING:
    from ssl import SSLContext

F = TypeVar("F", bound=Callable[..., Any])

FAILURES = (OSError, http.client.HTTPException, ValueError)
"""What a request raises if there is no answer, or one that is not a broker's."""


def admin_options(command: F) -> F:
    """Add the options ``--admin``, ``--user``, ``--password-file`` and ``--ca``."""
    for option in reversed(
        (
            click.option(
                "--admin",
                metavar="URL",
                default="http://127.0.0.1:8080",
                show_default=True,
                help="HTTP address of the admin listener of this broker, or of another one.",
            ),
            click.option("--user", metavar="NAME", default="", help="Log in as this user; the password is asked for."),
            click.option(
                "--password-file",
                type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
                default=None,
                help="Read the password from here; -: from standard input.",
            ),
            click.option(
                "--ca",
                type=click.Path(path_type=Path),
                default=None,
                help="Certificates of authorities to trust, for https; else the system's.",
            ),
        )
    ):
        command = option(command)
    return command


@frozen
class AdminApi:
    """
    An admin listener.

    :ivar user: whose password is in ``headers``; empty: nobody's.
    """

    host: str
    port: int
    has_tls: bool
    ca: Path | None
    user: str
    headers: Mapping[str, str]
    timeout: float

    @classmethod
    def of(cls, admin: str, user: str, password_file: Path | None, ca: Path | None, timeout: float) -> AdminApi:
        """
        Return the listener that the options name.

        :raise click.ClickException: an option is wrong.
        """
        from logbus.cli.password import read_password

        try:
            url = urlsplit(admin if "//" in admin else f"//{admin}")
            has_tls = url.scheme == "https"
            host, port = url.hostname, url.port or (443 if has_tls else 80)
        except ValueError:
            host = None
        if host is None or url.scheme not in ("", "http", "https"):
            raise click.BadParameter(f"{admin!r} is not an address such as http://127.0.0.1:8080", param_hint="--admin")
        if ca is not None and not has_tls:
            raise click.BadParameter("only https has certificates", param_hint="--ca")
        if has_tls:
            _trusting(ca)
        headers = {"Content-Type": "application/json"}
        if user:
            password = read_password(password_file, f"user {user}", confirm=False)
            headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        return cls(host, port, has_tls, ca, user, headers, timeout)

    def ask(self, method: str, path: str, body: Any = None, timeout: float | None = None) -> tuple[int, dict[str, Any]]:
        """
        Send a request; return the status and the JSON object that was answered, or an empty one.

        :param timeout: seconds to wait for all of the answer; None: :attr:`timeout`.
        :raise OSError, http.client.HTTPException, ValueError: see :data:`FAILURES`.
        """
        timeout = self.timeout if timeout is None else timeout
        connection = self._connect(timeout)
        try:
            connection.connect()
            with _ended_after(timeout, connection.sock):
                connection.request(method, path, None if body is None else json.dumps(body), dict(self.headers))
                response = connection.getresponse()
                data = response.read()
            answer = json.loads(data) if data else {}
            return response.status, answer if isinstance(answer, dict) else {}
        finally:
            connection.close()

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if not self.has_tls:
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=_trusting(self.ca))

    def no_answer(self, error: Exception) -> str:
        """Return what to tell of a failure."""
        from logbus.errors import short_reason

        return f"{self.host}:{self.port}: {short_reason(error)}; is this the admin listener of a broker?"

    def refusal(self, status: int, answer: Mapping[str, Any]) -> str:
        """Return what to tell of an answer that is an error."""
        why = str(answer.get("detail", status))
        return f"{why} Log in with --user." if status == http.client.UNAUTHORIZED and not self.user else why


@contextmanager
def _ended_after(seconds: float, connection: socket.socket) -> Iterator[None]:
    """
    Shut a connection down after a time: its own timeout is that of each read, so an answer of many pieces has more.

    :raise TimeoutError: it was shut down.
    """
    late = threading.Event()

    def end() -> None:
        late.set()
        with suppress(OSError):
            # Not that of an SSLSocket, which the other thread is using.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except FAILURES:
        if not late.is_set():
            raise
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError("timed out")


def _trusting(ca: Path | None) -> SSLContext:
    """
    Return what checks certificates.

    :raise click.BadParameter: the file has none.
    """
    import ssl

    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as e:
        why = "there are no certificates in it" if isinstance(e, ssl.SSLError) else e.strerror
        raise click.BadParameter(f"{ca}: {why}", param_hint="--ca") from None
