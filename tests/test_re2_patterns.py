"""Regular expressions of RE2."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.re2_patterns import compile_re2


class Re2Tests(SynchronousTestCase):
    """Expressions are compiled, or refused with RE2's reason."""

    def test_match(self) -> None:
        """The whole text must match for ``fullmatch``."""
        matches = compile_re2("orders-[a-z]+").fullmatch
        self.assertTrue(matches("orders-eu"))
        self.assertFalse(matches("orders-eu2"))

    def test_refusals(self) -> None:
        """No expression, one that RE2 has not, and one that takes too much memory."""
        for pattern, words in (("(", "missing )"), ("(?=a)", "invalid perl operator"), ("a{900}", "pattern too large")):
            error = self.assertRaises(ValueError, compile_re2, pattern, 1000)
            self.assertIn(words, str(error))
