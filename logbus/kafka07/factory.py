"""The connections of a listener, and the limits that they share."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from logbus.addresses import unmapped_address
from logbus.coroutines import returns_deferred
from logbus.ilogbus import IBroker, Listener
from logbus.kafka07.protocol import KafkaSevenProtocol
from logbus.kafka07.service import MAX_RESPONSE, KafkaSevenService
from logbus.net.connection_limits import WarningLimiter

MOST_CONNECTIONS = 1000

MOST_HELD = 128 * 1024 * 1024
"""Bytes of memory of requests that are not complete, over all connections of a listener."""

MOST_UNSENT = 256 * 1024 * 1024
"""Bytes of responses that are made ahead of clients that do not read, over all connections; near it, each gets less."""

LEAST_RESPONSE = 1024 * 1024
"""Bytes that a response may have in any case."""


@define(eq=False)
class KafkaSevenFactory(Factory):
    """Makes the connections of one listener."""

    broker: IBroker
    listener: Listener
    service: KafkaSevenService
    clock: Any
    most_connections: int = MOST_CONNECTIONS
    noisy = False
    _warnings: WarningLimiter = field(init=False)
    _open: set[KafkaSevenProtocol] = field(factory=set, init=False)
    _held: int = field(default=0, init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        self._warnings = WarningLimiter(self.clock.seconds)

    def buildProtocol(self, addr: Any) -> KafkaSevenProtocol | None:
        """Admit a connection, or close it because there are too many."""
        host, port = unmapped_address(getattr(addr, "host", "")), getattr(addr, "port", 0)
        peer = f"{host}:{port}" if host else "a UNIX socket"
        if len(self._open) >= self.most_connections:
            self.warn(host, peer, f"there are {self.most_connections} connections, and may be no more")
            return None
        protocol = KafkaSevenProtocol(self, self.broker.client(self.listener, host, port), peer)
        self._open.add(protocol)
        return protocol

    def closed(self, protocol: KafkaSevenProtocol) -> None:
        """Remove a closed connection."""
        self._open.discard(protocol)
        self.hold(protocol, 0)

    def warn(self, host: str, peer: str, problem: str) -> None:
        """Log a line about a client, one a second for each address."""
        suppressed = self._warnings.admit(host)
        if suppressed is not None:
            more = f" ({suppressed} more lines suppressed)" if suppressed else ""
            self._log.warn(
                "{peer} on listener {listener} (Kafka 0.7): {problem}; closing{more}",
                peer=peer, listener=self.listener.name, problem=problem, more=more,
            )  # fmt: skip

    # -- Memory

    def hold(self, protocol: KafkaSevenProtocol, size: int) -> None:
        """Count the memory of a connection's requests."""
        self._held += size - protocol.held
        protocol.held = size

    @property
    def is_full(self) -> bool:
        """Whether there is no memory for requests that are not complete."""
        return self._held > MOST_HELD

    @property
    def room(self) -> int:
        """Bytes that the next response may have, about."""
        unsent = sum(protocol.unsent for protocol in self._open)
        return min(MAX_RESPONSE, max(LEAST_RESPONSE, (MOST_UNSENT - unsent) // 4))

    # -- The end

    def drain(self) -> Deferred[None]:
        """The broker stops: requests that were read are served, then the connections close."""
        return self._drain()

    @returns_deferred
    async def _drain(self) -> None:
        for protocol in list(self._open):
            if protocol.serving is not None:
                await protocol.serving
            protocol.close()
        self.service.logs.close()
