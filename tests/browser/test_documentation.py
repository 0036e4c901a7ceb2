"""The documentation in a browser: nothing is cut off on any screen, it can be dark, and its search finds."""

from __future__ import annotations

import functools
import http.server
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from logbus import __version__
from tests.browser.accessibility import LARGE, SMALL

pytest.importorskip("furo", reason="the extra 'docs' is not installed")
DOCS = Path(__file__).parent.parent.parent / "docs"
OF_SPHINX = {"genindex.html", "py-modindex.html", "search.html"}

COMPLAINTS = """() => {
    const found = [], root = document.scrollingElement;
    if (root.scrollWidth > innerWidth) found.push(`the page is ${root.scrollWidth} wide`);
    const scrolls = element => element && element.tagName !== "BODY"
        && (["auto", "scroll"].includes(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
    for (const block of document.querySelectorAll("article pre, article table, article img, article svg")) {
        const box = block.getBoundingClientRect();
        if (box.width && (block.scrollWidth > block.clientWidth || box.right > innerWidth) && !scrolls(block))
            found.push(`cut off: ${block.tagName} ${(block.innerText ?? "").slice(0, 60)}`);
    }
    return found;
}"""
#: How many columns of code a block shows without scrolling.
COLUMNS = """() => {
    const code = document.createElement("span");
    code.textContent = "x".repeat(50);
    const block = document.querySelector("article pre"), style = getComputedStyle(block);
    block.append(code);
    const width = code.getBoundingClientRect().width / 50;
    code.remove();
    return (block.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)) / width;
}"""
#: Of the page and of its text, 0 (black) to 255.
BRIGHTNESS = """() => ["backgroundColor", "color"].map(name => {
    const parts = getComputedStyle(document.body)[name].match(/[0-9.]+/g).slice(0, 3).map(Number);
    return parts.reduce((sum, each) => sum + each) / 3;
})"""


class Silent(http.server.SimpleHTTPRequestHandler):
    """Says nothing of each request."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


def sources() -> Iterator[Path]:
    """What the pages are made of.  What Python and Twisted cache beside the examples that they import is none of it."""
    for path in DOCS.rglob("*"):
        if path.is_file() and not {"_build", "__pycache__"} & set(path.parts) and path.suffix not in (".cache", ".new"):
            yield path


def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages: those in docs/_build if nothing has changed since, or else new ones."""
    done = DOCS / "_build" / "html"
    index = done / "searchindex.js"
    if index.exists() and index.stat().st_mtime > max(path.stat().st_mtime for path in sources()):
        return done
    made = tmp_path_factory.mktemp("documentation")
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-b", "html", DOCS, made], check=True)
    return made


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the pages."""
    return built(tmp_path_factory)


@contextmanager
def serving(directory: Path) -> Iterator[str]:
    """Serve files; the address."""
    handler = functools.partial(Silent, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def address(pages: Path) -> Iterator[str]:
    """Where they are served."""
    with serving(pages) as address:
        yield address


def test_nothing_is_cut_off(pages: Path, address: str, open_page: Callable[..., Page]) -> None:
    """No page is wider than the window of a telephone or of a desk; what is wide scrolls by itself."""
    names = sorted(path.relative_to(pages).as_posix() for path in pages.rglob("*.html") if "_static" not in path.parts)
    assert len(names) > 50
    page = open_page(java_script_enabled=False)
    found = {}
    for name in names:
        page.goto(f"{address}/{name}")
        for width in (LARGE, SMALL):
            page.set_viewport_size({"width": width, "height": 900})
            if complaints := page.evaluate(COMPLAINTS):
                found[name, width] = complaints
    assert found == {}


def test_code_has_room(address: str, open_page: Callable[..., Page]) -> None:
    """On a desk a line of 100 columns is whole."""
    page = open_page(LARGE)
    page.goto(f"{address}/tutorial/index.html")
    assert page.evaluate(COLUMNS) >= 100


def test_dark(address: str, open_page: Callable[..., Page]) -> None:
    """Who likes it dark has it dark, with bright text."""
    for scheme, is_dark in (("dark", True), ("light", False)):
        page = open_page(color_scheme=scheme)
        page.goto(f"{address}/tutorial/index.html")
        background, text = page.evaluate(BRIGHTNESS)
        assert (background < 60, text > 150) == (is_dark, is_dark), scheme


def test_search(address: str, open_page: Callable[..., Page]) -> None:
    """A word that is typed leads to the pages that have it."""
    page = open_page(LARGE)
    page.goto(f"{address}/index.html")
    page.get_by_placeholder("Search").fill("compaction")
    page.keyboard.press("Enter")
    expect(page.locator('#search-results a[href*="explanation/storage.html"]').first).to_be_visible()


def test_versions(pages: Path, tmp_path: Path, open_page: Callable[..., Page]) -> None:
    """
    A page says its version and commit. On a site with several versions it leads to the others: to the same page, or to
    the start of one that lacks it. By itself it offers none.
    """
    (tmp_path / "0.2.0").symlink_to(pages)
    earlier = tmp_path / "0.1.0"
    for name in ("index.html", "howto/install.html"):
        (earlier / name).parent.mkdir(exist_ok=True)
        shutil.copy(pages / name, earlier / name)
    shutil.copytree(pages / "_static", earlier / "_static")
    subprocess.run([sys.executable, DOCS / "ext" / "versions.py", tmp_path], check=True)
    with serving(tmp_path) as address:
        page = open_page(LARGE)
        page.goto(address)
        expect(page).to_have_url(f"{address}/0.2.0/")
        for name, found in (("howto/install.html", "howto/install.html"), ("howto/alerts.html", "")):
            page.goto(f"{address}/0.2.0/{name}")
            expect(page.locator(".sidebar-versions")).to_contain_text(f"Version {__version__}")
            choice = page.get_by_label("Version")
            expect(choice).to_have_value(f"{address}/0.2.0/")
            choice.select_option("0.1.0")
            expect(page).to_have_url(f"{address}/0.1.0/{found}")
            expect(page.get_by_label("Version")).to_have_value(f"{address}/0.1.0/")
    with serving(pages) as address:
        page.goto(address)
        page.wait_for_load_state("networkidle")
        expect(page.get_by_label("Version")).to_have_count(0)
