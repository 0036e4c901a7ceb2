"""Counters of the network layer: plain integers, read when metrics are collected."""

from __future__ import annotations

from attrs import define


@define
class NetMetrics:
    """
    Counters (they only grow) and gauges of all connections that share this object.

    :ivar connections_open: gauge.
    :ivar connections_accepted: since the start.
    :ivar connections_refused: closed at once because a limit on connections was reached.
    :ivar connections_expired: closed for being idle, or for not completing a frame in time.
    :ivar bytes_in: bytes received, of frames and their prefixes.
    :ivar bytes_out: bytes handed to the kernel (or, on TLS and UNIX sockets, to the transport below).
    :ivar requests: requests handed to the router.
    :ivar requests_pending: gauge: requests whose responses are not ready, or wait for earlier ones.
    :ivar broken_frames: connections closed because framing, header or message could not be read.
    :ivar failures: exceptions from the router or from encoding a response: bugs.
    :ivar throttled_reads: how often reading from a connection was stopped because replies were unsent, too many
        requests were pending or memory for requests was short.
    :ivar cold_reads: how often sending waited for data that was not in the page cache.
    :ivar request_memory: gauge: bytes reserved for frames larger than a connection's first buffer.
    """

    connections_open: int = 0
    connections_accepted: int = 0
    connections_refused: int = 0
    connections_expired: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    requests: int = 0
    requests_pending: int = 0
    broken_frames: int = 0
    failures: int = 0
    throttled_reads: int = 0
    cold_reads: int = 0
    request_memory: int = 0
