"""
Tests of :mod:`logbus.records.implementations`: compiled where that is of the same source, else plain.
"""

from __future__ import annotations

import sys
from types import ModuleType
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logbus.records import columnar, implementations, kernel


class ChoiceTests(SynchronousTestCase):
    """The choice of the implementation."""

    def chosen(self, revision: int | None, pure: str = "") -> bool:
        """Whether a compiled module of that revision is taken; None for one that cannot be imported."""
        compiled = None
        if revision is not None:
            compiled = ModuleType("compiled")
            compiled.REVISION = revision  # type: ignore[attr-defined]
        with mock.patch.dict(sys.modules, {"compiled": compiled}), mock.patch.dict("os.environ", LOGBUS_PURE=pure):  # type: ignore[dict-item]
            return implementations._chosen(columnar, "compiled") is not columnar

    def test_choice(self) -> None:
        """One of this revision is taken; not one of another, nor where there is none, nor when it is not wanted."""
        self.assertTrue(self.chosen(columnar.REVISION))
        self.assertFalse(self.chosen(columnar.REVISION - 1))
        self.assertFalse(self.chosen(None))
        self.assertFalse(self.chosen(columnar.REVISION, pure="1"))

    def test_both_are_told(self) -> None:
        """The choice is reported."""
        self.assertEqual(implementations.IS_COMPILED, implementations.decode_records is not kernel.decode_records)
        self.assertEqual(implementations.COLUMNS_ARE_COMPILED, implementations.Columns is not columnar.Columns)
