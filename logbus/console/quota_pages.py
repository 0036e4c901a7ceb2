"""
Pages of the quotas of users, client ids and addresses: a table of them, and a form to change those of one entity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from attrs import evolve, frozen
from twisted.web.template import Tag, tags

from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal
from logbus.console.change import CONFIRMED, SEEN, Change, carry_out, outdated, seen, shell_line
from logbus.console.elements import button_link, card, empty, facts, field, hidden, link, name, refusal, table
from logbus.console.figures import count
from logbus.console.page import Page, PageResult, Visit

SECTION = "/console/access"
PARTS = {"user": "User", "client_id": "Client id", "ip": "Address"}
OPTIONS = {"user": "--user", "client_id": "--client-id", "ip": "--ip"}
KEYS = {
    "producer_byte_rate": "Bytes a second that are produced",
    "consumer_byte_rate": "Bytes a second that are fetched",
    "request_percentage": "Percent of a processor's time",
    "controller_mutation_rate": "Partitions a second that are created or deleted",
    "connection_creation_rate": "Connections a second, of an address",
}
"""Kafka's quotas."""

Entity = Mapping[str, str | None]
"""The parts of an entity; None is the default of its type."""


async def quota_card(visit: Visit) -> Tag:
    """Return all quotas, or why they are not shown."""
    try:
        told = await visit.api.get("/api/v1/quotas")
    except ApiRefusal as e:
        return card("Quotas", refusal(e), id="quotas")
    rows = [
        tags.tr(
            tags.th(name(_named(each["entity"])), scope="row"),
            tags.td([tags.div(tags.code(f"{key}={_text(value)}")) for key, value in sorted(each["quotas"].items())]),
            tags.td(
                link(f"{SECTION}/quotas?{urlencode(_fields(each['entity']))}", "Change …")(
                    **{"aria-label": f"Change the quotas of {_named(each['entity'])}"}
                )
            ),
        )
        for each in told["items"]
    ]
    more = told["total"] - len(rows)
    return card(
        "Quotas",
        table("Quotas by entity", ["Of", "Quotas", ""], rows, visit.pause)
        if rows
        else empty("There is no quota: nobody is slowed down."),
        tags.p(f"{count(more, 'entity', 'entities')} more: logbus quotas list", class_="note") if more > 0 else "",
        id="quotas",
    )


@frozen
class QuotaPages:
    """Changes of quotas."""

    @route("GET", "/console/access/quotas", "The form to change quotas", rights="Needs DescribeConfigs on the Cluster.")
    async def ask(self, visit: Visit) -> Page:
        entity = _entity(visit.query)
        now = await _quotas_of(visit, entity) if entity else {}
        shown = {**visit.query, **{key: _text(value) for key, value in now.items()}}
        if entity:
            shown[SEEN] = seen(sorted(now.items()))
        return _page(evolve(visit, form=shown), {}, None)

    @route("POST", "/console/access/quotas", "Change quotas", rights="Needs AlterConfigs on the Cluster.")
    async def change(self, visit: Visit) -> PageResult:
        form, wrong = visit.form, dict[str, str]()
        entity = _entity(form)
        if not entity:
            wrong["user"] = "Name a user, a client id, both, or an address."
        quotas: dict[str, float | None] = {}
        for key in KEYS:
            text = form.get(key, "").strip()
            value = _number(text)
            if text and value is None:
                wrong[key] = "This must be a number, or empty: no quota."
            elif value is not None:
                quotas[key] = value
        if wrong:
            return _page(visit, wrong, None)
        try:
            now = await _quotas_of(visit, entity)
            if form.get(SEEN, found := seen(sorted(now.items()))) != found:
                return _page(evolve(visit, form={**form, SEEN: found}), {}, None, now)
            quotas = {key: value for key, value in quotas.items() if now.get(key) != value}
            quotas |= {key: None for key in now if not form.get(key, "").strip()}
            if not quotas:
                return _page(visit, {"user": "These are the quotas that it has."}, None)
            if form.get(CONFIRMED) != "yes":
                await visit.api.change(
                    "PATCH", "/api/v1/quotas", {"entity": entity, "quotas": quotas, "validate_only": True}
                )
        except ApiRefusal as e:
            return _page(visit, {}, e)

        async def again(error: ApiRefusal) -> PageResult:
            return _page(visit, {}, error)

        words = _commands(entity, quotas)
        return await carry_out(
            visit,
            Change(
                title=f"Change the quotas of {_named(entity)}",
                button="Change",
                words=words[0],
                no_command=""
                if len(words) == 1
                else "Two commands: " + " ; ".join(shell_line(["logbus", *each]) for each in words),
                facts=[
                    f"{key} has no limit any more." if value is None else f"{key} is {_text(value)}."
                    for key, value in quotas.items()
                ],
                back=f"{SECTION}/quotas?{urlencode(_fields(entity))}",
                done=f"{SECTION}?done=quotas-changed",
                section=SECTION,
                method="PATCH",
                path="/api/v1/quotas",
                body={"entity": entity, "quotas": quotas},
            ),
            again,
        )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _fields(entity: Entity) -> dict[str, str]:
    """The fields of a form that name an entity."""
    return {f"{part}_default" if value is None else part: value or "yes" for part, value in entity.items()}


