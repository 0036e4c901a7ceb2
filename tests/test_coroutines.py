"""Coroutine functions that return Deferreds."""

from __future__ import annotations

import inspect

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.coroutines import returns_deferred


class TestReturnsDeferred(SynchronousTestCase):
    def test_runs_at_once_and_fires_with_the_result(self) -> None:
        """A call runs the function up to its first wait, and its Deferred fires with the result."""
        waiting: Deferred[int] = Deferred()
        begun = []

        @returns_deferred
        async def double(name: str) -> int:
            begun.append(name)
            return 2 * await waiting

        doubled = double("x")
        self.assertEqual(begun, ["x"])
        self.assertNoResult(doubled)
        waiting.callback(21)
        self.assertEqual(self.successResultOf(doubled), 42)

    def test_errors_are_in_the_deferred(self) -> None:
        """Also an error before the first wait does not reach the caller directly."""

        @returns_deferred
        async def fail() -> None:
            raise ValueError("no")

        self.failureResultOf(fail(), ValueError)

    def test_looks_like_a_function_that_returns_a_deferred(self) -> None:
        """The documentation shows the parameters, and the Deferred."""

        @returns_deferred
        async def ask(name: str, *, often: bool = False) -> int:
            """Ask."""
            return 0

        self.assertEqual(ask.__doc__, "Ask.")
        self.assertFalse(inspect.iscoroutinefunction(inspect.unwrap(ask)))
        self.assertEqual(str(inspect.signature(ask)), "(name: 'str', *, often: 'bool' = False) -> 'Deferred[int]'")
