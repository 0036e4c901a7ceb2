"""A reactor in a thread of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from twisted.internet.defer import Deferred

from logbus.testing.reactor_thread import ReactorThread, WrongThread

SECONDS = 60


@pytest.fixture
def thread() -> Iterator[ReactorThread]:
    """One that runs."""
    running = ReactorThread("test")
    yield running
    running.stop()
    assert running.join(SECONDS)


def test_results_and_errors(thread: ReactorThread) -> None:
    """What a coroutine returns or raises there arrives here."""

    async def add(number: int) -> int:
        if number < 0:
            raise ValueError("too small")
        return number + 1

    assert thread.run(lambda: add(1), SECONDS) == 2
    with pytest.raises(ValueError, match="too small"):
        thread.run(lambda: add(-1), SECONDS)


def test_too_late(thread: ReactorThread) -> None:
    """What takes too long is cancelled, and nothing is left of it."""
    never: Deferred[None] = Deferred()

    async def wait() -> None:
        await never

    with pytest.raises(TimeoutError, match=r"not done within 0\.01 s"):
        thread.run(wait, 0.01)
    assert never.called


def test_called_where_it_cannot_wait(thread: ReactorThread) -> None:
    """In its own thread, after its end, and in a forked process it says so, where it would wait for ever."""

    async def nothing() -> None: ...

    async def inside() -> None:
        thread.run(nothing, SECONDS)

    with pytest.raises(WrongThread, match="called in the broker's own thread"):
        thread.run(inside, SECONDS)
    child = os.fork()
    if not child:
        try:
            thread.run(nothing, SECONDS)
        except WrongThread:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    thread.stop()
    thread.join(SECONDS)
    with pytest.raises(WrongThread, match="has ended"):
        thread.run(nothing, SECONDS)
