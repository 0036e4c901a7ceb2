"""The rule by which pure modules are found, and that the import contract uses it."""

from __future__ import annotations

import tomllib
from unittest import TestCase

from tests.import_contracts import ROOT, is_pure, pure_modules


class PurityTests(TestCase):
    def test_word_in_a_module(self) -> None:
        """It counts wherever it is, but only as a word."""
        for docstring, expected in (
            ("Decides things. Pure.", True),
            ("Decides things.\n\nPure: it is told the time.", True),
            ("Decides things: pure functions.", True),
            ("Purely practical.", False),
            ("Impure.", False),
            ("", False),
        ):
            with self.subTest(docstring=docstring):
                self.assertIs(is_pure(docstring, is_package=False), expected)

    def test_word_in_a_package(self) -> None:
        """The map of a package's modules does not count."""
        self.assertTrue(is_pure("The format. Pure.\n\n* ``a``: a module", is_package=True))
        self.assertFalse(is_pure("The format.\n\n* ``a``: a pure module", is_package=True))

    def test_modules_are_found(self) -> None:
        """In packages at any depth."""
        found = pure_modules()
        self.assertIn("logbus.records", found)
        self.assertGreater(len(found), 80)

    def test_contract_finds_them(self) -> None:
        """The contract about the pure core is the one that looks for the word."""
        settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
        pure = [each for each in settings["contracts"] if each["type"] == "pure"]
        self.assertEqual([each["forbidden_modules"] for each in pure], [["twisted", "kazoo"]])
        self.assertIn("pure: tests.import_contracts.PureContract", settings["contract_types"])
