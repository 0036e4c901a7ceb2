"""
Tests of :mod:`logbus.records.implementations`: compiled where that is of the same source, else plain.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.records import columnar, implementations, kernel


class ChoiceTests(SynchronousTestCase):
    """The choice of the implementation."""

    def test_both_are_told(self) -> None:
        """The choice is reported."""
        self.assertEqual(implementations.IS_COMPILED, implementations.decode_records is not kernel.decode_records)
        self.assertEqual(implementations.COLUMNS_ARE_COMPILED, implementations.Columns is not columnar.Columns)
