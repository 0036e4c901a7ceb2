"""
Answers the next fetches of consumers that read on in threads that know no Python, if a C compiler was available for
them; see :mod:`logbus.net.prepared_fetches`. The environment variable ``LOGBUS_PURE`` disables them.
"""

from __future__ import annotations

import os
from itertools import count
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.interfaces import IReadDescriptor
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.extension_modules import extension_module
from logbus.metrics import LATENCY_BUCKETS
from logbus.net.prepared_fetches import SECONDS, AnsweredFetches, PreparedFetches
from logbus.processors import processors

MOST_THREADS = 4

_REVISION = 6
"""Of the compiled module."""


class FetchThreads(Protocol):
    """The class of the compiled module; see ``_fetch_threads.pyx``."""

    def __init__(self, number: int, bounds: tuple[float, ...]) -> None: ...

    def fileno(self) -> int: ...

    def submit(
        self,
        ticket: int,
        sock: int,
        request: bytes,
        epoch_at: int,
        offset_at: int,
        head: bytes,
        tail: bytes,
        compact: bool,
        ranges: list[tuple[int, int, int, int, int, int]],
        first: int,
        most: int,
        least: int,
        seconds: float,
    ) -> None: ...

    def recall(self, ticket: int) -> None: ...

    def take(self) -> list[tuple[Any, ...]]: ...

    def stop(self) -> None: ...


class Consumer(Protocol):
    """The connection whose fetches are answered."""

    def fetches_answered(self, answered: AnsweredFetches) -> None:
        """It is given back."""

    def abortConnection(self) -> object:
        """Close it."""


def compiled_threads() -> type[FetchThreads] | None:
    """The compiled class; None without it, or if it is not wanted."""
    compiled = extension_module("logbus.net._fetch_threads", _REVISION)
    return None if compiled is None else compiled.FetchThreads


@implementer(IReadDescriptor)
@define(eq=False)
class NativeFetches:
    """The threads in the reactor."""

    _threads: FetchThreads
    _log = Logger()
    _away: dict[int, tuple[Consumer, PreparedFetches]] = field(factory=dict, init=False)
    _tickets: count[int] = field(factory=count, init=False)

    @classmethod
    def start(cls, reactor: Any) -> NativeFetches | None:
        """The threads; None without the compiled module, or where there is no processor for them or none can start."""
        kind, number = compiled_threads(), processors()
        if kind is None or number < 2:
            return None
        try:
            fetches = cls(kind(min(number, MOST_THREADS), LATENCY_BUCKETS))
        except (OSError, RuntimeError) as error:
            cls._log.warn("fetches are answered without threads: {error}", error=error)
            return None
        reactor.addReader(fetches)
        reactor.addSystemEventTrigger("after", "shutdown", fetches.stop)
        return fetches

    def submit(self, consumer: Consumer, sock: int, prepared: PreparedFetches) -> int:
        """
        Have the next fetches answered that come from a socket, from which nobody else reads until ``consumer`` is told.

        :returns: a ticket, for :meth:`recall`.
        :raises OSError: the process has too many open files.
        :raises RuntimeError: the threads were stopped.
        :raises ValueError: the request is too long.
        """
        ticket = next(self._tickets)
        self._threads.submit(
            ticket,
            sock,
            prepared.request,
            prepared.epoch_at,
            prepared.offset_at,
            prepared.head,
            prepared.tail,
            prepared.compact,
            [
                (
                    one.base_offset,
                    one.file.fileno(),
                    one.position,
                    one.end,
                    -1 if one.index is None else one.index.fileno(),
                    one.entries,
                )
                for one in prepared.ranges
            ],
            prepared.first_offset,
            prepared.most,
            prepared.least,
            SECONDS,
        )
        # Keeps the files open.
        self._away[ticket] = consumer, prepared
        return ticket

    def recall(self, ticket: int) -> None:
        """Have a connection given back soon."""
        self._threads.recall(ticket)

    def fileno(self) -> int:
        """The eventfd."""
        return self._threads.fileno()

    def doRead(self) -> None:
        """Take the connections that are given back."""
        for (
            ticket,
            requests,
            offset,
            bytes_in,
            bytes_out,
            size,
            received,
            number,
            counts,
            seconds,
        ) in self._threads.take():
            consumer, prepared = self._away.pop(ticket)
            error = OSError(number, os.strerror(number)) if number else None
            answered = AnsweredFetches(requests, offset, bytes_in, bytes_out, size, received, error, counts, seconds)
            try:
                if requests:
                    prepared.answered(answered)
                consumer.fetches_answered(answered)
            except Exception:
                # The others are given back all the same.
                self._log.failure("a connection whose fetches were answered by a thread failed")
                consumer.abortConnection()

    def stop(self) -> None:
        """End the threads, if they have no connection: otherwise the process ends with them."""
        if not self._away:
            self._threads.stop()

    def connectionLost(self, reason: Failure) -> None:
        """The reactor stopped; the connections are not waited for."""

    def logPrefix(self) -> str:
        """For the reactor's log."""
        return "logbus fetch"
