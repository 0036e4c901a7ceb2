"""Runs every example of the documentation as a reader would."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from docutils.core import publish_doctree

from tests.docs import test_fresh_clone
from tests.docs.page_examples import examples_of
from tests.docs.shell_session import default_ports_are_free, has_own_network, session

ROOT = Path(__file__).parent.parent.parent
ELSEWHERE = [ROOT / page for page in test_fresh_clone.PAGES] if test_fresh_clone.IS_CHECKOUT else []
"""Pages whose examples are run with what pip has installed in a fresh clone, and need not be run here as well."""
PAGES = [ROOT / "README.rst", *sorted((ROOT / "docs").rglob("*.rst"))]
WITH_EXAMPLES = [
    page
    for page in PAGES
    if page not in ELSEWHERE
    and "newsfragments" not in page.parts
    and "_build" not in page.parts
    and any(
        example.how != "skip" and example.language in ("console", "python", "pycon") for example in examples_of(page)
    )
]
ISOLATED = has_own_network()


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_examples(page: Path, tmp_path: Path) -> None:
    """Its commands succeed, and print what it says they print."""
    if not ISOLATED and not default_ports_are_free():
        pytest.skip("the default ports are taken, and this machine gives no network of one's own")
    with session(tmp_path, ISOLATED) as reader:
        for example in examples_of(page):
            reader.play(example)


def test_every_block_of_commands_is_found() -> None:
    """No example escapes by how it is written: all console blocks are read as such, and none is empty."""
    for page in PAGES:
        if "_build" not in page.parts:
            blocks = len(re.findall(r"^\s*\.\. code-block:: console", page.read_text(), re.MULTILINE))
            found = [example for example in examples_of(page) if example.language == "console"]
            assert len(found) == blocks, page
            assert all(example.commands for example in found), page


def test_the_readme_is_read_by_everybody() -> None:
    """Package indexes and code hosts render it with docutils alone, which does not know what Sphinx adds."""
    said = io.StringIO()
    publish_doctree(
        (ROOT / "README.rst").read_text(),
        settings_overrides={"report_level": 2, "halt_level": 5, "warning_stream": said},
    )
    assert said.getvalue() == ""


def test_comments_before_blocks_are_understood() -> None:
    """A comment with a typing error would silently change what is tested."""
    known = {"", "background", "stops", "fails", "file", "skip"}
    for page in PAGES:
        if "_build" not in page.parts:
            found = list(examples_of(page))
            assert {example.how for example in found} <= known, page
            assert len([e for e in found if e.how]) == len(
                re.findall(r"^\.\. example:", page.read_text(), re.MULTILINE)
            )
