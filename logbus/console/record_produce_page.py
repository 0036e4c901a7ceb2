"""
The page that produces a record.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from attrs import frozen
from twisted.web.template import tags

from logbus.admin.problem_details import problem
from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.change import Change, carry_out
from logbus.console.elements import choice, field, message
from logbus.console.figures import count, shortened
from logbus.console.form_page import form_page
from logbus.console.page import Page, PageResult, Visit
from logbus.console.record_input import FORMS, TEXT, bytes_of
from logbus.console.record_query import OFFSET

SECTION = "/console/topics"
MOST_SHOWN = 2000
_NUMBER = re.compile(r"[0-9]{1,9}")


@frozen
class RecordProducePage:
    """The form to produce."""

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
        is_tombstone = form.get("tombstone") == "yes"
        if is_tombstone and form.get("value", ""):
            wrong["value"] = "A tombstone has no value: empty this, or take the mark away."
        key = _typed(form, "key", wrong) if form.get("key", "") else None
        value = None if is_tombstone else _typed(form, "value", wrong)
        if wrong:
            return _produce_page(visit, wrong, None)
        record: dict[str, Any] = {
            "key": _given(key),
            "value": _given(value),
            "headers": [{"name": each, "value": {"text": text}} for each, text in headers],
        }
        if partition:
            record["partition"] = int(partition)
        path, api_path = f"{SECTION}/{segment(topic)}", f"/api/v1/topics/{segment(topic)}/records"
        body = {"records": [record]}
        given = line_of(key, value)
        no_command = (
            "The command line sends lines of text, and this is more. Over HTTP it is POST "
            f"{api_path} with the body {shortened(json.dumps(body, ensure_ascii=False), MOST_SHOWN)}."
        )

        async def again(error: ApiRefusal) -> PageResult:
            return _produce_page(visit, {}, error)

        return await carry_out(
            visit,
            Change(
                title=f"Produce a record to {topic}",
                button="Produce",
                words=_words(topic, key, is_tombstone, headers, partition),
                given=given,
                no_command=no_command if given is None else "",
                facts=[
                    "It has no key."
                    if key is None
                    else f"The key is {shortened(form['key'], 300)!r}, {count(len(key), 'byte')}.",
                    "It is a tombstone, which deletes its key from a compacted topic."
                    if value is None
                    else f"The value has {count(len(value), 'byte')}.",
                    count(len(headers), "header") + ".",
                ],
                back=f"{path}/produce",
                done=lambda told: _written(path, told),
                section=SECTION,
                method="POST",
                path=api_path,
                body=body,
            ),
            again,
        )


def _typed(form: Mapping[str, str], name: str, wrong: dict[str, str]) -> bytes:
    try:
        return bytes_of(form.get(name, ""), form.get(f"{name}_form", TEXT))
    except ValueError as e:
        wrong[name] = str(e)
        return b""


def _given(data: bytes | None) -> Mapping[str, str] | None:
    """Return bytes as the HTTP API takes them."""
    if data is None:
        return None
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode("ascii")}


def _written(path: str, told: Mapping[str, Any]) -> str:
    """Return where the record is shown that was written."""
    (each,) = told["items"]
    if each["error"] is not None:
        status = HTTPStatus.SERVICE_UNAVAILABLE if each["error"]["retriable"] else HTTPStatus.BAD_REQUEST
        raise ApiRefusal(status, problem(status, each["error"]["detail"]), {})
    at = {"partition": each["partition"], "from": OFFSET, "at": each["offset"], "done": "produced"}
    return f"{path}/records?{urlencode(at)}"


def _headers(text: str) -> tuple[list[tuple[str, str]], str]:
    """Return headers in lines of name=value, and the first line that is not one."""
    found: list[tuple[str, str]] = []
    for line in filter(None, map(str.strip, text.split("\n"))):
        key, equals, value = line.partition("=")
        if not equals or not key:
            return found, line
        found.append((key, value))
    return found, ""


def _words(
    topic: str, key: bytes | None, is_tombstone: bool, headers: Sequence[tuple[str, str]], partition: str
) -> list[str]:
    words = ["produce", topic]
    if key is not None:
        words += ["--key-separator", "\t"]
    if is_tombstone:
        words += ["--null", ""]
    if partition:
        words += ["--partition", partition]
    for each, text in headers:
        words += ["--header", f"{each}={text}"]
    return words


def line_of(key: bytes | None, value: bytes | None) -> str | None:
    """Return the line that the command reads; None: no line is this record."""
    try:
        texts = [each.decode("utf-8") for each in (key, value or b"") if each is not None]
    except UnicodeDecodeError:
        return None
    has_breaks = any(character in "".join(texts) for character in "\n\r\0")
    return None if has_breaks or (key is not None and "\t" in texts[0]) else "\t".join(texts)


def _produce_page(visit: Visit, wrong: Mapping[str, str], refused: ApiRefusal | None) -> Page:
    topic, form = visit.names["topic"], visit.form
    path = f"{SECTION}/{segment(topic)}"
    checked = {"checked": "checked"} if form.get("tombstone") == "yes" else {}
    return form_page(
        "Produce a record",
        "New record",
        [
            tags.div(
                field(
                    "Key",
                    "key",
                    form.get("key", ""),
                    "Empty: no key.",
                    error=wrong.get("key", ""),
                    autocomplete="off",
                    spellcheck="false",
                ),
                choice("The key is", "key_form", FORMS, form.get("key_form", TEXT)),
                class_="pair",
            ),
            field(
                "Value",
                "value",
                form.get("value", ""),
                "Text and JSON are written in UTF-8, as typed; base64 and hexadecimal digits as their bytes.",
                kind="area",
                error=wrong.get("value", ""),
                rows="8",
                spellcheck="false",
            ),
            choice("The value is", "value_form", FORMS, form.get("value_form", TEXT)),
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
        ],
        action=f"{path}/produce",
        trail=[("Topics", SECTION), (topic, path)],
        is_wrong=bool(wrong),
        refused=refused,
        notice=message("bad", "Nothing was written: see the fields below.") if wrong else "",
        cancel=f"{path}/records",
    )
