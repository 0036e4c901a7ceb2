"""
Answers the next fetches of consumers that read on in threads that know no Python, if a C compiler was available for
them; see :mod:`logbus.net.prepared_fetches`. The environment variable ``LOGBUS_PURE`` disables them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.interfaces import IReadDescriptor
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.extension_modules import extension_module
from logbus.metrics import LATENCY_BUCKETS
from logbus.net.prepared_fetches import (
    ALONE_PREPARED,
    MOST_PREPARED,
    SECONDS,
    AnsweredFetches,
    PreparedFetches,
)
from logbus.processors import processors
from logbus.records.file_slice import FileSlice

MOST_THREADS = 4

MOST_EXTENDED = 16
"""Connections for which more responses are prepared in a turn of the reactor: 0.3 ms each."""

_REVISION = 4
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
        windows: list[tuple[int, int, int]],
        most: int,
        seconds: float,
        extends: bool,
    ) -> None: ...

    def asks(self, most: int) -> list[tuple[int, int]]: ...

    def extend(self, ticket: int, windows: list[tuple[int, int, int]]) -> None: ...

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


@define(eq=False)
class _Away:
    """
    A connection that a thread has.

    :ivar prepared: the responses that were given with it.
    """

    consumer: Consumer
    prepared: PreparedFetches
    _held: deque[tuple[int, Sequence[FileSlice]]] = field(factory=deque, init=False)
    _given: int = field(default=0, init=False)

    def give(self, records: Sequence[FileSlice]) -> list[tuple[int, int, int]]:
        """Keep the records' files open; returns where they are."""
        self._given += len(records)
        self._held.append((self._given, records))
        return [(part.file.fileno(), part.position, part.length) for part in records]

    def sent(self, count: int) -> None:
        """Responses that are no longer needed, but for the last of them, which may be under way."""
        while self._held[0][0] < count:
            self._held.popleft()


@implementer(IReadDescriptor)
@define(eq=False)
class NativeFetches:
    """The threads in the reactor."""

    _threads: FetchThreads
    _log = Logger()
    _away: dict[int, _Away] = field(factory=dict, init=False)
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
        ticket, away = next(self._tickets), _Away(consumer, prepared)
        self._threads.submit(
            ticket,
            sock,
            prepared.request,
            prepared.epoch_at,
            prepared.offset_at,
            prepared.head,
            prepared.tail,
            prepared.compact,
            away.give(prepared.records),
            prepared.most,
            SECONDS,
            prepared.more is not None,
        )
        self._away[ticket] = away
        return ticket

    def recall(self, ticket: int) -> None:
        """Have a connection given back soon."""
        self._threads.recall(ticket)

    def fileno(self) -> int:
        """The eventfd."""
        return self._threads.fileno()

    def doRead(self) -> None:
        """Take the connections that are given back, and prepare more responses for those that have few left."""
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
            away = self._away.pop(ticket)
            error = OSError(number, os.strerror(number)) if number else None
            answered = AnsweredFetches(requests, offset, bytes_in, bytes_out, size, received, error, counts, seconds)
            try:
                if requests:
                    away.prepared.answered(answered)
                away.consumer.fetches_answered(answered)
            except Exception:
                # The others are given back all the same.
                self._log.failure("a connection whose fetches were answered by a thread failed")
                away.consumer.abortConnection()
        for ticket, used in self._threads.asks(MOST_EXTENDED):
            self._extend(ticket, self._away[ticket], used)

    def _extend(self, ticket: int, away: _Away, used: int) -> None:
        """Without more responses the connection comes back when it has had those that it has."""
        away.sent(used)
        more = away.prepared.more
        try:
            most = ALONE_PREPARED if len(self._away) == 1 else MOST_PREPARED
            if more is not None and (records := more(most)):
                self._threads.extend(ticket, away.give(records))
        except Exception:
            self._log.failure("the responses to a consumer's next fetches cannot be prepared")

    def stop(self) -> None:
        """End the threads, if they have no connection: otherwise the process ends with them."""
        if not self._away:
            self._threads.stop()

    def connectionLost(self, reason: Failure) -> None:
        """The reactor stopped; the connections are not waited for."""

    def logPrefix(self) -> str:
        """For the reactor's log."""
        return "logbus fetch"
