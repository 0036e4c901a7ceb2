"""
A change that a user asks for: shown with its command first, carried out once it is confirmed.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from attrs import frozen
from twisted.web.template import Tag, tags

from logbus.console.api_client import ApiRefusal
from logbus.console.elements import button_link, card, command, field, hidden, message, refusal
from logbus.console.figures import printable, shortened
from logbus.console.page import Page, PageResult, SeeOther, Visit

MOST_OF_FACT = 1000
CONFIRMED = "confirmed"
TYPED = "typed_name"
SEEN = "seen"
"""The field of a form with a digest of what it shows, see :func:`seen`."""


@frozen
class Change:
    """
    A change.

    :ivar title: what it does: ``Create topic orders``.
    :ivar button: the same in a word or two.
    :ivar words: the arguments of the equivalent ``logbus`` command.
    :ivar facts: sentences about what it means.
    :ivar back: the path of the page it was asked for on.
    :ivar preview: what the change would do, in detail.
    :ivar given: what the command reads from standard input; None: nothing.
    :ivar no_command: why there is no such command; empty: there is.
    :ivar done: the path of the page that shows the result; a function gets the API's answer, and may refuse it.
    :ivar typed: a name the user must type to confirm; empty: none.
    :ivar query: the parameters of the request to the API.
    """

    title: str
    button: str
    words: Sequence[str]
    facts: Sequence[str]
    back: str
    done: str | Callable[[Any], str]
    section: str
    method: str
    path: str
    body: Any = None
    query: Mapping[str, str | int] = MappingProxyType({})
    typed: str = ""
    preview: Any = ""
    given: str | None = None
    no_command: str = ""

    @property
    def command(self) -> str:
        """The equivalent command, quoted for a shell."""
        line = shell_line(["logbus", *self.words])
        return f"printf '%s\\n' {_word(self.given)} | {line}" if self.given is not None else line

    @property
    def is_dangerous(self) -> bool:
        """Whether it destroys something."""
        return bool(self.typed)


Again = Callable[[ApiRefusal], Awaitable[PageResult]]
"""Returns the form again, with what is wrong."""


async def carry_out(visit: Visit, change: Change, again: Again | None = None) -> PageResult:
    """Return the page that asks, or make the change if it is confirmed."""
    if visit.form.get(CONFIRMED) != "yes":
        return _question(visit, change)
    typed = visit.form.get(TYPED, "")
    if change.typed and typed != change.typed:
        return _question(visit, change, f"This is not the name. Type {shortened(change.typed)} to confirm.")
    try:
        told = await visit.api.change(change.method, change.path, change.body, change.query)
        return SeeOther(change.done(told) if callable(change.done) else change.done)
    except ApiRefusal as e:
        if again is not None:
            return await again(e)
        return _question(visit, change, refused=e)


def _question(visit: Visit, change: Change, error: str = "", refused: ApiRefusal | None = None) -> Page:
    kept = {name: value for name, value in visit.form.items() if name not in (CONFIRMED, TYPED)}
    form = tags.form(
        hidden({**kept, CONFIRMED: "yes"}),
        field(
            f"Type {shortened(change.typed)} to confirm",
            TYPED,
            error=error,
            autocomplete="off",
            spellcheck="false",
            required="required",
        )
        if change.typed
        else "",
        tags.div(
            tags.button(change.button, type="submit", class_="danger" if change.is_dangerous else "primary"),
            button_link(change.back, "Cancel"),
            class_="buttons",
        ),
        method="post",
        action=visit.path,
    )
    status = HTTPStatus.OK if not error and refused is None else HTTPStatus.BAD_REQUEST
    return Page(
        change.title,
        change.section,
        [
            "" if refused is None else refusal(refused),
            card(
                "Please confirm",
                tags.ul([tags.li(shortened(fact, MOST_OF_FACT)) for fact in change.facts], class_="plain")
                if change.facts
                else "",
                change.preview,
                form,
                kind="danger" if change.is_dangerous else "",
            ),
            card(
                "The same on the command line",
                tags.p(change.no_command) if change.no_command else command(change.command),
            ),
        ],
        status=status if refused is None else refused.status,
    )


def shell_line(words: Sequence[str]) -> str:
    """Return a line for a shell, in which everything is seen: what is not is written as Bash does, ``$'a\\x07'``."""
    return " ".join(map(_word, words))


def _word(text: str) -> str:
    if printable(text) == text:
        return shlex.quote(text)
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if printable(character) == character:
        return character
    return f"\\x{ord(character):02x}" if ord(character) < 128 else f"\\u{ord(character):04x}"


def seen(value: Any) -> str:
    """Return a digest of what a form shows, by which it is noticed that somebody else has changed it meanwhile."""
    return sha256(json.dumps(value).encode()).hexdigest()[:32]


def outdated(what: str) -> Tag:
    """Return what to tell then."""
    return message(
        "bad",
        tags.strong(f"Somebody has changed {what} since you opened the form. "),
        "What it is now is shown here, and what you typed is kept: send it again if it is still right.",
    )


DONE: Mapping[str, str] = MappingProxyType(
    {
        "produced": "The record was written.",
        "created": "The topic was created.",
        "deleted": "The topic was deleted.",
        "changed": "The setting was changed.",
        "restored": "The setting has its inherited value again.",
        "extended": "The partitions were added.",
        "reset": "The offsets were reset.",
        "offsets-deleted": "The offsets were deleted.",
        "records-deleted": "The records were deleted.",
        "aborted": "The transaction was aborted.",
        "group-deleted": "The group was deleted.",
        "acl-created": "The ACL was created.",
        "acl-deleted": "The ACL was deleted.",
        "quotas-changed": "The quotas were changed.",
        "elected": "The election was held.",
        "moving": "It is being moved.",
        "move-cancelled": "The move was cancelled.",
        "level-set": "The level was changed.",
        "password-set": "The password was set.",
        "user-deleted": "The user was deleted.",
        "schema-registered": "The schema was registered.",
        "level-changed": "The compatibility level was changed.",
        "schema-deleted": "It was deleted; it can be read until it is deleted for good.",
        "schema-gone": "It was deleted for good.",
    }
)


def done_message(visit: Visit) -> Tag | str:
    """Return what was done by the change that led to this page, if one did."""
    said = DONE.get(visit.query.get("done", ""))
    return "" if said is None else message("good", said)
