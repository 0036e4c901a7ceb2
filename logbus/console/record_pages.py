"""
Pages of records: browse and search a topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from attrs import frozen
from twisted.web.template import Tag, tags

from logbus.admin.record_json import MAX_SHOWN
from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.change import done_message
from logbus.console.elements import (
    badge,
    button_link,
    choice,
    empty,
    field,
    link,
    name,
    number_cell,
    refusal,
    table,
)
from logbus.console.figures import count, moment, number, shortened, size
from logbus.console.page import Page, Visit
from logbus.console.record_content import FORMS, Schemas, content_of
from logbus.console.record_download import MOST_DOWNLOADED, Answer, ask, beginning
from logbus.console.record_query import NEWEST, OFFSET, ROWS, STARTS, RecordQuery
from logbus.console.value_schemas import schemas_of

SECTION = "/console/topics"
MOST_HEADERS = 20
DOWNLOADED = (
    f"A download has at most {number(MOST_DOWNLOADED)} records; of a key, a value or a header that is longer than "
    f"{size(MAX_SHOWN)} the beginning, with cut as true and the whole size."
)


@frozen
class RecordPages:
    """Records of a topic."""

    @route("GET", "/console/topics/{topic}/records", "Records of a topic", rights="Needs Read on the Topic.")
    async def records(self, visit: Visit) -> Page:
        topic = visit.names["topic"]
        query = RecordQuery.read(visit.query)
        path = f"{SECTION}/{segment(topic)}"
        status, content = HTTPStatus.OK, list[Any]()
        if query.wrong:
            status = HTTPStatus.BAD_REQUEST
        else:
            try:
                parameters = await beginning(visit, query, query.parameters(ROWS, 4096))
                told = await ask(visit, query, parameters)
                values = (each[part] for each in told["items"] for part in ("key", "value"))
                schemas = await schemas_of(visit.api, values) if query.shown == "auto" else {}
                content = _found(visit, topic, query, told, schemas)
            except ApiRefusal as e:
                status, content = e.status, [refusal(e)]
        return Page(
            "Records",
            SECTION,
            [done_message(visit), _form(query, f"{path}/records"), *content],
            trail=[("Topics", SECTION), (topic, path)],
            actions=[
                button_link(f"{path}/tail{_tailed(query)}", "Live tail"),
                button_link(f"{path}/produce", "Produce a record"),
            ],
            status=status,
        )


def _tailed(query: RecordQuery) -> str:
    """Return the same filter as the query of the page that follows the topic."""
    kept = {key: text for key, text in query.fields().items() if key not in ("from", "at", "show")}
    return f"?{urlencode(kept)}" if kept else ""


def _found(visit: Visit, topic: str, query: RecordQuery, told: Answer, schemas: Schemas) -> list[Any]:
    items: Sequence[Answer] = told["items"]
    if query.start == NEWEST:
        items = sorted(items, key=lambda each: (-each["timestamp"], each["partition"], -each["offset"]))
    path = f"{SECTION}/{segment(topic)}/records"
    following = _following(query, told)
    onward = f"{path}?{urlencode(following)}" if following else ""
    older = _older(query, told)
    rows = [_row(each, query.shown, path, schemas) for each in items]
    progress = tags.p(_progress(told, bool(query.filters)), class_="note", id="progress", role="status")
    continued = (
        tags.p(
            link(onward, "Search on" if query.filters else "Next records", class_="button"),
            class_="buttons",
            id="onward",
            **({"data-continue": ""} if query.filters else {}),
        )
        if onward
        else ""
    )
    head = ["Partition", "Offset", "Time (UTC)", "Key", "Value"]
    content: Any = (
        table(f"Records of {topic}", head, rows, visit.pause, (0, 1))
        if rows
        else empty("No record here fits." if query.filters else "There is no record here.")
    )
    saved = f"{path}.jsonl?{urlencode({**query.fields(), **({'cursor': query.cursor} if query.cursor else {})})}"
    body = tags.section(
        progress,
        content,
        tags.div(
            link(f"{path}?{urlencode(older)}", "Older records") if older else "",
            continued,
            link(saved, "Download as JSON lines", class_="quiet") if rows else "",
            class_="pages",
        ),
        tags.p(DOWNLOADED, class_="note") if rows else "",
        class_="card",
        id="found",
    )
    # The newest records are refreshed, which is a live view of the topic's end.
    return [body(**{"data-live": ""}) if query.start == NEWEST and not query.filters and not query.cursor else body]


def _following(query: RecordQuery, told: Answer) -> dict[str, str]:
    if not query.partition:
        return {**query.fields(), "cursor": told["next"]} if told["next"] is not None else {}
    if told["next_offset"] >= told["end_offset"]:
        return {}
    return {**query.fields(), "from": OFFSET, "at": str(told["next_offset"])}


def _older(query: RecordQuery, told: Answer) -> dict[str, str]:
    if not query.partition or query.filters or not told["items"]:
        return {}
    first = told["items"][0]["offset"]
    if first <= told["log_start_offset"]:
        return {}
    return {**query.fields(), "from": OFFSET, "at": str(max(told["log_start_offset"], first - ROWS))}


def _progress(told: Answer, filters: bool) -> str:
    found = count(len(told["items"]), "record")
    if filters:
        found += f" found in {number(told['scanned'])} read"
    if "next_offset" in told:
        first, end = number(told["log_start_offset"]), number(told["end_offset"])
        return f"{found}; the partition has the offsets {first} to {end}."
    if told["done"]:
        return f"{found}; all {count(told['partitions'], 'partition')} gone through."
    where = f"partition {told['partition']} of {told['partitions']}"
    if told["offset"] is None or told["end_offset"] is None:
        return f"{found}; {where} is next."
    return f"{found}; at offset {number(told['offset'])} of {number(told['end_offset'])} in {where}."


def _row(each: Answer, form: str, path: str, schemas: Schemas) -> Tag:
    key, value = content_of(each["key"], form, schemas), content_of(each["value"], form, schemas)
    at = urlencode({"partition": each["partition"], "from": OFFSET, "at": each["offset"]})
    headers = [
        tags.div(name(header["name"], 60), ": ", tags.code(shortened(content_of(header["value"], form).text, 200)))
        for header in each["headers"][:MOST_HEADERS]
    ]
    more = len(each["headers"]) + each["headers_left_out"] - len(headers)
    return tags.tr(
        number_cell(str(each["partition"])),
        tags.td(link(f"{path}?{at}", number(each["offset"])), class_="number"),
        tags.td(moment(each["timestamp"]).removesuffix(" UTC") if each["timestamp"] >= 0 else "–", class_="time"),
        tags.td(badge("null") if key.form == "null" else tags.code(shortened(key.text, 200)), class_="key"),
        tags.td(
            badge("tombstone", "warn") if value.form == "null" else tags.pre(value.text, class_="content"),
            tags.p(f"{value.form}, {value.note}", class_="note") if value.form not in ("null", "text") else "",
            tags.div(headers, f"and {count(more, 'header')} more" if more > 0 else "", class_="headers")
            if headers
            else "",
            class_="value-cell",
        ),
    )


def _form(query: RecordQuery, action: str) -> Tag:
    wrong = query.wrong
    return tags.form(
        tags.div(
            partition_field(query),
            choice("Start", "from", STARTS, query.start),
            field("Offset or time", "at", query.at, error=wrong.get("at", wrong.get("from", "")), autocomplete="off"),
            contents_fields(query),
            choice("Show as", "show", FORMS, query.shown),
            class_="fields",
        ),
        tags.div(
            tags.button("Show records", type="submit", class_="primary"),
            committed_only(query.committed),
            class_="filter",
        ),
        method="get",
        action=action,
        class_="card",
    )


def partition_field(query: RecordQuery) -> Tag:
    """Return the field of the partition to read."""
    return field(
        "Partition",
        "partition",
        query.partition,
        error=query.wrong.get("partition", ""),
        inputmode="numeric",
        placeholder="all",
    )


def contents_fields(query: RecordQuery) -> list[Tag]:
    """Return the fields of what records must contain."""
    wrong = query.wrong
    return [
        field("Key contains", "key", query.key, error=wrong.get("key", ""), autocomplete="off"),
        field("Value contains", "value", query.value, error=wrong.get("value", ""), autocomplete="off"),
        field("Header contains", "header", query.header, error=wrong.get("header", ""), autocomplete="off"),
    ]


def committed_only(is_checked: bool) -> Tag:
    """Return the mark for records of transactions that are committed, and of none."""
    checked = {"checked": "checked"} if is_checked else {}
    return tags.label(tags.input(type="checkbox", name="committed", value="yes", **checked), " only committed records")
