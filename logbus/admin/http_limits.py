"""What one client of the admin listener may cost."""

from __future__ import annotations

from attrs import frozen


@frozen
class HttpLimits:
    """
    :ivar body_bytes: longest body of a request.
    :ivar line_bytes: longest line of a request's head.
    :ivar head_bytes: all lines of it together.
    :ivar header_count: headers of one request.
    :ivar request_seconds: from the first byte of a request to its last.
    :ivar idle_seconds: from an answer to the next request, and for a client to take a piece of an answer.
    :ivar answer_seconds: after which a view that has not answered is given up (its work goes on).
    :ivar health_seconds: in which a connection for health checks alone must have been asked and have answered.
    :ivar linger_seconds: how long a refused client may go on sending before the connection is closed under it; closing
        at once would make its system throw away the refusal unread (RFC 9112, 9.6).
    :ivar drain_seconds: how long connections may take to end once the broker stops.
    :ivar connections: open at a time.
    :ivar connections_per_address: of them from one address.
    :ivar health_connections: more than these, for health checks alone.
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
