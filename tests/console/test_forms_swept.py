"""Each form of the console with values that are missing, wrong, huge and hostile, at a real broker."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, quote_from_bytes, urlsplit

import pytest
from attrs import define, field

from logbus.testing import Broker
from tests.browser.sample_data import FILLED, authorize, fill, path_of, register_schemas, routes
from tests.console.kit import Seen

SCRIPT = "<script>alert(1)</script>'\"&"
HUGE = "x" * 50_000
VALUES: Mapping[str, bytes] = MappingProxyType(
    {
        "empty": b"",
        "blanks": b" \t ",
        "huge": HUGE.encode(),
        "control characters": b"a\x01\x07\x1b[31m\x7f\r\nb",
        "NUL": b"a\0b",
        "script": SCRIPT.encode(),
        "other directions": "\u202eabc\u2066".encode(),
        "a surrogate": b"\xed\xa0\x80",
        "not UTF-8": b"a\xff",
        "negative": b"-1",
        "beyond 64 bits": b"99999999999999999999",
        "beyond 32 bits": b"2147483648",
        "a fraction": b"1.5",
        "infinity": b"1e999",
        "no number": b"NaN",
        "digits of another script": "\u0663".encode(),
        "up": b"../..",
    }
)
NEVER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


PATTERNS = routes("POST")


@define(eq=False)
class Form(Seen):
    """A page whose forms are of interest: names with values and labels, by the paths that they are sent to."""

    forms: dict[str, dict[str, str]] = field(factory=dict)
    labels: dict[str, str] = field(factory=dict)
    titles: list[str] = field(factory=list)
    _fields: dict[str, str] = field(factory=dict)
    _at: str = ""
    _label_of: str = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._fields = {}
            self.forms[urlsplit(found.get("action", "")).path] = self._fields
        elif tag in ("input", "textarea", "select") and "name" in found:
            self._at = found["name"]
            if found.get("type") != "checkbox":
                self._fields[self._at] = found.get("value", "")
        elif tag == "option" and ("selected" in found or not self._fields.get(self._at)):
            self._fields[self._at] = found.get("value", "")
        elif tag == "label":
            self._label_of = found.get("for", "")
        elif tag == "h1":
            self.titles.append("")

    def handle_data(self, data: str) -> None:
        super().handle_data(data)
        if self._open and self._open[-1] == "label" and self._label_of:
            self.labels[self._label_of.removeprefix("field-")] = data
        elif "h1" in self._open:
            self.titles[-1] += data


@define
class Console:
    """A broker's console, asked without a browser."""

    address: str
    connection: http.client.HTTPConnection = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.connection = http.client.HTTPConnection(self.address, timeout=120)

    def ask(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        headers = {} if body is None else {"Content-Type": "application/x-www-form-urlencoded"}
        self.connection.request(method, path, body, {**headers, "Origin": f"http://{self.address}"})
        answer = self.connection.getresponse()
        return answer.status, answer.read().decode()

    def form(self, pattern: str) -> tuple[str, dict[str, str], dict[str, str]]:
        """The path of a form, its fields filled in, and their labels."""
        path = urlsplit(path_of(pattern)).path
        for shown in (path_of(pattern), path.rpartition("/")[0]):
            status, text = self.ask("GET", shown)
            if status == 200:
                break
        assert status == 200, (shown, text)
        page = Form()
        page.feed(text)
        # The button of what has nothing to do now, such as to cancel a move, is not shown; it is pressed nevertheless.
        fields = {name: value or FILLED.get(name, "") for name, value in page.forms.get(path, {}).items()}
        if path.endswith("/settings/retention.ms") or "/brokers/" in path:
            fields = {name: FILLED["value"] if name == "value" else value for name, value in fields.items()}
        return path, {name: value for name, value in fields.items() if name != "confirmed"}, page.labels

    def state(self) -> list[Any]:
        """All that forms can change."""
        paths = [
            "/api/v1/topics",
            "/api/v1/topics/orders/partitions",
            "/api/v1/configs/topics/orders",
            "/api/v1/configs/brokers/0",
            "/api/v1/groups",
            "/api/v1/groups/billing",
            "/api/v1/acls",
            "/api/v1/quotas",
            "/api/v1/users",
            "/api/v1/loggers/0",
            "/api/v1/transactions/payments",
            "/registry/subjects",
            "/registry/subjects/orders-value/versions",
            "/registry/config",
        ]
        told = []
        for path in paths:
            status, text = self.ask("GET", path)
            assert status == 200, (path, text)
            told.append(json.loads(text))
        return told


@pytest.fixture(scope="module")
def console() -> Iterator[Console]:
    """The console of a broker with something to change of each kind."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Broker(config) as broker:
        fill(broker.bootstrap)
        register_schemas(broker.admin_url)
        authorize(broker.admin_url)
        yield Console(broker.admin_url.removeprefix("http://"))


def _body(fields: Mapping[str, str], changed: str = "", value: bytes | None = None) -> str:
    """A form in which a field has another value; None: it is missing."""
    given = {name: text.encode() for name, text in fields.items() if name != changed}
    if changed and value is not None:
        given[changed] = value
    return "&".join(f"{quote(name)}={quote_from_bytes(each)}" for name, each in given.items())


def _faults(status: int, text: str, name: str, label: str) -> Iterator[str]:
    """What is wrong with an answer, whatever the value was."""
    if status == 303:
        return
    if not (status == 200 or 400 <= status < 500):
        yield f"status {status}"
        return
    page = Form()
    page.feed(text)
    page.close()
    yield from page.faults
    if SCRIPT[:8] + "alert" in text:
        yield "script is not escaped"
    for tag, attributes in page.elements:
        held = [value for key, value in attributes.items() if not (tag == "input" and key == "value")]
        if any(NEVER.search(value or "") for value in held):
            yield f"<{tag}> has what is not seen"
        yield from (f"<{tag}> has {key}" for key in attributes if key.startswith("on"))
    if NEVER.search(page.text):
        yield f"what is not seen is in the text: {NEVER.search(page.text)!r}"
    if any(len(title) > 500 for title in page.titles):
        yield "the title is huge"
    # Of what there is not, that is said.
    if status >= 400 and status != 404 and name:
        words = page.text.lower()
        known = {name.lower(), name.replace("_", " ").lower(), label.lower()} - {""}
        invalid = any(found.get("aria-invalid") == "true" and found.get("name") == name for _, found in page.elements)
        if not invalid and not any(each in words for each in known):
            yield f"nothing names the field: {page.text[-300:]}"


def test_there_are_forms() -> None:
    """The routes are found."""
    assert {"/console/new-topic", "/console/groups/{group}/reset", "/console/access/password"} <= set(PATTERNS)


@pytest.mark.parametrize("confirmed", [False, True])
def test_each_field_of_each_form(console: Console, confirmed: bool) -> None:
    """No value is a bug, runs, or is refused without the name of its field; nothing changes that is not confirmed."""
    faults = []
    before = console.state()
    for pattern in PATTERNS:
        path, fields, labels = console.form(pattern)
        names = [name for name in fields if name != "seen"]
        for name in names:
            for what, value in [("missing", None), *VALUES.items()]:
                body = _body(fields | ({"confirmed": "yes"} if confirmed else {}), name, value)
                status, text = console.ask("POST", path, body)
                faults += [
                    f"{pattern}, {name} {what}: {fault}" for fault in _faults(status, text, name, labels.get(name, ""))
                ]
        if not confirmed and (after := console.state()) != before:
            faults.append(f"{pattern} changes what is not confirmed")
            before = after
    assert not faults, "\n".join(faults)


def test_each_form_of_hostile_things(console: Console) -> None:
    """The names in the paths of forms are taken with as much care, and so is a form without a single field."""
    faults = []
    before = console.state()
    for pattern in PATTERNS:
        parts = pattern.split("/")
        good = urlsplit(path_of(pattern)).path.split("/")
        variable = [at for at, part in enumerate(parts) if part.startswith("{")]
        paths = ["/".join(good)]
        for at in variable:
            for value in VALUES.values():
                named = quote_from_bytes(value[:4000], safe="")
                paths.append("/".join([*good[:at], named, *good[at + 1 :]]))
        for path in paths:
            status, text = console.ask("POST", path, "")
            faults += [f"{path[:200]}: {fault[:300]}" for fault in _faults(status, text, "", "")]
    assert console.state() == before
    assert not faults, "\n".join(faults)
