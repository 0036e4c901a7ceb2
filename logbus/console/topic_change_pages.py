"""
Pages that change topics: the forms that create and delete them, and add partitions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen
from twisted.web.template import tags

from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.change import Change, carry_out
from logbus.console.elements import field, message
from logbus.console.figures import count, number, shortened
from logbus.console.form_page import form_page
from logbus.console.page import Page, PageResult, Visit

SECTION = "/console/topics"
_WHOLE = re.compile(r"-?[0-9]{1,9}")


@frozen
class TopicChangePages:
    """Changes of topics."""

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
    wanted = field(
        "Partitions afterwards",
        "count",
        visit.form.get("count", ""),
        f"More than the {number(about['partitions'])} of now.",
        error=wrong,
        inputmode="numeric",
        required="required",
        autocomplete="off",
    )
    return form_page(
        "Add partitions",
        "New number of partitions",
        [wanted],
        action=f"{path}/more-partitions",
        trail=[("Topics", SECTION), (topic, path)],
        is_wrong=bool(wrong),
        refused=refused,
    )


def _new_page(visit: Visit, wrong: Mapping[str, str], refused: ApiRefusal | None) -> Page:
    form = visit.form
    return form_page(
        "Create a topic",
        "New topic",
        [
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
        ],
        action="/console/new-topic",
        trail=[("Topics", SECTION)],
        is_wrong=bool(wrong),
        refused=refused,
        notice=message("bad", "Nothing was created: see the fields below.") if wrong else "",
    )
