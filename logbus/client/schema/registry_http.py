"""
Sends HTTP requests to a schema registry; tries the next URL if one does not answer, and starts over after a while.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.web.client import Agent, HTTPConnectionPool
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent

from logbus.client.retry import Backoff
from logbus.client.schema.http_body import BytesBody, bounded_body
from logbus.errors import ConfigError, LogbusError

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_LONGEST_ANSWER = 8 * 1024 * 1024

V = TypeVar("V")


class RegistryError(LogbusError):
    """
    The registry returned an error.

    :ivar status: the HTTP status.
    :ivar error_code: the registry's code, such as 40403 (schema not found), 409 (incompatible), 42201 (invalid schema);
        0: none.
    """

    def __init__(self, message: str, status: int, error_code: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code


class RegistryUnreachable(LogbusError):
    """No registry answered; the message has the addresses and the errors."""


class RegistryHttp:
    """
    Sends requests with retries. For the parameters see :class:`~logbus.client.schema.schema_registry.SchemaRegistry`.
    """

    def __init__(
        self,
        reactor: Any,
        urls: str | Sequence[str],
        *,
        headers: Mapping[str, str],
        timeout: float,
        attempts: int,
        backoff: Backoff | None,
        agent: IAgent | None,
    ) -> None:
        self._urls = [_checked(each) for each in ([urls] if isinstance(urls, str) else urls)]
        if not self._urls:
            raise ConfigError("a schema registry needs a URL such as http://127.0.0.1:8081")
        self._reactor = reactor
        self._timeout = timeout
        self._attempts = attempts
        self._backoff = backoff or Backoff()
        self._headers = {"Accept": CONTENT_TYPE, "Content-Type": CONTENT_TYPE, **headers}
        self._pool = HTTPConnectionPool(reactor) if agent is None else None
        self._agent: Any = Agent(reactor, connectTimeout=timeout, pool=self._pool) if agent is None else agent
        self._closed = False

    async def ask(self, method: str, path: str, body: dict[str, str] | None = None) -> Any:
        """
        Send a request, and return the decoded JSON of the response.

        :raise RegistryError: the registry returned an error; status 429 and 5xx are retried first.
        :raise RegistryUnreachable: no registry answered.
        """
        problems: dict[str, str] = {}
        for attempt in range(self._attempts):
            if self._closed:
                raise RegistryUnreachable("the client of the schema registry is closed")
            url = self._urls[attempt % len(self._urls)]
            if attempt >= len(self._urls):
                await deferLater(self._reactor, self._backoff.before(attempt - len(self._urls) + 1))
            try:
                return await self._request(method, url + path, body)
            except CancelledError:
                raise
            except RegistryError as e:
                if (e.status < 500 and e.status != 429) or attempt == self._attempts - 1:
                    raise
                problems[url] = str(e)
            except Exception as e:
                # Any failure of a connection; try the next URL.
                problems[url] = _problem(e)
        raise RegistryUnreachable(
            "no schema registry answers: " + "; ".join(f"{url}: {problem}" for url, problem in problems.items())
        )

    def close(self) -> Deferred[None]:
        """Send no more requests; fires when idle connections are closed."""
        self._closed = True

        async def close() -> None:
            if self._pool is not None:
                await self._pool.closeCachedConnections()

        return Deferred.fromCoroutine(close())

    async def _request(self, method: str, url: str, body: dict[str, str] | None) -> Any:
        given = None if body is None else json.dumps(body).encode()
        status, data = await self._in_time(Deferred.fromCoroutine(self._exchange(method, url, given)))
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            answer = None
        if status == 200 and answer is not None:
            return answer
        said = answer if isinstance(answer, dict) else {}
        message = str(
            said.get("message")
            or f"HTTP status {status}; is it a schema registry? A broker's is at http://HOST:PORT/registry"
        )
        code = said.get("error_code")
        # A gateway's page instead of JSON: report status 502, so that the request is retried.
        status = 502 if status == 200 else status
        raise RegistryError(f"{method} {url}: {message[:1000]}", status, code if isinstance(code, int) else 0)

    async def _exchange(self, method: str, url: str, body: bytes | None) -> tuple[int, bytes]:
        headers = Headers({name: [value] for name, value in self._headers.items()})
        producer = None if body is None else BytesBody(body)
        response = await self._agent.request(method.encode(), url.encode(), headers, producer)
        return response.code, await bounded_body(response, _LONGEST_ANSWER)

    async def _in_time(self, asked: Deferred[V]) -> V:
        """
        Wait for a Deferred with a timeout. Agents differ in how a cancelled request fails, so a Deferred of its own is
        awaited.
        """
        waiting: Deferred[V] = Deferred()

        def answered(result: Any) -> None:
            if not waiting.called:
                waiting.callback(result)

        timer = self._reactor.callLater(self._timeout, asked.cancel)
        asked.addBoth(answered)
        try:
            return await waiting
        except Exception as e:
            if not timer.active():
                raise RegistryUnreachable(f"no answer in {self._timeout:g} s") from None
            if isinstance(e, CancelledError):
                asked.cancel()
            raise
        finally:
            if timer.active():
                timer.cancel()


def basic_auth(auth: tuple[str, str] | None) -> dict[str, str]:
    """The header for a name and a password, if there are any."""
    if auth is None:
        return {}
    return {"Authorization": "Basic " + base64.b64encode(":".join(auth).encode()).decode()}


def _problem(error: Exception) -> str:
    """Describe the failure of a connection; twisted.web puts the cause into a list."""
    reasons = getattr(error, "reasons", None)
    if reasons:
        return f"it does not speak HTTP, or closed the connection: {reasons[0].getErrorMessage()}"
    return str(error) or type(error).__name__


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        right = False
        parts = urlsplit("")
    if not right:
        raise ConfigError(f"{url!r} is not the URL of a schema registry, such as http://127.0.0.1:8081")
    if parts.username or parts.password:
        raise ConfigError("the URL of a schema registry has no user and password: give them as auth=(name, password)")
    return url.rstrip("/")
