"""
Pages of records: browse and search a topic, download what is shown, produce a record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from attrs import frozen
from twisted.web.template import Tag, tags

from logbus.admin.problem_details import HttpProblem, problem
from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.change import Change, carry_out, done_message
from logbus.console.elements import (
    badge,
    button_link,
    card,
    choice,
    empty,
    field,
    link,
    name,
    number_cell,
    refusal,
    table,
)
from logbus.console.figures import count, moment, number, shortened
from logbus.console.page import Download, Page, PageResult, Visit
from logbus.console.record_content import FORMS, Schemas, content_of, decoded
from logbus.console.record_query import NEWEST, OFFSET, ROWS, STARTS, RecordQuery
from logbus.console.value_schemas import schemas_of

SECTION = "/console/topics"
MOST_HEADERS = 20
MOST_DOWNLOADED = 500
NO_COMMAND = "The command line sends lines: a record with line breaks can be sent over HTTP only."
_NUMBER = re.compile(r"[0-9]{1,9}")
Answer = Mapping[str, Any]


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
                told = await _ask(visit, query, ROWS, 4096)
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
            actions=[button_link(f"{path}/produce", "Produce a record")],
            status=status,
        )

    @route(
        "GET", "/console/topics/{topic}/records.jsonl", "The same as lines of JSON", rights="Needs Read on the Topic."
    )
    async def download(self, visit: Visit) -> PageResult:
        query = RecordQuery.read(visit.query)
        if query.wrong:
            ((field_name, fault), *_) = query.wrong.items()
            raise HttpProblem(HTTPStatus.BAD_REQUEST, f"{field_name}: {fault}")
        told = await _ask(visit, query, MOST_DOWNLOADED, 16_384)
        values = (each[part] for each in told["items"] for part in ("key", "value"))
        schemas = await schemas_of(visit.api, values) if query.shown == "auto" else {}
        lines = []
        for each in told["items"]:
            parts = {part: decoded(each[part], schemas) for part in ("key", "value")}
            lines.append(json.dumps({**each, **parts}, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            await visit.pause()
        return Download("records.jsonl", "application/x-ndjson", b"".join(lines))

    @route("GET", "/console/topics/{topic}/produce", "The form to produce", rights="Everybody may see it.")
    async def new(self, visit: Visit) -> Page:
        return _produce_page(visit, {}, None)

    @route("POST", "/console/topics/{topic}/produce", "Produce a record", rights="Needs Write on the Topic.")
    async def produce(self, visit: Visit) -> PageResult:
        topic, form = visit.names["topic"], visit.form
        wrong: dict[str, str] = {}
        headers, line = _headers(form.get("headers", ""))
        if line:
            wrong["headers"] = f"The line {shortened(line)!r} is not of the form name=value."
        partition = form.get("partition", "").strip()
        if partition and not _NUMBER.fullmatch(partition):
            wrong["partition"] = "This must be the number of a partition, or empty."
        if wrong:
            return _produce_page(visit, wrong, None)
        key, value, is_tombstone = form.get("key", ""), form.get("value", ""), form.get("tombstone") == "yes"
        record: dict[str, Any] = {
            "key": {"text": key} if key else None,
            "value": None if is_tombstone else {"text": value},
            "headers": [{"name": each, "value": {"text": text}} for each, text in headers],
        }
        if partition:
            record["partition"] = int(partition)
        path = f"{SECTION}/{segment(topic)}"

        async def again(error: ApiRefusal) -> PageResult:
            return _produce_page(visit, {}, error)

        return await carry_out(
            visit,
            Change(
                title=f"Produce a record to {topic}",
                button="Produce",
                words=_words(topic, key, is_tombstone, headers, partition),
                given=line_of(key, "" if is_tombstone else value),
                no_command=NO_COMMAND if has_breaks(key, value) else "",
                facts=[
                    f"The key is {shortened(key, 300)!r}." if key else "It has no key.",
                    "It is a tombstone, which deletes its key from a compacted topic."
                    if is_tombstone
                    else f"The value has {count(len(value.encode('utf-8', 'replace')), 'byte')}.",
                    count(len(headers), "header") + ".",
                ],
                back=f"{path}/produce",
                done=lambda told: _written(path, told),
                section=SECTION,
                method="POST",
                path=f"/api/v1/topics/{segment(topic)}/records",
                body={"records": [record]},
            ),
            again,
        )


async def _ask(visit: Visit, query: RecordQuery, rows: int, shown_bytes: int) -> Answer:
    at = f"/api/v1/topics/{segment(visit.names['topic'])}"
    if query.partition:
        at += f"/partitions/{segment(query.partition)}"
    parameters = query.parameters(rows, shown_bytes)
    if not query.partition and query.start == NEWEST and not query.filters:
        # So many of each that all partitions have their share of the page.
        partitions = (await visit.api.get(at))["partitions"]
        parameters["newest"] = max(1, rows // max(1, partitions))
    told: Answer = await visit.api.get(f"{at}/records", **parameters)
    return told


def _written(path: str, told: Answer) -> str:
    """Return where the record is shown that was written."""
    (each,) = told["items"]
    if each["error"] is not None:
        status = HTTPStatus.SERVICE_UNAVAILABLE if each["error"]["retriable"] else HTTPStatus.BAD_REQUEST
        raise ApiRefusal(status, problem(status, each["error"]["detail"]), {})
    at = {"partition": each["partition"], "from": OFFSET, "at": each["offset"], "done": "produced"}
    return f"{path}/records?{urlencode(at)}"


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
            field(
                "Partition",
                "partition",
                query.partition,
                error=wrong.get("partition", ""),
                inputmode="numeric",
                placeholder="all",
            ),
            choice("Start", "from", STARTS, query.start),
            field("Offset or time", "at", query.at, error=wrong.get("at", wrong.get("from", "")), autocomplete="off"),
            field("Key contains", "key", query.key, error=wrong.get("key", ""), autocomplete="off"),
            field("Value contains", "value", query.value, error=wrong.get("value", ""), autocomplete="off"),
            field("Header contains", "header", query.header, error=wrong.get("header", ""), autocomplete="off"),
            choice("Show as", "show", FORMS, query.shown),
            class_="fields",
        ),
        tags.div(
            tags.button("Show records", type="submit", class_="primary"),
            tags.label(
                tags.input(
                    type="checkbox",
                    name="committed",
                    value="yes",
                    **({"checked": "checked"} if query.committed else {}),
                ),
                " only committed records",
            ),
            class_="filter",
        ),
        method="get",
        action=action,
        class_="card",
    )


def _headers(text: str) -> tuple[list[tuple[str, str]], str]:
    """Return headers in lines of name=value, and the first line that is not one."""
    found: list[tuple[str, str]] = []
    for line in filter(None, map(str.strip, text.split("\n"))):
        key, equals, value = line.partition("=")
        if not equals or not key:
            return found, line
        found.append((key, value))
    return found, ""


def _words(topic: str, key: str, is_tombstone: bool, headers: Sequence[tuple[str, str]], partition: str) -> list[str]:
    words = ["produce", topic]
    if key:
        words += ["--key-separator", "\t"]
    if is_tombstone:
        words += ["--null", ""]
    if partition:
        words += ["--partition", partition]
    for each, text in headers:
        words += ["--header", f"{each}={text}"]
    return words


def has_breaks(key: str, value: str) -> bool:
    """Whether a record cannot be a line."""
    return any(character in key + value for character in "\n\r\0") or "\t" in key


def line_of(key: str, value: str) -> str:
    """Return the line that the command reads."""
    return f"{key}\t{value}" if key else value


def _produce_page(visit: Visit, wrong: Mapping[str, str], refused: ApiRefusal | None) -> Page:
    topic, form = visit.names["topic"], visit.form
    path = f"{SECTION}/{segment(topic)}"
    status = HTTPStatus.BAD_REQUEST if wrong else HTTPStatus.OK
    checked = {"checked": "checked"} if form.get("tombstone") == "yes" else {}
    return Page(
        "Produce a record",
        SECTION,
        [
            "" if refused is None else refusal(refused),
            card(
                "New record",
                tags.form(
                    field("Key", "key", form.get("key", ""), "Empty: no key.", autocomplete="off", spellcheck="false"),
                    field(
                        "Value",
                        "value",
                        form.get("value", ""),
                        "Text, written in UTF-8.",
                        kind="area",
                        rows="8",
                        spellcheck="false",
                    ),
                    tags.p(
                        tags.label(
                            tags.input(type="checkbox", name="tombstone", value="yes", **checked),
                            " A tombstone: no value; it deletes the key from a compacted topic",
                        ),
                        class_="field",
                    ),
                    field(
                        "Headers",
                        "headers",
                        form.get("headers", ""),
                        "One a line, as name=value.",
                        kind="area",
                        error=wrong.get("headers", ""),
                        rows="3",
                        spellcheck="false",
                    ),
                    field(
                        "Partition",
                        "partition",
                        form.get("partition", ""),
                        "Empty: chosen by the key.",
                        error=wrong.get("partition", ""),
                        inputmode="numeric",
                    ),
                    tags.div(
                        tags.button("Review", type="submit", class_="primary"),
                        button_link(f"{path}/records", "Cancel"),
                        class_="buttons",
                    ),
                    method="post",
                    action=f"{path}/produce",
                ),
            ),
        ],
        trail=[("Topics", SECTION), (topic, path)],
        status=status if refused is None else refused.status,
    )
