"""Tests of :mod:`logbus.quick_imports`."""

from __future__ import annotations

import gc
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from logbus.quick_imports import LaterModule, no_collection, quick_imports

COOKIES = """
import sys
from logbus.quick_imports import quick_imports

with quick_imports():
    import twisted.python.compat as compat
assert "http.cookiejar" not in sys.modules
later = compat.cookielib
import http.cookiejar
assert type(http.cookiejar) is type(sys), http.cookiejar
assert later.CookieJar is http.cookiejar.CookieJar
from twisted.web import client
"""


class QuickImportsTests(SynchronousTestCase):
    """What holds within the context, and after it."""

    def test_cookies(self) -> None:
        """Twisted's name for the module works, and so does the module itself, for whoever imports it."""
        done = subprocess.run([sys.executable, "-c", COOKIES], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_asked_at_once(self) -> None:
        """Another thread may ask while the other module's place is taken: it gets the module."""
        known = sys.modules.pop("fractions", None)
        self.addCleanup(sys.modules.update, {} if known is None else {"fractions": known})
        later = sys.modules["fractions"] = LaterModule("fractions")
        self.assertEqual(later.Fraction(1, 2) * 2, 1)
        self.assertIsNot(sys.modules["fractions"], later)

    def test_collection(self) -> None:
        """The garbage collector rests, and is again as it was, also after an error, and within another context."""
        with no_collection(), quick_imports():
            self.assertFalse(gc.isenabled())
        self.assertTrue(gc.isenabled())
        with self.assertRaises(ZeroDivisionError), quick_imports():
            _ = 1 / 0
        self.assertTrue(gc.isenabled())
        gc.disable()
        try:
            with no_collection():
                pass
            self.assertFalse(gc.isenabled())
        finally:
            gc.enable()
