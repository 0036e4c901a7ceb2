"""
Pages of single topics: the partitions and the readers of one, and the forms that create and delete them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.internet.interfaces import IReactorTime
from twisted.web.template import Tag, tags

from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.broker_answers import from_brokers, soon
from logbus.console.change import Change, carry_out, done_message
from logbus.console.config_pages import settings_card
from logbus.console.elements import (
    badge,
    button_link,
    card,
    empty,
    facts,
    field,
    link,
    message,
    number_cell,
    pages,
    refusal,
    table,
)
from logbus.console.figures import count, number, shortened, size
from logbus.console.group_pages import KINDS, group_link
from logbus.console.page import Page, PageResult, Visit
from logbus.console.topic_list_page import fault_badges

SECTION = "/console/topics"
ROWS, READERS = 50, 50
"""Rows of a page; and groups that are shown as readers."""
_WHOLE = re.compile(r"-?[0-9]{1,9}")


@frozen
class TopicPages:
    """One topic."""

    clock: IReactorTime

    @route("GET", "/console/topics/{topic}", "One topic", rights="Shows what the user may see.")
    async def topic(self, visit: Visit) -> Page:
        topic = visit.names["topic"]
        at, after = f"/api/v1/topics/{segment(topic)}", visit.query.get("after", "")
        about = await visit.api.get(at)
        partitions = await visit.api.get(f"{at}/partitions", limit=ROWS, after=after)
        items = await _as_leaders_tell(visit, self.clock, f"{at}/partitions", partitions["items"], after)
        path = f"{SECTION}/{segment(topic)}"
        following = f"{path}?after={partitions['next']}" if partitions["next"] is not None else ""
        try:
            entries = (await visit.api.get(f"/api/v1/configs/topics/{segment(topic)}"))["items"]
            settings = settings_card(visit, entries, path)
        except ApiRefusal as e:
            settings = card("Settings", refusal(e))
        readers = await self._readers(visit, at)
        return Page(
            topic,
            SECTION,
            [
                done_message(visit),
                card(
                    "About",
                    facts(
                        [
                            ("State", fault_badges(about) or badge("ok", "good")),
                            ("Partitions", number(about["partitions"])),
                            ("Replicas of each", number(about["replication_factor"])),
                            *(_sums(items) if len(items) == about["partitions"] else []),
                            ("Cleanup", shortened(about["cleanup_policy"] or "not yours to see", 40)),
                            ("Id", tags.code(about["id"])),
                            ("Written by", "brokers only" if about["internal"] else "producers"),
                        ]
                    ),
                ),
                card(
                    "Partitions",
                    table(
                        f"Partitions of {topic}",
                        ["Partition", "State", "Leader", "Replicas", "In sync", "First offset", "End offset", "Size"],
                        [_partition(each, path) for each in items],
                        visit.pause,
                        (0, 5, 6, 7),
                    ),
                    tags.p("Offsets and sizes are those of the leaders.", class_="note"),
                    pages(path if after else "", following),
                    id="partitions",
                ),
                readers,
                settings,
            ],
            trail=[("Topics", SECTION)],
            actions=[
                button_link(f"{path}/records", "Records", "primary"),
                button_link(f"{path}/tail", "Live tail"),
                *(
                    []
                    if about["internal"]
                    else [
                        button_link(f"{path}/more-partitions", "Add partitions"),
                        button_link(f"{path}/delete", "Delete …", "danger"),
                    ]
                ),
            ],
        )

    async def _readers(self, visit: Visit, at: str) -> Tag:
        """Return the groups that have committed offsets of a topic."""
        try:
            told = await soon(visit.api.get(f"{at}/groups", limit=READERS), self.clock)
        except ApiRefusal as e:
            return card("Read by", refusal(e), id="readers")
        rows = [_reader(each) for each in told["items"]]
        silent = ", ".join(str(each["broker"]) for each in told["unanswered"])
        return card(
            "Read by",
            table(
                "Groups that have committed offsets of it",
                ["Group", "State", "Lag", "Members", "Partitions"],
                rows,
                visit.pause,
                (2, 3, 4),
            )
            if rows
            else empty("No group that you may see has committed an offset of it."),
            tags.p("There are more: ", link("/console/groups", "all groups"), class_="note") if told["next"] else "",
            tags.p("Groups are still being loaded: some are missing.", class_="note") if told["loading"] else "",
            tags.p(f"Without the groups of these brokers, which did not answer: {silent}.", class_="note")
            if silent
            else "",
            id="readers",
        )

    @route("GET", "/console/new-topic", "The form to create a topic", rights="Everybody may see it.")
    async def new(self, visit: Visit) -> Page:
        return _new_page(visit, {}, None)

    @route("POST", "/console/new-topic", "Create a topic", rights="Needs Create on the Cluster or the Topic.")
    async def create(self, visit: Visit) -> PageResult:
        form = visit.form
        wrong: dict[str, str] = {}
        body: dict[str, Any] = {"name": form.get("name", "").strip()}
        words = ["topics", "create", body["name"]]
        if not body["name"]:
            wrong["name"] = "Give the topic a name."
        for key, option in (("partitions", "--partitions"), ("replication_factor", "--replication-factor")):
            text = form.get(key, "").strip()
            if text and not _WHOLE.fullmatch(text):
                wrong[key] = "This must be a whole number, or empty for the broker's default."
            elif text:
                body[key] = int(text)
                words += [option, text]
        configs, line = _configs(form.get("configs", ""))
        if line:
            wrong["configs"] = f"The line {shortened(line)!r} is not of the form name=value."
        if configs:
            body["configs"] = configs
            for key, value in configs.items():
                words += ["--config", f"{key}={value}"]
        if wrong:
            return _new_page(visit, wrong, None)

        async def again(error: ApiRefusal) -> PageResult:
            return _new_page(visit, {}, error)

        return await carry_out(
            visit,
            Change(
                title=f"Create topic {body['name']}",
                button="Create",
                words=words,
                facts=[
                    count(body["partitions"], "partition")
                    if "partitions" in body
                    else "As many partitions as the broker's default.",
                    count(body["replication_factor"], "replica") + " of each."
                    if "replication_factor" in body
                    else "As many replicas of each as the broker's default.",
                    *(f"{key} is {shortened(value, 500)!r}." for key, value in configs.items()),
                ],
                back="/console/new-topic",
                done=f"{SECTION}/{segment(body['name'])}?done=created",
                section=SECTION,
                method="POST",
                path="/api/v1/topics",
                body=body,
            ),
            again,
        )

    @route("GET", "/console/topics/{topic}/delete", "Ask to delete a topic", rights="Those of the topic.")
    async def ask_delete(self, visit: Visit) -> PageResult:
        return await self._delete(visit)

    @route("POST", "/console/topics/{topic}/delete", "Delete a topic", rights="Needs Delete on the Topic.")
    async def delete(self, visit: Visit) -> PageResult:
        return await self._delete(visit)

    @route("GET", "/console/topics/{topic}/more-partitions", "The form to add partitions", rights="Those of the topic.")
    async def ask_more(self, visit: Visit) -> Page:
        return await _more_page(visit, "", None)

    @route("POST", "/console/topics/{topic}/more-partitions", "Add partitions", rights="Needs Alter on the Topic.")
    async def more(self, visit: Visit) -> PageResult:
        topic, text = visit.names["topic"], visit.form.get("count", "").strip()
        if not _WHOLE.fullmatch(text):
            return await _more_page(visit, "This must be a whole number.", None)

        async def again(error: ApiRefusal) -> PageResult:
            return await _more_page(visit, "", error)

        return await carry_out(
            visit,
            Change(
                title=f"Add partitions to {topic}",
                button="Add",
                words=["topics", "add-partitions", topic, "--total", text],
                facts=[
                    f"{topic} has {count(int(text), 'partition')} afterwards; they cannot be removed.",
                    "Records do not move: a key may map to another partition from then on.",
                ],
                back=f"{SECTION}/{segment(topic)}/more-partitions",
                done=f"{SECTION}/{segment(topic)}?done=extended",
                section=SECTION,
                method="POST",
                path=f"/api/v1/topics/{segment(topic)}/partitions",
                body={"count": int(text)},
            ),
            again,
        )

    async def _delete(self, visit: Visit) -> PageResult:
        topic = visit.names["topic"]
        about = await visit.api.get(f"/api/v1/topics/{segment(topic)}")
        return await carry_out(
            visit,
            Change(
                title=f"Delete topic {topic}",
                button="Delete the topic and its records",
                words=["topics", "delete", topic],
                facts=[
                    f"All records of its {count(about['partitions'], 'partition')} are lost; this cannot be undone.",
                    "Producers and consumers of it get errors.",
                ],
                back=f"{SECTION}/{segment(topic)}",
                done=f"{SECTION}?done=deleted",
                section=SECTION,
                method="DELETE",
                path=f"/api/v1/topics/{segment(topic)}",
                query={"confirm": visit.form.get("typed_name", "")},
                typed=topic,
            ),
        )


async def _as_leaders_tell(
    visit: Visit, clock: IReactorTime, path: str, items: Sequence[Mapping[str, Any]], after: str
) -> Sequence[Mapping[str, Any]]:
    """Return partitions, each with the offsets and size that its leader has, if it tells them soon."""
    leaders = {each["leader"] for each in items if each["leader"] is not None}
    told = await from_brokers(
        sorted(leaders), lambda broker: visit.api.get(path, limit=ROWS, after=after, broker=broker), clock
    )
    by_leader = {
        (broker, each["partition"]): each for broker, page in told.items() if page is not None for each in page["items"]
    }
    return [
        {**each, "local": by_leader.get((each["leader"], each["partition"]), {"local": None})["local"]}
        for each in items
    ]


def _sums(partitions: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the records and the size of all partitions, if their leaders tell them."""
    told = [each["local"] for each in partitions]
    if None in told:
        return []
    return [
        ("Records, by offsets", number(sum(each["log_end_offset"] - each["log_start_offset"] for each in told))),
        ("Size of the leaders", size(sum(each["size_bytes"] for each in told))),
    ]


