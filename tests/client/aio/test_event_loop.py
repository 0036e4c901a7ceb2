"""The time of an event loop as a reactor's."""

from __future__ import annotations

import asyncio
from unittest import IsolatedAsyncioTestCase

from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface.verify import verifyObject

from logbus.client.aio.event_loop import EventLoop, current


class EventLoopTests(IsolatedAsyncioTestCase):
    async def test_interfaces(self) -> None:
        """It is what the client asks for."""
        loop = EventLoop()
        verifyObject(IReactorTime, loop)
        call = loop.callLater(1, print)
        verifyObject(IDelayedCall, call)
        call.cancel()

    async def test_calls_in_order(self) -> None:
        """Calls come when they are due, with their arguments."""
        loop, called, over = EventLoop(), list[object](), asyncio.Event()
        loop.callLater(0.02, over.set)
        loop.callLater(0.01, called.append, "later")
        loop.callLater(0, called.append, "soon")
        self.assertEqual(called, [])
        await over.wait()
        self.assertEqual(called, ["soon", "later"])

    async def test_cancelled(self) -> None:
        """A cancelled call does not come, and cannot be cancelled again; nor can one that was made."""
        loop, called, over = EventLoop(), list[object](), asyncio.Event()
        never, made = loop.callLater(0, called.append, 1), loop.callLater(0, called.append, 2)
        never.cancel()
        self.assertFalse(never.active())
        loop.callLater(0.001, over.set)
        await over.wait()
        self.assertEqual(called, [2])
        self.assertRaises(AlreadyCancelled, never.cancel)
        self.assertRaises(AlreadyCalled, made.cancel)

    async def test_moved(self) -> None:
        """A call can be put off, and reset."""
        loop, over = EventLoop(), asyncio.Event()
        call = loop.callLater(1000, over.set)
        call.delay(1000)
        self.assertAlmostEqual(call.getTime() - loop.seconds(), 2000, delta=1)
        call.reset(0.001)
        await over.wait()
        self.assertFalse(call.active())

    async def test_other_loop(self) -> None:
        """A client is told that it is used in another loop than before."""
        loop = EventLoop()
        self.assertIs(loop.loop, asyncio.get_running_loop())

        def elsewhere() -> None:
            async def use() -> None:
                current(loop)

            asyncio.run(use())

        with self.assertRaisesRegex(RuntimeError, "another event loop"):
            await asyncio.to_thread(elsewhere)


def test_closed_loop() -> None:
    """On a closed loop nothing is called, and nothing fails: a collected client may still try."""
    loop = EventLoop()

    async def use() -> None:
        loop.seconds()

    asyncio.run(use())
    assert not loop.is_running
    call = loop.callLater(1, print)
    assert not call.active()


def test_without_a_loop() -> None:
    """Nothing of it needs a loop until it is used."""
    loop = EventLoop()
    try:
        loop.seconds()
    except RuntimeError as e:
        assert "no running event loop" in str(e)
    else:
        raise AssertionError("there is no loop")
