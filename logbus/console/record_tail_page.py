"""
The page that follows the end of a topic: a script reads the event stream of the HTTP API into a table.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from attrs import frozen
from twisted.web.template import Tag, tags

from logbus.admin.record_tail import MAX_PARTITIONS
from logbus.admin.routing import route
from logbus.console.api_client import segment
from logbus.console.elements import button_link, empty, link, table
from logbus.console.figures import number, shortened
from logbus.console.page import Page, Visit
from logbus.console.record_pages import committed_only, contents_fields, partition_field
from logbus.console.record_query import RecordQuery

SECTION = "/console/topics"
SHOWN_BYTES, FIRST = 4096, 10
"""Bytes of a key, a value or a header that are shown; and offsets before the end of each partition to begin with."""
MOST_ROWS = 500
"""Rows that the page keeps; older ones are dropped."""


@frozen
class RecordTailPage:
    """The end of a topic."""

    @route("GET", "/console/topics/{topic}/tail", "The end of a topic, live", rights="Needs Read on the Topic.")
    async def tail(self, visit: Visit) -> Page:
        topic = visit.names["topic"]
        about = await visit.api.get(f"/api/v1/topics/{segment(topic)}")
        query = RecordQuery.read({**visit.query, "from": "newest", "at": ""})
        path = f"{SECTION}/{segment(topic)}"
        content: list[Any] = [_form(query, f"{path}/tail")]
        if not query.wrong:
            content.append(_followed(visit, topic, query, path, about["partitions"]))
        return Page(
            "Live tail",
            SECTION,
            content,
            trail=[("Topics", SECTION), (topic, path)],
            actions=[button_link(f"{path}/records?{urlencode(query.fields())}", "Records")],
            status=HTTPStatus.BAD_REQUEST if query.wrong else HTTPStatus.OK,
            scripts=("tail.js",),
        )


def _followed(visit: Visit, topic: str, query: RecordQuery, path: str, partitions: int) -> Tag:
    parameters = {
        "partition": query.partition,
        "newest": str(FIRST),
        "shown_bytes": str(SHOWN_BYTES),
        "isolation": "read_committed" if query.committed else "",
        "key": query.key,
        "value": query.value,
        "header": query.header,
    }
    stream = urlencode({name: text for name, text in parameters.items() if text})
    if not query.partition and partitions > MAX_PARTITIONS:
        most = f"and a page follows at most {MAX_PARTITIONS}: choose one above"
        text = f"{shortened(topic)} has {number(partitions)} partitions, {most}."
        return tags.section(empty(text), class_="card")
    newest = link(f"{path}/records?{urlencode(query.fields())}", "The newest records", class_="button")
    return tags.section(
        tags.div(
            tags.button("Pause", type="button", id="tail-pause", hidden="hidden", **{"data-key": "p"}),
            tags.button("Clear", type="button", id="tail-clear", hidden="hidden"),
            # The script says here what it does; without one this stays.
            tags.div(
                tags.p("To follow a topic needs JavaScript; without it, load this again and again:"),
                newest,
                id="tail-state",
                role="status",
            ),
            tags.span(id="tail-count", class_="note"),
            class_="filter",
        ),
        table(
            f"Records of {shortened(topic)} as they are written, the newest first",
            ["Partition", "Offset", "Time (UTC)", "Key", "Value"],
            [],
            visit.pause,
            (0, 1),
        ),
        class_="card",
        id="tail",
        **{
            "data-tail": f"/api/v1/topics/{segment(topic)}/records/tail?{stream}",
            "data-records": f"{path}/records",
            "data-most": str(MOST_ROWS),
        },
    )


def _form(query: RecordQuery, action: str) -> Tag:
    return tags.form(
        tags.div(partition_field(query), contents_fields(query), class_="fields"),
        tags.div(
            tags.button("Follow", type="submit", class_="primary"), committed_only(query.committed), class_="filter"
        ),
        method="get",
        action=action,
        class_="card",
    )
