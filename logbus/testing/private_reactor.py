"""Reactors that are not the process's own, for threads of tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from logbus.net.reactor_choice import best_reactor

if TYPE_CHECKING:
    from twisted.internet.posixbase import PosixReactorBase


def private_reactor(seconds: Callable[[], float] = time.monotonic) -> PosixReactorBase:
    """
    A reactor that is not installed as the process's own: the best this platform has.

    :param seconds: the clock of its timers.
    """
    reactor = best_reactor()
    # Before any timer exists: a step of the wall clock must not move them.
    reactor.seconds = seconds
    return reactor


def close_reactor(reactor: PosixReactorBase) -> None:
    """Close the resources of a stopped private reactor: its waker's sockets and its poller."""
    for reader in reactor.removeAll():
        reader.connectionLost(None)  # type: ignore[arg-type]
    waker = getattr(reactor, "waker", None)
    if waker is not None:
        waker.connectionLost(None)
    # Of epoll and kqueue; that of poll is no descriptor.
    poller: Any = getattr(reactor, "_poller", None) or getattr(reactor, "_kq", None)
    if hasattr(poller, "close"):
        poller.close()
