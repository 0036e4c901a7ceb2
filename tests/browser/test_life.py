"""A page that stays open: it follows what happens, says when the broker is away, and goes on when it is back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, Route, expect

from logbus.admin import record_search
from logbus.testing import Broker
from tests.browser.accessibility import faults_of


@pytest.fixture(scope="module")
def mortal() -> Iterator[Broker]:
    """A broker in a process of its own."""
    with Broker({"num.partitions": 1}, in_process=False) as started:
        yield started


def _write(broker: Broker, topic: str, value: str, count: int = 1, key: str | None = None) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "queue.buffering.max.messages": 2_000_000})
    for _ in range(count):
        producer.produce(topic, value, key)
    assert producer.flush(120) == 0


def test_a_broker_that_dies(open_page: Callable[..., Page], mortal: Broker) -> None:
    """The page shows what it knew and says since when nobody answers; when the broker is back, what is new."""
    page = open_page()
    _write(mortal, "before", "x")
    page.goto(f"{mortal.admin_url}/console/topics")
    table = page.locator("main table")
    expect(table).to_contain_text("before")
    mortal.kill()
    expect(page.locator("#connection")).to_contain_text("No answer since")
    expect(table).to_contain_text("before")
    mortal.start()
    _write(mortal, "afterwards", "x")
    expect(table).to_contain_text("afterwards")
    expect(page.locator("#connection")).to_be_empty()


def test_what_is_in_use_stays(open_page: Callable[..., Page], mortal: Broker) -> None:
    """What is typed into a filter is not replaced, while the table beside it is."""
    page = open_page()
    _write(mortal, "first", "x")
    page.goto(f"{mortal.admin_url}/console/topics")
    page.locator("#filter").fill("half a na")
    _write(mortal, "second", "x")
    expect(page.locator("main table")).to_contain_text("second")
    expect(page.locator("#filter")).to_have_value("half a na")


@pytest.fixture
def slow_search(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """A broker that ends each part of a search after one fetch, however fast the machine is."""
    monkeypatch.setattr(record_search, "SEARCH_SECONDS", 0)
    monkeypatch.setattr(record_search, "FETCHED_BYTES", 1 << 16)
    with Broker({"num.partitions": 1}) as started:
        yield started


def test_a_search_is_stopped(open_page: Callable[..., Page], slow_search: Broker) -> None:
    """A search through much shows how far it is, and stops when it is told to; then it can go on to the end."""
    # What is searched for is everywhere but in keys: each record must be looked at.
    _write(slow_search, "hay", "needle", 100_000)
    _write(slow_search, "hay", "found", key="needle")
    page = open_page()
    page.goto(f"{slow_search.admin_url}/console/topics/hay/records?from=oldest&key=needle")
    held = list[Route]()

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/records?*", hold)
    page.locator("[data-continue] a").click()
    page.get_by_role("button", name="Stop").wait_for()
    assert faults_of(page, "a search that runs") == []
    page.get_by_role("button", name="Stop").click()
    for each in held:
        each.continue_()
    page.unroute("**/records?*")
    onward = page.get_by_role("link", name="Search on")
    expect(onward).to_be_visible()
    assert any(character.isdigit() for character in page.locator("#progress").inner_text())
    onward.click()
    expect(page.locator("#found tbody tr")).to_have_count(1)
    expect(page.locator("#found")).to_contain_text("found")


def test_signing_in(open_page: Callable[..., Page]) -> None:
    """Who has logged in is named, and may do what her rights are; who has not, is told so by a page."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required user_ada=countess user_bob=builder;"
    secured = {
        "admin.authentication": "required",
        "listener.name.admin.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.admin.plain.sasl.jaas.config": login,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ada;User:ANONYMOUS",
    }
    with Broker(secured) as broker:
        _write(broker, "secret", "x")
        ada = open_page(http_credentials={"username": "ada", "password": "countess"})
        ada.goto(f"{broker.admin_url}/console/topics")
        expect(ada.locator(".who")).to_have_text("ada")
        expect(ada.locator("main table")).to_contain_text("secret")
        bob = open_page(http_credentials={"username": "bob", "password": "builder"})
        bob.goto(f"{broker.admin_url}/console/topics")
        expect(bob.locator("main")).not_to_contain_text("secret")
        answer = bob.goto(f"{broker.admin_url}/console/topics/secret/records")
        assert answer is not None and answer.status == 403, answer
        expect(bob.locator("main")).to_contain_text("User:bob lacks a right: Describe on the Topic secret")
        stranger = open_page().request.get(f"{broker.admin_url}/console/topics")
        assert stranger.status == 401


def test_changes_come_by_a_stream(open_page: Callable[..., Page], mortal: Broker) -> None:
    """An open page asks once, and gets what changes; where there is no stream to be had, it asks again and again."""
    page, asked = open_page(), list[tuple[str, str]]()
    page.on("request", lambda request: asked.append((request.resource_type, request.url)))
    page.goto(f"{mortal.admin_url}/console/topics")
    _write(mortal, "streamed", "x")
    expect(page.locator("main table")).to_contain_text("streamed")
    assert [kind for kind, url in asked if url.endswith("/topics")] == ["document", "eventsource"]

    page, kinds = open_page(), set[str]()
    page.on("request", lambda request: kinds.add(request.resource_type))
    page.route("**/console/topics", lambda each: each.fulfill(status=503) if _is_stream(each) else each.continue_())
    page.goto(f"{mortal.admin_url}/console/topics")
    _write(mortal, "asked-for", "x")
    expect(page.locator("main table")).to_contain_text("asked-for")
    assert "fetch" in kinds


def test_what_is_shown_is_deleted(open_page: Callable[..., Page], mortal: Broker) -> None:
    """The page of a topic that somebody else deletes says so."""
    _write(mortal, "short-lived", "x")
    page = open_page()
    page.goto(f"{mortal.admin_url}/console/topics/short-lived")
    answer = page.request.delete(f"{mortal.admin_url}/api/v1/topics/short-lived?confirm=short-lived")
    assert answer.ok, answer.text()
    expect(page.locator("#connection")).to_have_text("Out of date: Not Found")


def _is_stream(route: Route) -> bool:
    return route.request.resource_type == "eventsource"
