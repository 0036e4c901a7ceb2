"""Chooses the reactor of a process."""

from __future__ import annotations

import sys


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
