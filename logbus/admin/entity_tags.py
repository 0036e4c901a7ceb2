"""
Entity tags (RFC 9110, 8.8.3), so that of two people who change one thing the second does not undo what the first did.

A tag has a digest of all members of what can be changed, and a short one of each: a request with an old tag can be told
which members have changed since, though nothing is kept.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from attrs import define, field

from logbus.admin.json_schema import string
from logbus.admin.problem_details import HttpProblem
from logbus.errors import ApiError, ErrorCode

IF_MATCH = "if-match"
MAX_NAMED = 60
"""Members that a tag has a digest of; of what has more, it is not told which have changed."""

_TAG = r'(W/)?"[\x21\x23-\x7e]*"'
_TAGS = string(
    "Tags, of which one must be the present ETag, or '*'; else 412, and nothing is changed.",
    pattern=rf"^(\*|{_TAG}(, ?{_TAG})*)$",
    maxLength=4096,
)
CONDITION = {"If-Match": _TAGS}
"""Header fields of requests that change what has a tag."""
ETAG = {"ETag": string("Identifies what is there now.", pattern=f"^{_TAG}$")}
"""Header fields of responses that show it."""

_WHOLE, _NAME, _VALUE = 16, 4, 4
"""Characters in a tag: of the digest of all, and of those of each member's name and value."""


def entity_tag(members: Mapping[str, Any], also: str = "") -> str:
    """
    Return the tag of some members.

    :param also: what else identifies the thing, such as the id of a topic.
    """
    whole = _digest([also, sorted(members.items())])[:_WHOLE]
    parts = ["~"] if len(members) > MAX_NAMED else sorted(_part(name, value) for name, value in members.items())
    return f'"{".".join([whole, *parts])}"'


@define(eq=False)
class Precondition:
    """
    The ``If-Match`` of a request; without one, all may be changed.

    :ivar what: begins a sentence: what has the tag.
    :ivar known: names that members may have, so that those that are gone can be named.
    :ivar also: as of :func:`entity_tag`.
    :ivar members_of: returns the members of what :meth:`check` gets.
    :ivar problem: the answer, once :meth:`check` has refused.
    """

    what: str
    headers: Mapping[str, Sequence[str]]
    known: Iterable[str] = ()
    also: str = ""
    members_of: Callable[[Any], Mapping[str, Any]] = lambda present: present
    problem: HttpProblem | None = field(default=None, init=False)

    @property
    def is_given(self) -> bool:
        """Whether the request has one."""
        return IF_MATCH in self.headers

    def check(self, present: Any) -> None:
        """
        Compare with what is there, where and when it is changed.

        :raise ApiError: the tags are others; what :meth:`refusal` returns says so to the client.
        """
        members = self.members_of(present)
        tag = entity_tag(members, self.also)
        given = re.findall(r'\*|(?:W/)?"[^"]*"', ",".join(self.headers.get(IF_MATCH, ("*",))))
        if "*" in given or tag in given:
            return
        changed = self._changed(given[0], tag, members) if given else ""
        self.problem = HttpProblem(
            HTTPStatus.PRECONDITION_FAILED,
            f"{self.what} has changed since it had the tag in If-Match{changed}. Read it again, and decide anew; its "
            f"ETag is {tag} now.",
            {"ETag": tag},
        )
        raise ApiError(ErrorCode.INVALID_REQUEST, self.problem.detail)

    def refusal(self, error: Exception) -> Exception:
        """Return what a client is told of an error: that of :meth:`check` says more than Kafka's can."""
        return error if self.problem is None else self.problem

    def _changed(self, given: str, present: str, members: Mapping[str, Any]) -> str:
        (whole, *before), (_, *now) = (tag.strip('"').split(".") for tag in (given, present))
        if len(whole) != _WHOLE or any(len(part) != _NAME + _VALUE for part in (*before, *now)):
            return ""  # it is none of ours, or has too many members
        names = [name for name, value in members.items() if _part(name, value) not in before]
        gone = {part[:_NAME] for part in before} - {part[:_NAME] for part in now}
        names += [name for name in self.known if name not in members and _digest(name)[:_NAME] in gone]
        return f": {', '.join(sorted(names))}" if names else ""


def _part(name: str, value: Any) -> str:
    return _digest(name)[:_NAME] + _digest(value)[:_VALUE]


def _digest(value: Any) -> str:
    told = json.dumps(value).encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(hashlib.sha256(told).digest()).decode()
