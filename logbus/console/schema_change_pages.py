"""
Pages that change the schema registry: check and register a schema, change the level, delete.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from attrs import evolve, frozen
from twisted.web.template import tags

from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.change import Change, carry_out
from logbus.console.elements import button_link, card, choice, empty, field, message, refusal
from logbus.console.page import Page, PageResult, Visit
from logbus.console.schema_pages import LEVELS, SECTION, level_of, subject_field, to
from logbus.console.schema_text import indented

INHERITED = "inherited"
TYPES = {"AVRO": "Avro", "JSON": "JSON Schema", "PROTOBUF": "Protobuf"}
ALTER = "Needs Alter on the Topic _schemas."


@frozen
class SchemaChangePages:
    """Changes of subjects."""

    @route("GET", "/console/schemas/register", "The form of a new schema", rights="Everybody may see it.")
    async def ask_register(self, visit: Visit) -> Page:
        form = dict(visit.query)
        if (subject := form.get("subject", "")) and "schema" not in form:
            with suppress(ApiRefusal):  # of a new subject, or of one that may be written but not read
                latest = await visit.api.get(f"/registry/subjects/{segment(subject)}/versions/latest")
                form |= {"schema": indented(latest["schema"]), "type": latest.get("schemaType", "AVRO")}
        return _schema_form(evolve(visit, form=form))

    @route(
        "POST",
        "/console/schemas/register",
        "Check or register a schema",
        rights="Needs Alter on the Topic _schemas, or Write on the topic that the subject is named for.",
    )
    async def register(self, visit: Visit) -> PageResult:
        subject, text = visit.form.get("subject", "").strip(), visit.form.get("schema", "").replace("\r\n", "\n")
        wrong: dict[str, str] = {}
        if not subject:
            wrong["subject"] = "Give the name of the subject."
        if not text.strip():
            wrong["schema"] = "Give the schema."
        if wrong:
            return _schema_form(visit, wrong)
        body = {"schema": text, "schemaType": visit.form.get("type", "AVRO")}
        path = f"subjects/{segment(subject)}/versions"
        try:
            found = await visit.api.change("POST", f"/registry/compatibility/{path}", body, {"verbose": "true"})
        except ApiRefusal as e:
            return _schema_form(visit, refused=e)
        if not found["is_compatible"] or "check" in visit.form:
            return _schema_form(visit, checked=found["messages"])

        async def again(refused: ApiRefusal) -> PageResult:
            return _schema_form(visit, refused=refused)

        return await carry_out(
            visit,
            _change(
                title=f"Register a schema of {subject}",
                button="Register the schema",
                facts=["It is compatible with the versions that it is compared with.", "Producers may use it then."],
                back=to("/register", subject=subject),
                done=to("/subject", subject=subject, done="schema-registered"),
                method="POST",
                path=f"/registry/{path}",
                body=body,
            ),
            again,
        )

    @route("GET", "/console/schemas/level", "The form of a level", rights="Needs Describe on the Topic _schemas.")
    async def ask_level(self, visit: Visit) -> Page:
        subject = visit.query.get("subject", "")
        level, own = await level_of(visit, subject)
        choices = {each: f"{each}: {meaning}" for each, meaning in LEVELS.items()}
        if subject:
            choices = {INHERITED: "As of all subjects", **choices}
        form = tags.form(
            tags.input(type="hidden", name="subject", value=subject),
            choice("Level", "level", choices, level if own or not subject else INHERITED),
            tags.div(
                tags.button("Go on", type="submit", class_="primary"),
                button_link(_back(subject), "Cancel"),
                class_="buttons",
            ),
            method="post",
            action=f"{SECTION}/level",
        )
        title = f"Compatibility of {subject}" if subject else "Compatibility of all subjects"
        return Page(title, SECTION, [card("What a new schema must be", form)], trail=[("Schemas", SECTION)])

    @route("POST", "/console/schemas/level", "Change the compatibility level", rights=ALTER)
    async def level(self, visit: Visit) -> PageResult:
        subject, level = visit.form.get("subject", ""), visit.form.get("level", "")
        restores = level == INHERITED and bool(subject)
        if level not in LEVELS and not restores:
            return _wrong("Change the level", f"Choose one of {', '.join(LEVELS)}.")
        if restores and not (await level_of(visit, subject))[1]:
            return _wrong("Change the level", "The subject has no level of its own.")
        whose = f"of {subject}" if subject else "of all subjects"
        fact = "The subject has the level of all subjects again." if restores else f"From now on {LEVELS[level]}."
        return await carry_out(
            visit,
            _change(
                title=f"Change the compatibility {whose}",
                button="Change the level",
                facts=[fact, "Versions that are there stay."],
                back=_back(subject),
                done=_back(subject, done="level-changed"),
                method="DELETE" if restores else "PUT",
                path=f"/registry/config/{segment(subject)}" if subject else "/registry/config",
                body=None if restores else {"compatibility": level},
            ),
        )

    @route("GET", "/console/schemas/delete", "Ask to delete a subject or a version", rights="Everybody may see it.")
    async def ask_delete(self, visit: Visit) -> PageResult:
        return await self._delete(evolve(visit, form=visit.query))

    @route("POST", "/console/schemas/delete", "Delete a subject or a version", rights=ALTER)
    async def delete(self, visit: Visit) -> PageResult:
        return await self._delete(visit)

    async def _delete(self, visit: Visit) -> PageResult:
        subject, version = visit.form.get("subject", ""), visit.form.get("version", "")
        if not subject:
            return _wrong("Delete a subject", "Say which subject.")
        for_good = visit.form.get("for_good") == "yes"
        what = f"version {version} of {subject}" if version else f"subject {subject}"
        facts = (
            ["Records that were written with its schema alone can be read no more.", "It cannot be brought back."]
            if for_good
            else [
                "Producers cannot find it any more.",
                "Its schema can be read by its id until it is deleted for good.",
            ]
        )
        path = f"/registry/subjects/{segment(subject)}"
        return await carry_out(
            visit,
            _change(
                title=f"Delete {what}{' for good' if for_good else ''}",
                button="Delete for good" if for_good else "Delete",
                facts=facts,
                back=_back(subject),
                done=f"{SECTION}?done=schema-gone" if for_good else _back(subject, done="schema-deleted"),
                method="DELETE",
                path=f"{path}/versions/{segment(version)}" if version else path,
                query={"permanent": "true"} if for_good else {},
                typed=subject,
            ),
        )


def _back(subject: str, **query: str) -> str:
    return to("/subject", subject=subject, **query) if subject else to("", **query)


def _change(*, method: str, path: str, query: Mapping[str, str] | None = None, **more: Any) -> Change:
    parameters = "".join(f"?{key}={value}" for key, value in (query or {}).items())
    return Change(
        words=[],
        section=SECTION,
        method=method,
        path=path,
        query=query or {},
        no_command=f"There is no command of logbus for it. Over HTTP it is {method} {path}{parameters}.",
        **more,
    )


def _wrong(title: str, told: str) -> Page:
    return Page(title, SECTION, [empty(told)], trail=[("Schemas", SECTION)], status=HTTPStatus.BAD_REQUEST)


def _schema_form(
    visit: Visit,
    wrong: Mapping[str, str] | None = None,
    refused: ApiRefusal | None = None,
    checked: list[str] | None = None,
) -> Page:
    errors, form = wrong or {}, visit.form
    told: Any = "" if refused is None else refusal(refused)
    if checked:
        told = message("bad", tags.strong("It is not compatible. "), tags.ul([tags.li(each) for each in checked]))
    elif checked is not None:
        told = message("good", "It is compatible; it was not registered.")
    status = HTTPStatus.BAD_REQUEST if errors else HTTPStatus.CONFLICT if checked else HTTPStatus.OK
    return Page(
        "Register a schema",
        SECTION,
        [
            told,
            card(
                "Which",
                tags.form(
                    subject_field(form.get("subject", ""), errors.get("subject", "")),
                    choice("Type", "type", TYPES, form.get("type", "AVRO")),
                    field(
                        "Schema",
                        "schema",
                        form.get("schema", ""),
                        error=errors.get("schema", ""),
                        kind="area",
                        rows="16",
                        spellcheck="false",
                    ),
                    tags.div(
                        tags.button("Register …", type="submit", class_="primary"),
                        tags.button("Check only", type="submit", name="check", value="yes"),
                        button_link(_back(form.get("subject", "")) if form.get("subject") else SECTION, "Cancel"),
                        class_="buttons",
                    ),
                    method="post",
                    action=f"{SECTION}/register",
                ),
            ),
        ],
        trail=[("Schemas", SECTION)],
        status=status if refused is None else refused.status,
    )
