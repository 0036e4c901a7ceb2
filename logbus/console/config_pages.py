"""
Pages of settings: of topics and brokers, with the source of each value; a form for each that can be changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.web.template import Tag, tags

from logbus.admin.problem_details import HttpProblem
from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.change import SEEN, Change, carry_out, outdated, seen
from logbus.console.elements import badge, button_link, card, empty, facts, field, hidden, link, name, refusal, table
from logbus.console.figures import shortened
from logbus.console.page import Page, PageResult, Visit

VALUE, RESTORE = "value", "restore"
Entry = Mapping[str, Any]


def settings_card(visit: Visit, entries: Sequence[Entry], path: str) -> Tag:
    """
    Return the settings of a topic or broker, those that are set first.

    :param path: the path of the topic's or broker's page.
    """
    wanted = visit.query.get("setting", "").strip().lower()
    shown = [each for each in entries if wanted in each["name"].lower()]
    shown.sort(key=lambda each: (each["source"] == "default", each["name"]))
    rows = (
        tags.tr(
            tags.th(
                link(f"{path}/settings/{segment(each['name'])}", name(each["name"])),
                tags.p(_first_sentence(each["documentation"]), class_="note"),
                scope="row",
            ),
            tags.td(tags.code(value_text(each))),
            tags.td(badge(each["source"], "" if each["source"] == "default" else "info")),
            tags.td("at start" if each["read_only"] else "live"),
        )
        for each in shown
    )
    search = tags.form(
        tags.label("Filter settings", for_="setting-filter", class_="unseen"),
        tags.input(type="search", name="setting", id="setting-filter", value=wanted, placeholder="Filter settings"),
        tags.button("Filter", type="submit"),
        method="get",
        action=f"{path}#settings",
        class_="filter",
    )
    content = (
        table("Settings", ["Setting", "Value", "Source", "Changes"], rows, visit.pause)
        if shown
        else empty(f"No setting has {shortened(wanted)!r} in its name.", link(f"{path}#settings", "Show all settings"))
    )
    return tags.section(tags.h2("Settings"), search, content, class_="card", id="settings")


def value_text(entry: Entry) -> str:
    """Return the value of a setting, short."""
    if entry["sensitive"]:
        return "(hidden)"
    if entry["value"] is None:
        return "(not set)"
    return shortened(entry["value"], 80) or "(empty)"


def _first_sentence(text: str) -> str:
    return shortened(text.partition(". ")[0].replace("``", "").rstrip("."), 160)


@frozen
class ConfigPages:
    """A setting of a topic or broker, and the form to change it."""

    @route("GET", "/console/topics/{topic}/settings/{key}", "A topic's setting", rights="Those of the settings.")
    async def topic_setting(self, visit: Visit) -> Page:
        return await _setting_page(visit, "topic", visit.names["topic"])

    @route("POST", "/console/topics/{topic}/settings/{key}", "Change it", rights="Those of the settings.")
    async def change_topic(self, visit: Visit) -> PageResult:
        return await _change(visit, "topic", visit.names["topic"])

    @route("GET", "/console/brokers/{broker}/settings/{key}", "A broker's setting", rights="Those of the settings.")
    async def broker_setting(self, visit: Visit) -> Page:
        return await _setting_page(visit, "broker", visit.names["broker"])

    @route("POST", "/console/brokers/{broker}/settings/{key}", "Change it", rights="Those of the settings.")
    async def change_broker(self, visit: Visit) -> PageResult:
        return await _change(visit, "broker", visit.names["broker"])


def _api_path(kind: str, owner: str) -> str:
    return f"/api/v1/configs/{kind}s/{segment(owner)}"


async def _entry(visit: Visit, kind: str, owner: str) -> Entry:
    entries: Sequence[Entry] = (await visit.api.get(_api_path(kind, owner)))["items"]
    key = visit.names["key"]
    entry = next((each for each in entries if each["name"] == key), None)
    if entry is None:
        raise HttpProblem(HTTPStatus.NOT_FOUND, f"There is no setting {key[:200]!r} of a {kind}.")
    return entry


async def _setting_page(
    visit: Visit, kind: str, owner: str, refused: ApiRefusal | None = None, *, is_outdated: bool = False
) -> Page:
    """
    Return the form.

    :param is_outdated: somebody else has changed the setting since the user saw it.
    """
    key, entry = visit.names["key"], await _entry(visit, kind, owner)
    title = f"{kind.title()} {owner}" if kind == "broker" else owner
    plural = f"{kind}s"
    own_sources = ("topic",) if kind == "topic" else ("broker", "cluster")
    given = visit.form.get(VALUE, "" if entry["value"] is None else entry["value"])
    synonyms = [
        tags.tr(
            tags.th(name(each["name"]), scope="row"),
            tags.td(tags.code(value_text({**entry, "value": each["value"]}))),
            tags.td(each["source"]),
        )
        for each in entry["synonyms"]
    ]
    form: Any
    if entry["read_only"]:
        form = empty("This setting is read at start: change it in the configuration file, and restart the broker.")
    else:
        form = tags.form(
            hidden({SEEN: seen([entry["value"], entry["source"]])}),
            field(
                "New value",
                VALUE,
                given,
                note=f"A value of type {entry['type']}.",
                error="" if refused is None else shortened(refused.detail, 500),
                kind="password" if entry["sensitive"] else "text",
                autocomplete="off",
                spellcheck="false",
            ),
            tags.div(
                tags.button("Review the change", type="submit", class_="primary"),
                tags.button("Restore the inherited value", type="submit", name=RESTORE, value="yes")
                if entry["source"] in own_sources
                else "",
                button_link(f"/console/{plural}/{segment(owner)}#settings", "Cancel"),
                class_="buttons",
            ),
            method="post",
            action=visit.path,
        )
    return Page(
        key,
        f"/console/{plural}",
        [
            outdated("this setting") if is_outdated else "",
            card(
                "Now",
                facts([("Value", tags.code(value_text(entry))), ("Source", entry["source"]), ("Type", entry["type"])]),
                tags.p(entry["documentation"].replace("``", "")),
            ),
            card("Change", form),
            card("All values set for it", table("Values", ["Key", "Value", "Source"], synonyms, visit.pause))
            if synonyms
            else "",
        ],
        trail=[(plural.title(), f"/console/{plural}"), (title, f"/console/{plural}/{segment(owner)}#settings")],
        status=HTTPStatus.CONFLICT if is_outdated else HTTPStatus.OK if refused is None else refused.status,
    )


async def _change(visit: Visit, kind: str, owner: str) -> PageResult:
    key, restores = visit.names["key"], visit.form.get(RESTORE) == "yes"
    value = visit.form.get(VALUE, "")
    path = f"/console/{kind}s/{segment(owner)}"
    words = ["configs", "delete", kind, owner, key] if restores else ["configs", "set", kind, owner, f"{key}={value}"]
    change = Change(
        title=f"{'Restore' if restores else 'Change'} {key} of {kind} {owner}",
        button="Restore" if restores else "Change",
        words=words,
        facts=[
            f"{key} gets the value that it has without one of its own."
            if restores
            else f"{key} becomes {shortened(value, 500)!r}.",
            "It takes effect at once, without a restart.",
        ],
        back=visit.path,
        done=f"{path}?done={'restored' if restores else 'changed'}",
        section=f"/console/{kind}s",
        method="PATCH",
        path=_api_path(kind, owner),
        body={key: None if restores else value},
    )

    async def again(error: ApiRefusal) -> PageResult:
        try:
            return await _setting_page(visit, kind, owner, error)
        except ApiRefusal:  # may change it, but not see it
            return Page(key, f"/console/{kind}s", [refusal(error)], status=error.status)

    if SEEN in visit.form:
        with suppress(ApiRefusal):  # as above
            entry = await _entry(visit, kind, owner)
            if visit.form[SEEN] != seen([entry["value"], entry["source"]]):
                return await _setting_page(visit, kind, owner, is_outdated=True)
    return await carry_out(visit, change, again)
