"""
Pages for browsers, as the HTTP server sees them: something above this package serves some paths instead of the router.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Protocol

from attrs import frozen

from logbus.admin.authorization import HttpAccess
from logbus.admin.problem_details import HttpProblem
from logbus.admin.routing import Headers, PendingResponse


class Pages(Protocol):
    """The pages of a listener."""

    def start(self) -> None:
        """The listener starts."""

    def stop(self) -> None:
        """The listener has stopped."""

    def serves(self, path: str) -> bool:
        """Return whether a path is that of a page."""

    def answer(self, method: str, target: str, headers: Headers, body: bytes, access: HttpAccess) -> PendingResponse:
        """Answer a request, as :meth:`.Router.answer` does."""


@frozen
class NoPages:
    """A listener without pages."""

    def start(self) -> None:
        """There is nothing to start."""

    def stop(self) -> None:
        """There is nothing to stop."""

    def serves(self, path: str) -> bool:
        return False

    def answer(self, method: str, target: str, headers: Headers, body: bytes, access: HttpAccess) -> PendingResponse:
        raise HttpProblem(HTTPStatus.NOT_FOUND, "This listener has no pages.")
