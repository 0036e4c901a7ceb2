"""
The parts that pages are made of: tables, lists, badges, messages and fields of forms.

Every text is escaped by twisted.web.template. Names come from clients: they are isolated from the direction of the text
around them, and shortened.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

from twisted.web.template import Tag, tags

from logbus.console.api_client import ApiRefusal
from logbus.console.figures import printable, shortened

ROWS_A_TURN = 25
"""Rows made per reactor turn: about 3 ms."""


def name(text: str, most: int = 120) -> Tag:
    """Return a name that somebody else chose."""
    shown = shortened(text, most)
    return tags.bdi(shown) if shown == text else tags.bdi(shown, title=printable(text[:1000]))


def link(path: str, *content: Any, class_: str = "") -> Tag:
    """Return a link."""
    return tags.a(*content, href=path, class_=class_) if class_ else tags.a(*content, href=path)


def button_link(path: str, text: str, kind: str = "") -> Tag:
    """Return a link that looks like a button; ``kind`` is ``primary`` or ``danger``."""
    return tags.a(text, href=path, class_=f"button {kind}".strip())


def number_cell(text: str) -> Tag:
    """Return a cell with a number."""
    return tags.td(text, class_="number")


def table(
    caption: str, head: Sequence[str | Tag], rows: Iterable[Tag], pause: Callable[[], Any], numeric: Iterable[int] = ()
) -> Tag:
    """
    Return a table that scrolls by itself if the window is narrow.

    :param caption: what is in it, for those who do not see it.
    :param head: texts, or whole cells (:func:`sort_head`).
    :param pause: makes what fires in the next reactor turn.
    :param numeric: which columns have numbers.
    """
    right = set(numeric)
    heads = [
        each
        if isinstance(each, Tag)
        else tags.th(each, scope="col", class_="number")
        if at in right
        else tags.th(each, scope="col")
        for at, each in enumerate(head)
    ]

    def body() -> Generator[Any, None, None]:
        # A generator, since each pause has to begin when the rows before it are written.
        for made, row in enumerate(rows, 1):
            yield row
            if made % ROWS_A_TURN == 0:
                yield pause()

    return tags.div(
        tags.table(tags.caption(caption, class_="unseen"), tags.thead(tags.tr(heads)), tags.tbody(body())),
        class_="scrolls",
        tabindex="0",
        role="region",
        **{"aria-label": caption},
    )


def sort_head(text: str, path: str, direction: str, is_numeric: bool) -> Tag:
    """
    Return the head of a column by which a table can be sorted.

    :param direction: ``ascending`` or ``descending``; empty: it is sorted by another one.
    """
    made = (
        tags.th(link(path, text), scope="col", class_="number")
        if is_numeric
        else tags.th(link(path, text), scope="col")
    )
    if not direction:
        return made
    arrow = tags.span(" ▲" if direction == "ascending" else " ▼", **{"aria-hidden": "true"})
    return made(arrow, **{"aria-sort": direction})


def facts(items: Iterable[tuple[str, Any]]) -> Tag:
    """Return names with their values."""
    return tags.dl([tags.div(tags.dt(term), tags.dd(value)) for term, value in items], class_="facts")


def card(title: str, *content: Any, id: str = "", kind: str = "") -> Tag:
    """Return a part of a page with a heading; with an ``id`` the script refreshes it."""
    made = tags.section(tags.h2(title), *content, class_=f"card {kind}".strip())
    return made(id=id, **{"data-live": ""}) if id else made


def tile(term: str, value: str, note: Any = "", kind: str = "") -> Tag:
    """Return one big number; ``kind`` is ``good``, ``warn`` or ``bad``."""
    return tags.div(
        tags.dt(term), tags.dd(tags.span(value, class_="value"), tags.span(note, class_="note")), class_=f"tile {kind}"
    )


def badge(text: str, kind: str = "") -> Tag:
    """Return a short word about a state; the word says it, the colour helps."""
    return tags.span(text, class_=f"badge {kind}".strip())


def message(kind: str, *content: Any) -> Tag:
    """Return a message: ``good``, ``bad`` or ``info``."""
    return tags.div(*content, class_=f"message {kind}", role="alert" if kind == "bad" else "status")


def refusal(error: ApiRefusal) -> Tag:
    """Return what a view said instead of an answer, in its place."""
    return message("bad", tags.strong(error.status.phrase, ". "), shortened(error.detail, 2000))


def empty(text: str, *more: Any) -> Tag:
    """Return what stands where there is nothing: it says what to do."""
    return tags.div(tags.p(text), *more, class_="empty")


def command(words: str) -> Tag:
    """Return a line for a shell."""
    return tags.pre(tags.code(words), class_="command", tabindex="0", **{"aria-label": "Command"})


def field(
    label: str,
    name: str,
    value: str = "",
    note: Any = "",
    kind: str = "text",
    error: str = "",
    **more: str,
) -> Tag:
    """Return a labelled field of a form, with an error beside it if there is one."""
    notes = [f"{name}-note"] if note else []
    notes += [f"{name}-error"] if error else []
    attributes: dict[str, str] = {**more}
    if notes:
        attributes["aria-describedby"] = " ".join(notes)
    if error:
        # Of several, browsers take the first.
        attributes |= {"aria-invalid": "true", "autofocus": "autofocus"}
    entry = (
        tags.textarea(_editable_lines(value), name=name, id=f"field-{name}", **attributes)
        if kind == "area"
        else tags.input(type=kind, name=name, id=f"field-{name}", value=_editable(value), **attributes)
    )
    return tags.div(
        tags.label(label, for_=f"field-{name}"),
        entry,
        tags.p(error, class_="error", id=f"{name}-error") if error else "",
        tags.p(note, class_="note", id=f"{name}-note") if note else "",
        class_="field",
    )


def choice(label: str, name: str, choices: Mapping[str, str], chosen: str, error: str = "") -> Tag:
    """Return a labelled list to choose from."""
    options = [
        tags.option(text, value=value, **({"selected": "selected"} if value == chosen else {}))
        for value, text in choices.items()
    ]
    return tags.div(
        tags.label(label, for_=f"field-{name}"),
        tags.select(options, name=name, id=f"field-{name}"),
        tags.p(error, class_="error") if error else "",
        class_="field",
    )


def _editable(text: str) -> str:
    """Return a line to edit without what is not seen, but for tabs: it is sent again."""
    return "\t".join(map(printable, text.split("\t")))


def _editable_lines(text: str) -> str:
    """Return lines to edit, likewise; browsers leave out a line break that is first."""
    lines = "\n".join(map(_editable, text.split("\n")))
    return f"\n{lines}" if lines.startswith("\n") else lines


def hidden(fields: Mapping[str, str]) -> list[Tag]:
    """Return fields that are not seen."""
    return [tags.input(type="hidden", name=key, value=value) for key, value in fields.items()]


def pages(first: str, following: str) -> Tag:
    """Return links to the first and the next page of a list; an empty path: there is none."""
    return tags.nav(
        link(first, "First page") if first else "",
        link(following, "Next page", class_="next") if following else "",
        class_="pages",
        **{"aria-label": "Pages"},
    )