def _reader(each: Mapping[str, Any]) -> Tag:
    lag = "–" if each["lag"] is None else number(each["lag"])
    unknown = f"and {count(each['unknown'], 'partition')} of which this is not known"
    return tags.tr(
        tags.th(group_link(each["id"]), scope="row"),
        tags.td(badge(each["state"], KINDS.get(each["state"], "warn"))),
        tags.td(lag, tags.div(unknown, class_="note") if each["unknown"] else "", class_="number"),
        number_cell(number(each["members"])),
        number_cell(number(each["partitions"])),
    )


def _partition(each: Mapping[str, Any], path: str) -> Tag:
    local, behind = each["local"], set(each["replicas"]) - set(each["isr"])
    if each["leader"] is None:
        state = badge("offline", "bad")
    elif behind:
        state = badge("under-replicated", "warn")
    else:
        state = badge("ok", "good")
    figures = (
        ["–"] * 3
        if local is None
        else [
            number(local["log_start_offset"]),
            number(local["log_end_offset"]),
            size(local["size_bytes"]),
        ]
    )
    return tags.tr(
        tags.th(link(f"{path}/partitions/{each['partition']}", str(each["partition"])), scope="row", class_="number"),
        tags.td(state),
        tags.td("none" if each["leader"] is None else link(f"/console/brokers/{each['leader']}", str(each["leader"]))),
        tags.td(", ".join(map(str, each["replicas"]))),
        tags.td(", ".join(map(str, each["isr"])) or "none"),
        [number_cell(text) for text in figures],
    )


