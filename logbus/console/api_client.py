"""
Asks the views of the HTTP API in this process, with the rights of the user who looks at a page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, unquote, urlencode

from attrs import field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.task import Cooperator
from twisted.logger import Logger

from logbus.admin.authorization import HttpAccess
from logbus.admin.problem_details import problem
from logbus.admin.routing import Router, failure_response
from logbus.admin.schema_registry import ISchemaRegistry

REGISTRY = "/registry/"
"""Paths below it are the schema registry's."""
MOST_BYTES = 2_000_000
"""The longest answer a page is made from: parsing it takes about 20 ms."""


class ApiRefusal(Exception):
    """
    The problem with which a view answered (RFC 9457).

    :param told: its members; ``error`` is the name of Kafka's error, if it is one.
    :param headers: headers of the answer, such as ``WWW-Authenticate``.
    """

    def __init__(self, status: HTTPStatus, told: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        super().__init__(told.get("detail", status.phrase))
        self.status = status
        self.detail: str = told.get("detail", status.phrase)
        self.error: str = told.get("error", "")
        self.headers = headers


@frozen
class ApiClient:
    """
    Asks views for one user.

    :ivar access: what the user may do.
    :ivar cooperator: runs answers that are made in slices.
    :ivar registry: answers at paths below ``/registry/``.
    """

    router: Router
    access: HttpAccess
    cooperator: Cooperator
    registry: ISchemaRegistry | None = None
    _log: Logger = field(factory=Logger, init=False)

    async def get(self, path: str, **query: str | int) -> Any:
        """
        Return the value at a path of the API; the query parameters with empty values are left out.

        :raise ApiRefusal: the view does not give it.
        """
        return await self._ask("GET", path, query, None)

    async def change(
        self, method: str, path: str, body: Any = None, query: Mapping[str, str | int] | None = None
    ) -> Any:
        """
        Have a view change something, and return its answer; None if it has none.

        :raise ApiRefusal: it did not.
        """
        return await self._ask(method, path, query or {}, body)

    async def _ask(self, method: str, path: str, query: Mapping[str, str | int], body: Any) -> Any:
        given = urlencode({name: value for name, value in query.items() if value != ""})
        target = f"{path}?{given}" if given else path
        data = b"" if body is None else json.dumps(body).encode("utf-8", "surrogatepass")
        if path.startswith(REGISTRY):
            return await self._ask_registry(method, path.removeprefix(REGISTRY), query, data)
        try:
            answer = self.router.answer(method, target, {}, data, self.access)
            if isinstance(answer, Deferred):
                answer = await answer
        except Exception as e:
            self._log.failure("{method} {path} failed", method=method, path=path)
            answer = failure_response(e)
        whole = answer.body if isinstance(answer.body, bytes) else await self._whole(answer.body)
        if len(whole) > MOST_BYTES:
            raise _too_long()
        told = json.loads(whole) if whole else None
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise ApiRefusal(answer.status, told or {}, answer.headers)
        return told

    async def _ask_registry(self, method: str, path: str, query: Mapping[str, str | int], data: bytes) -> Any:
        if self.registry is None:
            detail = "This broker has no schema registry: its plugin was left out, for a reason that is in the log."
            raise ApiRefusal(HTTPStatus.NOT_IMPLEMENTED, {"detail": detail}, {})
        parts = [unquote(part) for part in path.split("/")]
        given = {name: str(value) for name, value in query.items()}
        status, answer = await self.registry.ask(method, parts, given, data, self.access)
        if len(answer) > MOST_BYTES:
            raise _too_long()
        told = json.loads(answer)
        if status >= HTTPStatus.BAD_REQUEST:
            raise ApiRefusal(HTTPStatus(status), {"detail": f"{told['message']} ({told['error_code']})"}, {})
        return told

    async def _whole(self, pieces: Callable[[], Iterator[bytes | Deferred[None]]]) -> bytes:
        parts: list[bytes] = []

        def collect() -> Generator[Deferred[None] | None, None, None]:
            length = 0
            for piece in pieces():
                if isinstance(piece, Deferred):
                    yield piece
                    continue
                length += len(piece)
                if length > MOST_BYTES:
                    raise _too_long()
                parts.append(piece)
                yield None

        await self.cooperator.coiterate(collect())
        return b"".join(parts)


def _too_long() -> ApiRefusal:
    status = HTTPStatus.INSUFFICIENT_STORAGE
    detail = "There is more than a page can show; ask the HTTP API for it."
    return ApiRefusal(status, problem(status, detail), {})


def segment(text: str) -> str:
    """Return a name as one segment of a path."""
    return quote(text, safe="")
