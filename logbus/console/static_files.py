"""
The style sheet, the scripts and the icon, which browsers keep: their addresses change with their content.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from types import MappingProxyType

from attrs import field, frozen

from logbus.admin.problem_details import HttpProblem
from logbus.admin.routing import ViewResponse

PREFIX = "/console/static/"
TYPES: Mapping[str, str] = MappingProxyType(
    {
        "console.css": "text/css; charset=utf-8",
        "console.js": "text/javascript; charset=utf-8",
        "tail.js": "text/javascript; charset=utf-8",
        "icon.svg": "image/svg+xml",
    }
)


def _read() -> Mapping[str, bytes]:
    directory = files("logbus.console") / "static"
    return {name: (directory / name).read_bytes() for name in TYPES}


@frozen
class StaticFiles:
    """The files, read once."""

    _contents: Mapping[str, bytes] = field(factory=_read)

    def address(self, name: str) -> str:
        """Return the path of a file."""
        return f"{PREFIX}{sha256(self._contents[name]).hexdigest()[:12]}/{name}"

    def answer(self, name: str) -> ViewResponse:
        """
        Return a file.

        :raise HttpProblem: there is none of this name.
        """
        content = self._contents.get(name)
        if content is None:
            raise HttpProblem(HTTPStatus.NOT_FOUND, f"There is no file {name[:100]!r}.")
        kept = {"Cache-Control": "private, max-age=31536000, immutable"}
        return ViewResponse(HTTPStatus.OK, TYPES[name], content, kept)