def _configs(text: str) -> tuple[dict[str, str], str]:
    """Return the settings in lines of name=value, and the first line that is not one."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.split("\n"))):
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            return found, line
        found[key.strip()] = value.strip()
    return found, ""


async def _more_page(visit: Visit, wrong: str, refused: ApiRefusal | None) -> Page:
    topic = visit.names["topic"]
    about = await visit.api.get(f"/api/v1/topics/{segment(topic)}")
    path = f"{SECTION}/{segment(topic)}"
    form = tags.form(
        field(
            "Partitions afterwards",
            "count",
            visit.form.get("count", ""),
            f"More than the {number(about['partitions'])} of now.",
            error=wrong,
            inputmode="numeric",
            required="required",
            autocomplete="off",
        ),
        tags.div(tags.button("Review", type="submit", class_="primary"), button_link(path, "Cancel"), class_="buttons"),
        method="post",
        action=f"{path}/more-partitions",
    )
    status = HTTPStatus.BAD_REQUEST if wrong else HTTPStatus.OK
    return Page(
        "Add partitions",
        SECTION,
        ["" if refused is None else refusal(refused), card("New number of partitions", form)],
        trail=[("Topics", SECTION), (topic, path)],
        status=status if refused is None else refused.status,
    )


def _new_page(visit: Visit, wrong: Mapping[str, str], refused: ApiRefusal | None) -> Page:
    form = visit.form
    status = HTTPStatus.BAD_REQUEST if wrong else HTTPStatus.OK
    return Page(
        "Create a topic",
        SECTION,
        [
            "" if refused is None else refusal(refused),
            message("bad", "Nothing was created: see the fields below.") if wrong else "",
            card(
                "New topic",
                tags.form(
                    field(
                        "Name",
                        "name",
                        form.get("name", ""),
                        "ASCII letters, digits, '.', '_' and '-'.",
                        error=wrong.get("name", ""),
                        required="required",
                        maxlength="249",
                        autocomplete="off",
                        spellcheck="false",
                    ),
                    tags.div(
                        field(
                            "Partitions",
                            "partitions",
                            form.get("partitions", ""),
                            "Empty: the broker's default.",
                            error=wrong.get("partitions", ""),
                            inputmode="numeric",
                        ),
                        field(
                            "Replicas of each",
                            "replication_factor",
                            form.get("replication_factor", ""),
                            "Empty: the broker's default.",
                            error=wrong.get("replication_factor", ""),
                            inputmode="numeric",
                        ),
                        class_="pair",
                    ),
                    field(
                        "Settings",
                        "configs",
                        form.get("configs", ""),
                        "One a line, as retention.ms=86400000. Empty: those of the broker.",
                        kind="area",
                        error=wrong.get("configs", ""),
                        rows="4",
                        spellcheck="false",
                    ),
                    tags.div(
                        tags.button("Review", type="submit", class_="primary"),
                        button_link(SECTION, "Cancel"),
                        class_="buttons",
                    ),
                    method="post",
                    action="/console/new-topic",
                ),
            ),
        ],
        trail=[("Topics", SECTION)],
        status=status if refused is None else refused.status,
    )
