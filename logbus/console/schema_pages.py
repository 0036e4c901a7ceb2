"""
Pages of the schema registry: subjects, their versions, and what differs between two versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from attrs import frozen
from twisted.web.template import Tag, tags

from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.change import done_message
from logbus.console.elements import badge, button_link, card, choice, empty, facts, field, link, name, pages, table
from logbus.console.figures import printable
from logbus.console.page import Page, Visit
from logbus.console.schema_text import compared, indented

SECTION = "/console/schemas"
SUBJECTS_A_PAGE = 200

LEVELS: Mapping[str, str] = {
    "NONE": "any schema is taken",
    "BACKWARD": "a new schema can read what the last version wrote",
    "BACKWARD_TRANSITIVE": "a new schema can read what any version wrote",
    "FORWARD": "the last version can read what a new schema writes",
    "FORWARD_TRANSITIVE": "all versions can read what a new schema writes",
    "FULL": "backward and forward, with the last version",
    "FULL_TRANSITIVE": "backward and forward, with all versions",
}
"""What a level asks of a new schema."""


def to(page: str, **query: str | int) -> str:
    """Return the path of one of these pages."""
    return f"{SECTION}{page}?{urlencode(query)}"


def level_text(level: str) -> list[Any]:
    """Return a level with what it means."""
    return [badge(level), " ", LEVELS.get(level, "")]


async def level_of(visit: Visit, subject: str) -> tuple[str, bool]:
    """Return the level of a subject, and whether it is its own; no subject: that of all."""
    if not subject:
        return (await visit.api.get("/registry/config"))["compatibilityLevel"], False
    path = f"/registry/config/{segment(subject)}"
    try:
        return (await visit.api.get(path))["compatibilityLevel"], True
    except ApiRefusal:
        return (await visit.api.get(path, defaultToGlobal="true"))["compatibilityLevel"], False


@frozen
class SchemaPages:
    """Subjects and versions."""

    @route("GET", "/console/schemas", "Subjects of the schema registry", rights="Needs Describe on the Topic _schemas.")
    async def subjects(self, visit: Visit) -> Page:
        prefix, given = visit.query.get("prefix", ""), visit.query.get("offset", "0")
        offset = int(given) if given.isascii() and given.isdecimal() and len(given) < 7 else 0
        asked: dict[str, str | int] = {"subjectPrefix": prefix, "offset": offset, "limit": SUBJECTS_A_PAGE + 1}
        names = await visit.api.get("/registry/subjects", deleted="true", **asked)
        living = set(await visit.api.get("/registry/subjects", subjectPrefix=prefix))
        level, _ = await level_of(visit, "")
        rows = [
            tags.tr(
                tags.th(link(to("/subject", subject=each), name(each)), scope="row"),
                tags.td("" if each in living else badge("deleted", "warn")),
            )
            for each in names[:SUBJECTS_A_PAGE]
        ]
        none = "No subject begins so." if prefix else "There is no schema."
        more = len(names) > SUBJECTS_A_PAGE
        return Page(
            "Schemas",
            SECTION,
            [
                done_message(visit),
                card(
                    "Subjects",
                    tags.form(
                        tags.label("Names begin with", for_="prefix"),
                        tags.input(type="search", name="prefix", id="prefix", value=printable(prefix)),
                        tags.button("Show", type="submit"),
                        class_="filter",
                        role="search",
                        action=SECTION,
                    ),
                    table("Subjects", ["Name", ""], rows, visit.pause) if rows else empty(none),
                    pages(
                        to("", prefix=prefix) if offset else "",
                        to("", prefix=prefix, offset=offset + SUBJECTS_A_PAGE) if more else "",
                    )
                    if offset or more
                    else "",
                ),
                card(
                    "Compatibility of subjects without a level of their own",
                    tags.p(level_text(level)),
                    tags.p(link(f"{SECTION}/level", "Change …")),
                ),
            ],
            actions=[button_link(f"{SECTION}/register", "Register a schema", "primary")],
        )

    @route("GET", "/console/schemas/subject", "A subject", rights="Needs Describe on the Topic _schemas.")
    async def subject(self, visit: Visit) -> Page:
        subject, base = visit.query.get("subject", ""), f"/registry/subjects/{segment(visit.query.get('subject', ''))}"
        numbers = await visit.api.get(f"{base}/versions", deleted="true")
        try:
            living = set(await visit.api.get(f"{base}/versions"))
        except ApiRefusal:
            living = set()
        chosen = visit.query.get("version") or str(max(living or numbers))
        told = await visit.api.get(f"{base}/versions/{segment(chosen)}", deleted="true")
        level, own = await level_of(visit, subject)
        lines = indented(told["schema"]).split("\n")
        against = visit.query.get("against", "")
        difference: Any = ""
        if against:
            other = await visit.api.get(f"{base}/versions/{segment(against)}", deleted="true")
            difference = card(
                f"From version {other['version']} to version {told['version']}",
                await _difference(visit, indented(other["schema"]).split("\n"), lines),
            )
        references = [
            [link(to("/subject", subject=each["subject"], version=each["version"]), name(each["name"])), " "]
            for each in told.get("references", [])
        ]
        deleted = told["version"] not in living
        return Page(
            f"Subject {subject}",
            SECTION,
            [
                done_message(visit),
                difference,
                card(
                    f"Version {told['version']}",
                    facts(
                        [
                            ("Schema id", str(told["id"])),
                            ("Type", told.get("schemaType", "AVRO")),
                            ("State", badge("deleted", "warn") if deleted else "in use"),
                            *([("Refers to", references)] if references else []),
                        ]
                    ),
                    _text("\n".join(map(printable, lines)), "Schema"),
                ),
                card(
                    "Versions",
                    _compare_form(subject, numbers, str(told["version"]), against),
                    table("Versions", ["Version", "", ""], _rows(subject, numbers, living), visit.pause),
                ),
                card(
                    "Compatibility",
                    tags.p(level_text(level), "" if own else ", as of all subjects"),
                    tags.p(link(to("/level", subject=subject), "Change …")),
                ),
            ],
            trail=[("Schemas", SECTION)],
            actions=[
                button_link(to("/register", subject=subject), "Register a version", "primary"),
                button_link(to("/delete", subject=subject, **({} if living else {"for_good": "yes"})), "Delete …"),
            ],
        )


def _rows(subject: str, numbers: Sequence[int], living: set[int]) -> list[Tag]:
    return [
        tags.tr(
            tags.th(link(to("/subject", subject=subject, version=number), f"Version {number}"), scope="row"),
            tags.td("" if number in living else badge("deleted", "warn")),
            tags.td(
                link(
                    to("/delete", subject=subject, version=number, **({} if number in living else {"for_good": "yes"})),
                    "Delete …",
                )(**{"aria-label": f"Delete version {number}"})
            ),
        )
        for number in reversed(numbers)
    ]


def _compare_form(subject: str, numbers: Sequence[int], version: str, against: str) -> Any:
    if len(numbers) < 2:
        return ""
    choices = {str(number): f"Version {number}" for number in reversed(numbers)}
    earlier = against or str(max((number for number in numbers if number < int(version)), default=numbers[0]))
    return tags.form(
        tags.input(type="hidden", name="subject", value=subject),
        tags.div(choice("From", "against", choices, earlier), choice("To", "version", choices, version), class_="pair"),
        tags.div(tags.button("Compare", type="submit"), class_="buttons"),
        action=f"{SECTION}/subject",
    )


async def _difference(visit: Visit, old: Sequence[str], new: Sequence[str]) -> Tag:
    work = compared(old, new)
    while True:
        try:
            next(work)
        except StopIteration as e:
            lines = e.value
            break
        await visit.pause()
    if lines is None:
        return empty("Too much differs to be compared by lines here.")
    if all(mark == " " for mark, _ in lines):
        return empty("The texts are the same.")
    return _text([_marked(mark, printable(line)) for mark, line in lines], "What differs")


def _marked(mark: str, line: str) -> Any:
    text = f"{mark} {line}\n"
    return text if mark == " " else tags.ins(text) if mark == "+" else tags.del_(text)


def _text(content: Any, label: str) -> Tag:
    return tags.pre(tags.code(content), class_="content", tabindex="0", role="region", **{"aria-label": label})


def subject_field(subject: str, error: str = "") -> Tag:
    """Return the field of a subject's name."""
    note = "By default, clients name it for the topic, with -value or -key appended."
    return field("Subject", "subject", subject, note, error=error, autocomplete="off", spellcheck="false")
