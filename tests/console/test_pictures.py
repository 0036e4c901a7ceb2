"""The pictures of the console in the documentation show what there is."""

from __future__ import annotations

from pathlib import Path

from logbus.testing import Broker
from tests.browser.outlines import PICTURES, RECORD, outlines
from tests.browser.sample_data import fill, register_schemas

DIRECTORY = Path(__file__).parents[2] / "docs" / "howto" / "console"


def test_pictures_are_of_these_pages() -> None:
    """
    Navigation and headings are those that the pages had when the pictures were made. If not, make the
    pictures again, and look at them: ``python -m tests.browser.pictures docs/howto/console``.
    """
    assert {path.stem for path in DIRECTORY.glob("*.png")} == set(PICTURES)
    with Broker() as broker:
        fill(broker.bootstrap, hostile=False)
        register_schemas(broker.admin_url)
        assert outlines(broker.admin_url) == (DIRECTORY / RECORD).read_text()


def test_pictures_are_small() -> None:
    """They are loaded with the pages of the documentation."""
    for path in DIRECTORY.glob("*.png"):
        assert path.stat().st_size < 200_000, path
