"""Chooses the reactor of a process."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twisted.internet.posixbase import PosixReactorBase


def best_reactor() -> PosixReactorBase:
    """A new reactor, of the best kind that this system has: Twisted's own choice on macOS, select, takes few files."""
    try:
        from logbus.net.reactor import BrokerReactor
    except ImportError:  # There is no epoll.
        try:
            from twisted.internet.kqreactor import KQueueReactor
        except ImportError:
            from twisted.internet.pollreactor import PollReactor

            return PollReactor()
        return KQueueReactor()
    return BrokerReactor()


def install_reactor() -> None:
    """Install logbus's reactor, unless one was chosen already (``twistd --reactor``)."""
    if "twisted.internet.reactor" in sys.modules:
        return
    from twisted.internet.main import installReactor

    installReactor(best_reactor())


def process_reactor() -> Any:
    """
    Return the process's reactor, which is installed first where none is yet. Its time is monotonic then, so this comes
    before any timer exists.
    """
    install_reactor()
    from twisted.internet import reactor

    # A step of the wall clock must not affect timers.
    reactor.seconds = time.monotonic  # type: ignore[method-assign]
    return reactor
