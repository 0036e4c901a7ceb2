"""Chooses the reactor of a process."""

from __future__ import annotations

import sys
import time
from typing import Any


def install_reactor() -> None:
    """Install logbus's reactor, unless one was chosen already (``twistd --reactor``)."""
    if "twisted.internet.reactor" in sys.modules:
        return
    try:
        from logbus.net.reactor import BrokerReactor
    except ImportError:  # no epoll here, as on macOS: Twisted chooses
        return
    from twisted.internet.main import installReactor

    installReactor(BrokerReactor())


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
