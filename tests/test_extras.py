"""Tests of :mod:`logbus.extras`."""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from unittest import TestCase

import logbus
from logbus.extras import install_hint

ROOT = Path(__file__).parent.parent
HINT = re.compile(r"install_hint\([\"'](\w+)[\"']\)|pip install '\.\[(\w+)\]'")


class ExtrasTests(TestCase):
    """Commands that install what an optional part needs."""

    def sources(self) -> list[Path]:
        files = [path for path in (ROOT / "docs").rglob("*.rst") if "_build" not in path.parts]
        return [ROOT / "README.rst", *files, *(ROOT / "logbus").rglob("*.py")]

    def test_a_hint(self) -> None:
        """pip is given the source directory: a name would need a package index that has the project."""
        self.assertEqual(install_hint("tls"), "run pip install '.[tls]' in the source directory of logbus")

    def test_hints_name_extras(self) -> None:
        """Each hint in code and documentation names an extra there is, and none asks an index for the project."""
        setup = configparser.ConfigParser()
        setup.read(ROOT / "setup.cfg")
        extras = set(setup["options.extras_require"])
        named = set()
        for path in self.sources():
            text = path.read_text(encoding="utf-8")
            self.assertNotRegex(text, r"pip install '?logbus\b", str(path))
            named |= {code or words for code, words in HINT.findall(text)}
        self.assertLessEqual({"avro", "registry", "spark", "tls", "zookeeper"}, named)
        self.assertLessEqual(named, extras)

    def test_where_the_packages_are_explained(self) -> None:
        """The page that the package's docstring names exists."""
        (page,) = re.findall(r"``(docs/\S+)``", logbus.__doc__ or "")
        self.assertTrue((ROOT / page).exists(), page)
