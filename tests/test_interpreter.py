"""Tests of :mod:`logbus.interpreter`."""

from __future__ import annotations

import platform
from unittest import TestCase

from logbus.interpreter import InterpreterBuild, advice

PLAIN = InterpreterBuild("CPython", "3.11.7", "'--prefix=/opt/python' '--enable-shared'", "-g -O3 -Wall")
GUIDED = InterpreterBuild("CPython", "3.13.1", "'--enable-optimizations' '--with-lto'", "-DNDEBUG -g -O3")
DEBIAN = InterpreterBuild("CPython", "3.11.2", "'--enable-shared' '--prefix=/usr'", "-O2 -g -fwrapv -O2")
DEBUG = InterpreterBuild("CPython", "3.12.0", "'--enable-optimizations' '--with-pydebug'", "-O3 -Og")
UNKNOWN = InterpreterBuild("PyPy", "3.11.9")


class InterpreterBuildTests(TestCase):
    """Builds, by what their configuration says."""

    def test_names(self) -> None:
        """A name says what makes builds of one version differ."""
        self.assertEqual(PLAIN.name, "CPython 3.11.7 (-O3, not profile-guided)")
        self.assertEqual(GUIDED.name, "CPython 3.13.1 (-O3, profile-guided)")
        self.assertEqual(DEBIAN.name, "CPython 3.11.2 (-O2)")
        self.assertEqual(DEBUG.name, "CPython 3.12.0 (-Og, profile-guided)")
        self.assertEqual(UNKNOWN.name, "PyPy 3.11.9")

    def test_advice(self) -> None:
        """Who could have a faster one is told which; of what is unknown nothing is said."""
        self.assertIn("--enable-optimizations", PLAIN.advice or "")
        self.assertIn("debugging", DEBUG.advice or "")
        for fine in (GUIDED, DEBIAN, UNKNOWN):
            self.assertIsNone(fine.advice)

    def test_running(self) -> None:
        """The running one has a name, whatever it is."""
        self.assertIn(platform.python_version(), InterpreterBuild.running().name)

    def test_lines(self) -> None:
        """One line for each reason."""
        self.assertEqual(advice(True, GUIDED), [])
        [line] = advice(False, GUIDED)
        self.assertIn("LOGBUS_PURE", line)
        self.assertEqual(advice(False, PLAIN), [line, PLAIN.advice])
