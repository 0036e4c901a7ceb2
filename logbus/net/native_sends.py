"""
Sends large responses in threads that know no Python, if a C compiler was available for them.

While one connection is served, the kernel copies for another. That pays only if several connections are busy: the one
that is alone is served without a change of threads. The environment variable ``LOGBUS_PURE`` disables them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol, TypeAlias

from attrs import define, field
from twisted.internet.interfaces import IReadDescriptor
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.extension_modules import extension_module
from logbus.processors import processors
from logbus.records.file_slice import FileSlice, Part, Parts

MOST_THREADS = 4

_REVISION = 5
"""Of the compiled module."""


Piece: TypeAlias = bytes | memoryview | tuple[int, int, int]
"""Bytes, or a file with a position and a length."""


class SendThreads(Protocol):
    """The class of the compiled module; see ``_send_threads.pyx``."""

    def __init__(self, number: int) -> None: ...

    def fileno(self) -> int: ...

    def submit(self, ticket: int, sock: int, pieces: list[Piece]) -> None: ...

    def take(self) -> list[tuple[int, int, int]]: ...

    def stop(self) -> None: ...


class Sender(Protocol):
    """A connection that has something sent."""

    def thread_sent(self, sent: int, error: OSError | None) -> None:
        """So many bytes were sent; fewer than were asked for if a file has no more, or after an error."""


def compiled_threads() -> type[SendThreads] | None:
    """The compiled class; None without it, or if it is not wanted."""
    compiled = extension_module("logbus.net._send_threads", _REVISION)
    return None if compiled is None else compiled.SendThreads


def threads_for(processors: int) -> int:
    """
    The number of threads that send on a machine with so many processors.

    More than there are processors for them: where a thread sends for several connections, each response waits for the
    others, and a peer is woken for a piece of it at a time.
    """
    return min(processors + 1, MOST_THREADS) if processors > 1 else 0


@implementer(IReadDescriptor)
@define(eq=False)
class NativeSends:
    """
    The threads in the reactor.

    :ivar several: whether the last poll of the reactor found several descriptors ready, besides our own.
    """

    _threads: SendThreads
    _log = Logger()
    several: bool = field(default=False, init=False)
    # The bytes are kept, and the files open.
    _waiting: dict[int, tuple[Sender, Parts]] = field(factory=dict, init=False)
    _tickets: count[int] = field(factory=count, init=False)

    @classmethod
    def start(cls, reactor: Any) -> NativeSends | None:
        """The threads; None without the compiled module, or where there is no processor for them or none can start."""
        kind, number = compiled_threads(), threads_for(processors())
        if kind is None or number < 1:
            return None
        try:
            sends = cls(kind(number))
        except (OSError, RuntimeError) as error:
            cls._log.warn("responses are sent without threads: {error}", error=error)
            return None
        reactor.addReader(sends)
        reactor.addSystemEventTrigger("after", "shutdown", sends.stop)
        return sends

    def polled(self, ready: Sequence[tuple[int, int]]) -> None:
        """
        The reactor found these descriptors ready.

        A connection that is alone may have its next request here before we are told that its response was sent.
        """
        number = len(ready)
        self.several = number > 2 or (number == 2 and self.fileno() not in (ready[0][0], ready[1][0]))

    @property
    def is_busy(self) -> bool:
        """Whether several connections have work; else what there is is better sent at once."""
        return self.several or bool(self._waiting)

    def send(self, sender: Sender, sock: int, parts: Parts) -> None:
        """
        Send these, of which none is empty; ``sender`` is told how many of their bytes were sent.

        :raises OSError: the process has too many open files.
        """
        ticket = next(self._tickets)
        self._threads.submit(ticket, sock, [_piece(part) for part in parts])
        self._waiting[ticket] = sender, parts

    def fileno(self) -> int:
        """The eventfd."""
        return self._threads.fileno()

    def doRead(self) -> None:
        """Tell the connections what was sent."""
        for ticket, sent, number in self._threads.take():
            sender, _ = self._waiting.pop(ticket)
            sender.thread_sent(sent, OSError(number, os.strerror(number)) if number else None)

    def stop(self) -> None:
        """End the threads, if nothing is being sent: otherwise the process ends with them."""
        if not self._waiting:
            self._threads.stop()

    def connectionLost(self, reason: Failure) -> None:
        """The reactor stopped; what is being sent is not waited for."""

    def logPrefix(self) -> str:
        """For the reactor's log."""
        return "logbus send"


def _piece(part: Part) -> Piece:
    return (part.file.fileno(), part.position, part.length) if isinstance(part, FileSlice) else part
