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


DEFER = """
import sys
from logbus.quick_imports import quick_imports

with quick_imports():
    from twisted.internet.defer import Deferred, ensureDeferred
assert "asyncio" not in sys.modules and "ssl" not in sys.modules and "asyncio.coroutines" not in sys.modules

async def answer():
    return 42

got = []
ensureDeferred(answer()).addCallback(got.append)
Deferred.fromCoroutine(answer()).addCallback(got.append)
assert got == [42, 42], got

import asyncio
assert type(asyncio) is type(sys), asyncio

async def both(loop):
    waiting = Deferred()
    loop.call_soon(waiting.callback, 1)
    future = loop.create_future()
    loop.call_soon(future.set_result, 2)
    return await waiting.asFuture(loop), await Deferred.fromFuture(future).asFuture(loop)

loop = asyncio.new_event_loop()
assert loop.run_until_complete(both(loop)) == (1, 2)
"""


class QuickImportsTests(SynchronousTestCase):
    """What holds within the context, and after it."""

    def test_cookies(self) -> None:
        """Twisted's name for the module works, and so does the module itself, for whoever imports it."""
        done = subprocess.run([sys.executable, "-c", COOKIES], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_defer(self) -> None:
        """Deferreds wait for coroutines without asyncio; it works for whoever imports it, and Deferreds with it."""
        done = subprocess.run([sys.executable, "-c", DEFER], capture_output=True, text=True, timeout=120, check=False)
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
