"""Deferreds in asyncio's tasks."""

from __future__ import annotations

import asyncio
from unittest import IsolatedAsyncioTestCase

from twisted.internet.defer import CancelledError, Deferred, fail, succeed

from logbus.client.aio.awaiting import deferred_of, outcome, run
from logbus.errors import LogbusError


class OutcomeTests(IsolatedAsyncioTestCase):
    async def test_known_already(self) -> None:
        """A Deferred that has fired costs no turn of the loop."""
        self.assertEqual(await outcome(succeed(1)), 1)
        with self.assertRaises(KeyError):
            await outcome(fail(KeyError()))

    async def test_known_later(self) -> None:
        """Results and errors come through."""
        for fire, expected in ((lambda d: d.callback(1), 1), (lambda d: d.errback(KeyError()), KeyError)):
            deferred: Deferred[int] = Deferred()
            task = asyncio.ensure_future(outcome(deferred))
            await asyncio.sleep(0)
            fire(deferred)
            try:
                self.assertEqual(await task, expected)
            except KeyError:
                self.assertIs(expected, KeyError)

    async def test_coroutine(self) -> None:
        """A coroutine that awaits Deferreds runs in a task."""
        deferred: Deferred[int] = Deferred()

        async def double() -> int:
            return 2 * await deferred

        asyncio.get_running_loop().call_soon(deferred.callback, 2)
        self.assertEqual(await run(double()), 4)

    async def test_task_is_cancelled(self) -> None:
        """Cancelling the task cancels the Deferred at once, not a turn later."""
        cancelled = []
        deferred: Deferred[int] = Deferred(cancelled.append)
        task = asyncio.ensure_future(outcome(deferred))
        await asyncio.sleep(0)
        task.cancel()
        self.assertEqual(cancelled, [deferred])
        with self.assertRaises(asyncio.CancelledError):
            await task

    async def test_time_is_up(self) -> None:
        """asyncio's timeouts work as usual."""
        cancelled = []
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0.001):
                await outcome(Deferred(cancelled.append))
        self.assertEqual(len(cancelled), 1)

    async def test_deferred_is_cancelled(self) -> None:
        """A Deferred that the client cancels does not look like a cancelled task."""
        for deferred in (fail(CancelledError()), Deferred[int]()):
            asyncio.get_running_loop().call_soon(deferred.cancel)
            with self.assertRaisesRegex(LogbusError, "closed"):
                await outcome(deferred)


class DeferredOfTests(IsolatedAsyncioTestCase):
    async def test_outcomes(self) -> None:
        """What a coroutine returns or raises is the Deferred's."""

        async def result(value: int) -> int:
            await asyncio.sleep(0)
            return 1 // value

        self.assertEqual(await outcome(deferred_of(result(1))), 1)
        with self.assertRaises(ZeroDivisionError):
            await outcome(deferred_of(result(0)))

    async def test_cancelled(self) -> None:
        """Cancelling the Deferred cancels the task."""
        over = asyncio.Event()

        async def wait() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                over.set()

        deferred = deferred_of(wait())
        deferred.addErrback(lambda failure: failure.trap(CancelledError) and None)
        await asyncio.sleep(0)
        deferred.cancel()
        await over.wait()
