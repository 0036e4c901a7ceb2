"""A browser, and a broker to look at; each is started once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("playwright", reason="the extra 'browser' is not installed")
from playwright.sync_api import Browser, Page, expect

from logbus.testing import Broker
from tests.browser.accessibility import LARGE
from tests.browser.chromium import EXECUTABLE, PATIENCE_MS, chromium
from tests.browser.sample_data import MIRROR, fill, register_schemas

expect.set_options(timeout=PATIENCE_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if EXECUTABLE is None:
        for item in items:
            if "tests/browser" in item.path.as_posix():
                item.add_marker(pytest.mark.skip("there is no Chromium: apt-get install chromium"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A broker with the sample data, which no test changes."""
    with Broker(MIRROR) as started:
        fill(started.bootstrap)
        register_schemas(started.admin_url)
        yield started


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens windows: a width, and more options of Playwright's contexts. Errors of scripts fail the test."""
    contexts, errors, told = [], list[str](), list[str]()

    def open_one(width: int = LARGE, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(f"{page.url}: {error}"))
        page.on("console", lambda said: told.append(f"{page.url}: {said.text}"))
        return page

    yield open_one
    for context in contexts:
        context.close()
    errors += [each for each in told if "Content Security Policy" in each]
    assert not errors, errors
