"""
The epoll reactor, with a shorter way to connections that have a request.

Twisted calls each descriptor that is ready in a logging context of its own, so that what is said with ``log.msg``
bears the connection's name. Our transport says nothing that way, and the context costs more than a tenth of what a
small request costs.
"""

from __future__ import annotations

from select import EPOLLIN
from typing import Any

from twisted.internet.epollreactor import EPollReactor
from twisted.logger import Logger
from twisted.python.log import callWithLogger

from logbus.net.transport import ServerTransport


class BrokerReactor(EPollReactor):
    """An epoll reactor; reads of :class:`~logbus.net.transport.ServerTransport` are called straight."""

    _log = Logger()

    def doPoll(self, timeout: float | None) -> None:
        """Wait for descriptors to be ready, and call them."""
        selectables: dict[int, Any] = self._selectables
        for fd, event in self._poller.poll(-1 if timeout is None else timeout, len(selectables)):
            # One that is ready may have been closed by one before it.
            selectable = selectables.get(fd)
            if selectable.__class__ is ServerTransport and event == EPOLLIN:
                why: Exception | None
                try:
                    why = selectable.doRead()
                except Exception as e:
                    self._log.failure("reading from {peer} failed", peer=selectable.getPeer())
                    why = e
                if why is not None:
                    callWithLogger(selectable, self._disconnectSelectable, selectable, why, True)
            elif selectable is not None:
                callWithLogger(selectable, self._doReadOrWrite, selectable, fd, event)

    doIteration = doPoll