def _entity(fields: Mapping[str, str]) -> dict[str, str | None]:
    entity: dict[str, str | None] = {}
    for part in PARTS:
        if fields.get(f"{part}_default") == "yes":
            entity[part] = None
        elif text := fields.get(part, "").strip():
            entity[part] = text
    return entity


def _named(entity: Entity) -> str:
    words = {"user": "user", "client_id": "client id", "ip": "address"}
    return ", ".join(
        f"{words[part]} {value}" if value is not None else f"every other {words[part]}"
        for part, value in entity.items()
    )


async def _quotas_of(visit: Visit, entity: Entity) -> Mapping[str, float]:
    """
    Ask for the quotas of an entity.

    :raise ApiRefusal: the user may not know them.
    """
    asked = {f"{part}_default" if value is None else part: value or "true" for part, value in entity.items()}
    told = await visit.api.get("/api/v1/quotas", strict="true", **asked)
    found: Mapping[str, float] = next((each["quotas"] for each in told["items"] if each["entity"] == entity), {})
    return found


def _commands(entity: Entity, quotas: Mapping[str, float | None]) -> list[list[str]]:
    options = [
        word
        for part, value in entity.items()
        for word in ([f"{OPTIONS[part]}-default"] if value is None else [OPTIONS[part], value])
    ]
    given = [f"{key}={_text(value)}" for key, value in quotas.items() if value is not None]
    removed = [key for key, value in quotas.items() if value is None]
    commands = [["quotas", "set", *options, *given]] if given else []
    return [*commands, ["quotas", "delete", *options, *removed]] if removed else commands


def _page(
    visit: Visit,
    wrong: Mapping[str, str],
    refused: ApiRefusal | None,
    changed: Mapping[str, float] | None = None,
) -> Page:
    """
    Return the form.

    :param changed: the quotas that somebody else has set since the user saw them; None: nobody has.
    """
    form = visit.form
    status = HTTPStatus.BAD_REQUEST if wrong else HTTPStatus.OK
    parts: list[Any] = []
    for part, title in PARTS.items():
        checked = {"checked": "checked"} if form.get(f"{part}_default") == "yes" else {}
        parts.append(
            tags.div(
                field(
                    title, part, form.get(part, ""), error=wrong.get(part, ""), autocomplete="off", spellcheck="false"
                ),
                tags.label(
                    tags.input(type="checkbox", name=f"{part}_default", value="yes", **checked),
                    " every other one, without quotas of its own",
                ),
            )
        )
    limits = [
        field(title, key, form.get(key, ""), error=wrong.get(key, ""), inputmode="decimal", autocomplete="off")
        for key, title in KEYS.items()
    ]
    return Page(
        "Quotas",
        SECTION,
        [
            "" if refused is None else refusal(refused),
            "" if changed is None else outdated("these quotas"),
            ""
            if changed is None
            else card(
                "Now",
                facts([(KEYS[key], _text(value)) for key, value in sorted(changed.items())])
                if changed
                else empty("There is no quota."),
            ),
            tags.form(
                hidden({SEEN: form[SEEN]}) if SEEN in form else "",
                card("Of whom", tags.p("A user, a client id, both together, or an address.", class_="note"), *parts),
                card("Limits", tags.p("Empty: no limit.", class_="note"), *limits),
                tags.div(
                    tags.button("Review", type="submit", class_="primary"),
                    button_link(SECTION, "Cancel"),
                    class_="buttons",
                ),
                method="post",
                action=f"{SECTION}/quotas",
            ),
        ],
        trail=[("Access", SECTION)],
        status=HTTPStatus.CONFLICT if changed is not None else status if refused is None else refused.status,
    )
