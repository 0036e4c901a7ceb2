"""Tests the text of errors that Spark shows."""

from __future__ import annotations

import traceback
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from logbus.pipeline.error_text import without_traceback
from logbus.pipeline.errors import OptionError


def _deep(left: int, error: Exception) -> None:
    if not left:
        try:
            raise KeyError("inner")
        except KeyError as e:
            raise error from e
    _deep(left - 1, error)


@without_traceback
def _planned(error: Exception) -> None:
    """Plan something."""
    _deep(5, error)


class BriefTests(SynchronousTestCase):
    """Errors of ours, and others."""

    def shown(self, error: Exception) -> str:
        """As Spark has it."""
        with self.assertRaises(type(error)) as caught:
            _planned(error)
        return "".join(traceback.format_exception(caught.exception))

    def test_ours(self) -> None:
        """They are as they were, and the way through our code is left out."""
        shown = self.shown(OptionError("option 'x' is wrong"))
        self.assertTrue(shown.endswith("logbus.pipeline.errors.OptionError: option 'x' is wrong\n"))
        self.assertNotIn("_deep", shown)
        self.assertNotIn("inner", shown)

    def test_debugging(self) -> None:
        """LOGBUS_DEBUG shows all."""
        with patch.dict("os.environ", LOGBUS_DEBUG="1"):
            self.assertIn("_deep", self.shown(OptionError("x")))

    def test_others(self) -> None:
        """A mistake of ours shows where it is."""
        shown = self.shown(ZeroDivisionError("ours"))
        self.assertIn("in _deep", shown)
        self.assertIn("inner", shown)
