"""The live tail of a topic: records as they are written, for as long as somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from axe_playwright_python.sync_playwright import Axe
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from logbus.console.record_tail_page import MOST_ROWS
from logbus.testing import Broker
from tests.browser.accessibility import SMALL
from tests.browser.sample_data import HOSTILE


@pytest.fixture(scope="module")
def narrow() -> Iterator[Broker]:
    """A broker with room for one event stream."""
    with Broker({"num.partitions": 1, "admin.event.streams": 1}) as started:
        yield started


def _write(broker: Broker, topic: str, *values: str | bytes | None, key: str | None = None) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value, key)
    assert producer.flush(120) == 0


def _open(page: Page, broker: Broker, topic: str, query: str = "") -> None:
    page.goto(f"{broker.admin_url}/console/topics/{topic}/tail{query}")
    expect(page.locator("#tail-state")).to_have_text("Following")


def _is_stream_free(broker: Broker) -> bool:
    try:
        with urlopen(f"{broker.admin_url}/api/v1/events", timeout=60) as answer:
            return bool(answer.status == 200)
    except HTTPError as e:
        assert e.code == 503, e
        return False


def _hide(page: Page, hidden: bool) -> None:
    """Have the page believe that its window is hidden, or seen again."""
    page.evaluate(
        "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        hidden,
    )


def test_follow(open_page: Callable[..., Page], logbus_module_broker: Broker) -> None:
    """Records come by themselves, the newest first, whatever is in them; also in a narrow window."""
    _write(logbus_module_broker, "told", "before")
    page = open_page(SMALL)
    _open(page, logbus_module_broker, "told")
    rows = page.locator("#tail tbody tr")
    expect(rows).to_have_count(1)
    _write(logbus_module_broker, "told", HOSTILE, b"\xff\x00\x01", None, key=HOSTILE)
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("tombstone")
    expect(rows.nth(1)).to_contain_text("0000  ff 00 01")
    expect(rows.nth(2)).to_contain_text(HOSTILE)
    expect(page.locator("#tail-count")).to_have_text("4 records")
    assert page.title() != "broken into"
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    grave = [each for each in Axe().run(page).response["violations"] if each["impact"] in ("serious", "critical")]
    assert not grave, grave
    rows.nth(3).get_by_role("link").click()
    expect(page.locator("#found")).to_contain_text("before")


def test_pause(open_page: Callable[..., Page], logbus_module_broker: Broker) -> None:
    """By a key it pauses, and continues where it stopped: what was written meanwhile is not missed."""
    _write(logbus_module_broker, "paused", "one")
    page = open_page()
    _open(page, logbus_module_broker, "paused")
    rows = page.locator("#tail tbody tr")
    expect(rows).to_have_count(1)
    page.keyboard.press("p")
    expect(page.locator("#tail-state")).to_contain_text("Paused")
    _write(logbus_module_broker, "paused", "two", "three")
    page.keyboard.press("p")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("three")
    page.get_by_role("button", name="Clear").press("Enter")
    expect(rows).to_have_count(0)


def test_filter(open_page: Callable[..., Page], logbus_module_broker: Broker) -> None:
    """Only what is filtered by is shown."""
    _write(logbus_module_broker, "mixed", "hay")
    page = open_page()
    _open(page, logbus_module_broker, "mixed")
    page.get_by_label("Value contains").fill("needle")
    page.get_by_role("button", name="Follow").click()
    expect(page.locator("#tail-state")).to_have_text("Following")
    _write(logbus_module_broker, "mixed", "hay", "a needle", "hay")
    rows = page.locator("#tail tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("a needle")


def test_bounded(open_page: Callable[..., Page], logbus_module_broker: Broker) -> None:
    """The page keeps so many rows, and says so."""
    _write(logbus_module_broker, "much", "first")
    page = open_page()
    _open(page, logbus_module_broker, "much")
    _write(logbus_module_broker, "much", *(f"value {number}" for number in range(MOST_ROWS + 200)))
    rows = page.locator("#tail tbody tr")
    expect(rows.nth(0)).to_contain_text(f"value {MOST_ROWS + 199}")
    expect(rows).to_have_count(MOST_ROWS)
    expect(page.locator("#tail-count")).to_contain_text(f"the last {MOST_ROWS} are kept")


def test_ends(open_page: Callable[..., Page], narrow: Broker) -> None:
    """The stream ends when the page is hidden, goes on when it is seen; of too many the page says so."""
    _write(narrow, "hidden", "one")
    page = open_page()
    _open(page, narrow, "hidden")
    assert not _is_stream_free(narrow)
    _hide(page, True)
    _write(narrow, "hidden", "two")
    other = open_page()
    _open(other, narrow, "hidden")
    _hide(page, False)
    expect(page.locator("#tail-state")).to_contain_text("as many as admin.event.streams allows")
    other.close()
    expect(page.locator("#tail-state")).to_have_text("Following")
    rows = page.locator("#tail tbody tr")
    expect(rows).to_have_count(2)


def test_what_is_followed_is_deleted(open_page: Callable[..., Page], logbus_module_broker: Broker) -> None:
    """The tail of a topic that somebody deletes says so, and does not try again."""
    _write(logbus_module_broker, "brief", "one")
    page = open_page()
    _open(page, logbus_module_broker, "brief")
    expect(page.locator("#tail tbody tr")).to_have_count(1)
    assert page.request.delete(f"{logbus_module_broker.admin_url}/api/v1/topics/brief?confirm=brief").ok
    expect(page.locator("#tail-state")).to_contain_text("brief")
