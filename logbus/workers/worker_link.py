"""
The messages between the supervisor and a worker: a JSON object a line, over a socket pair.

The worker sends its log events, and reports that it is ready, or why it fails. It answers pings, and stops on request,
or when the connection closes, since then the supervisor has ended. A ping carries the reasons why clients should not
use the other workers, and its answer the reasons against this one: so each worker can answer readiness probes for the
whole machine.

A worker whose metrics are scraped reports that; the others are asked for theirs, and it receives them part by part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import Factory
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure

LONGEST_LINE = 64 << 20
"""Bytes of a message."""
LONGEST_EVENT = 1 << 20
"""Bytes of an event that is logged."""


class Kind(StrEnum):
    """
    Kinds of messages: those of the supervisor, and those of a worker.

    STOP_ALL asks that all stop; TERMINATED: this worker got a signal to end, as perhaps all processes did.

    Of a scrape: SCRAPED has the number that the worker gives it; COLLECT has the number that the supervisor gives it;
    COLLECTED has that and a part, or nothing after the last part; OTHERS has the worker's number, the index of another
    worker, and what that has told, or only the number at the end.
    """

    PING = "ping"
    STOP = "stop"
    HANGUP = "hangup"
    COLLECT = "collect"
    OTHERS = "others"
    PONG = "pong"
    LOG = "log"
    READY = "ready"
    FAILED = "failed"
    STOP_ALL = "stop all"
    TERMINATED = "terminated"
    SCRAPED = "scraped"
    COLLECTED = "collected"


class WorkerLink(LineOnlyReceiver):
    """
    One end.

    :param received: called with the kind and the text of each message.
    :param lost: called when the other end is gone.
    """

    delimiter = b"\n"
    MAX_LENGTH = LONGEST_LINE

    def __init__(self, received: Callable[[Kind, str], object], lost: Callable[[], object]) -> None:
        self._received = received
        self._lost = lost
        self._ended: Deferred[None] | None = None

    def tell(self, kind: Kind, text: str = "") -> None:
        """Say something, unless the connection is lost."""
        line = json.dumps({"kind": kind, "text": text}).encode()
        if self.transport is not None and self.connected and len(line) <= LONGEST_LINE:
            self.sendLine(line)

    def end(self) -> Deferred[None]:
        """Close the connection; fires when all that was said is sent."""
        if self.transport is None or not self.connected:
            return succeed(None)
        if self._ended is None:
            self._ended = Deferred()
            self.transport.loseConnection()
        return self._ended

    def lineReceived(self, line: bytes) -> None:
        message: Mapping[str, Any] = json.loads(line)
        self._received(Kind(message["kind"]), message["text"])

    def connectionLost(self, reason: Failure | None = None) -> None:
        self._lost()
        if self._ended is not None:
            self._ended.callback(None)


@define(eq=False)
class LinkFactory(Factory):
    """Makes the one protocol of an adopted connection."""

    link: WorkerLink
    noisy = False

    def buildProtocol(self, addr: object) -> WorkerLink:
        return self.link


def adopt(reactor: Any, descriptor: int, family: int, link: WorkerLink) -> None:
    """Have a link use a connected socket, whose descriptor is copied."""
    reactor.adoptStreamConnection(descriptor, family, LinkFactory(link))
