"""Limits on what clients of the admin listener can use."""

from __future__ import annotations

from attrs import frozen


@frozen
class HttpLimits:
    """
    Limits of an admin listener.

    :ivar body_bytes: longest body of a request.
    :ivar line_bytes: longest line of a request's head.
    :ivar head_bytes: length of a request's head.
    :ivar header_count: headers of one request.
    :ivar request_seconds: time from the first byte of a request to its last.
    :ivar idle_seconds: time from an answer to the next request, and for a client to read a piece of an answer.
    :ivar answer_seconds: time until the client gets an error if a view has not answered (its work continues).
    :ivar health_seconds: lifetime of a connection admitted for health checks only.
    :ivar linger_seconds: time that a refused client may continue to send before its connection is closed; closing at
        once would make its system discard the answer unread (RFC 9112, 9.6).
    :ivar drain_seconds: time for connections to end when the broker stops.
    :ivar connections: open connections.
    :ivar connections_per_address: open connections from one address.
    :ivar health_connections: additional connections for health checks only.
    """

    body_bytes: int = 65_536
    line_bytes: int = 8_192
    head_bytes: int = 16_384
    header_count: int = 64
    request_seconds: float = 30.0
    idle_seconds: float = 60.0
    answer_seconds: float = 60.0
    health_seconds: float = 5.0
    linger_seconds: float = 2.0
    drain_seconds: float = 5.0
    connections: int = 128
    connections_per_address: int = 96
    health_connections: int = 16
