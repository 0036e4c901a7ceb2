"""Every page of the console: complete, with few requests, by keyboard, without a script that is not ours."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page

from logbus.testing import Broker
from tests.browser.sample_data import HOSTILE, pages, path_of

PATHS = pages()


def _go(page: Page, broker: Broker, path: str) -> None:
    answer = page.goto(broker.admin_url + path)
    assert answer is not None and answer.status == 200, f"{path}: {answer and answer.status}"


def test_there_are_pages() -> None:
    """The routes are found."""
    assert {"/", "/console/topics/{topic}/records", "/console/groups/{group}"} <= set(PATHS)


def test_without_scripts(open_page: Callable[..., Page], broker: Broker) -> None:
    """Each page says what it is, and is complete, where JavaScript is off."""
    page = open_page(java_script_enabled=False)
    for path in PATHS:
        _go(page, broker, path_of(path))
        assert page.locator("h1").inner_text(), path
        assert page.locator("main").inner_text(), path
        assert page.locator("#theme").is_hidden(), path


def test_names_that_are_script(open_page: Callable[..., Page], broker: Broker) -> None:
    """Keys, values, headers and groups are shown, never run."""
    page = open_page()
    _go(page, broker, "/console/topics/orders/records?value=script")
    page.get_by_text(HOSTILE).first.wait_for()
    assert page.title().startswith("Records")
    _go(page, broker, "/console/groups")
    page.get_by_text(HOSTILE).first.click()
    page.wait_for_url("**/console/groups/%3Cscript*")
    assert page.title() != "broken into"


def test_few_requests_until_it_is_shown(open_page: Callable[..., Page], broker: Broker) -> None:
    """A page needs no more than itself, the style sheet, the script and the icon, which browsers keep."""
    page = open_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    _go(page, broker, "/")
    page.wait_for_load_state("load")
    assert len(asked) <= 4, asked
    assert all(url.startswith(broker.admin_url) for url in asked), asked
    _go(page, broker, "/console/topics")
    page.wait_for_load_state("load")
    # What comes from the browser's own store has transferred nothing.
    loaded = "performance.getEntriesByType('resource').filter(each => each.transferSize).map(each => each.name)"
    assert [name for name in page.evaluate(loaded) if not name.endswith("icon.svg")] == []


def test_keyboard(open_page: Callable[..., Page], broker: Broker) -> None:
    """Letters go to sections, a slash to the search, d switches light and dark."""
    page = open_page(color_scheme="light")
    _go(page, broker, "/")
    page.keyboard.press("t")
    page.wait_for_url("**/console/topics")
    page.keyboard.press("/")
    page.keyboard.type("ord")
    page.keyboard.press("Enter")
    page.wait_for_url("**filter=ord*")
    assert page.locator("main tbody tr").count() == 1
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("d")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
