"""Counters of the network layer: plain integers, read when metrics are collected."""

from __future__ import annotations

from attrs import define

from logbus.metrics import metric


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
    :ivar requests_in_threads: those of them that threads answered.
    :ivar requests_pending: gauge: requests whose responses are not ready, or wait for earlier ones.
    :ivar broken_frames: connections closed because framing, header or message could not be read.
    :ivar failures: exceptions from the router or from encoding a response: bugs.
    :ivar throttled_reads: how often reading from a connection was stopped because replies were unsent, too many
        requests were pending or memory for requests was short.
    :ivar cold_reads: how often sending waited for data that was not in the page cache.
    :ivar authentications: clients that logged in.
    :ivar authentication_failures: connections closed because the client could not log in.
    :ivar reauthentications: how often clients logged in again on a connection (KIP-368).
    :ivar reauthentication_failures: connections closed because the client could not.
    :ivar sessions_expired: connections closed because the client did not log in again in time.
    :ivar request_memory: gauge: bytes reserved for frames larger than a connection's first buffer.
    """

    connections_open: int = metric("logbus_connections_open", "Connections of Kafka clients.")
    connections_accepted: int = metric("logbus_connections_accepted_total", "Connections served.")
    connections_refused: int = metric(
        "logbus_connections_refused_total", "Connections closed because there were too many."
    )
    connections_expired: int = metric(
        "logbus_connections_expired_total", "Connections closed for being idle, or slow to complete a frame."
    )
    bytes_in: int = metric("logbus_received_bytes_total", "Bytes received from Kafka clients.")
    bytes_out: int = metric("logbus_sent_bytes_total", "Bytes sent to Kafka clients.")
    requests: int = 0
    requests_in_threads: int = metric(
        "logbus_requests_answered_in_threads_total", "Fetches of consumers that read on, answered by threads."
    )
    requests_pending: int = metric("logbus_requests_pending", "Requests whose answers are not ready.")
    broken_frames: int = metric("logbus_broken_frames_total", "Connections closed because of undecodable requests.")
    failures: int = metric("logbus_request_failures_total", "Requests that failed because of a bug in the broker.")
    throttled_reads: int = metric(
        "logbus_throttled_reads_total", "Pauses of reading because of too many pending responses, requests or bytes."
    )
    cold_reads: int = metric(
        "logbus_cold_reads_total", "Responses that waited for data that was not in the page cache."
    )
    authentications: int = metric("logbus_successful_authentications_total", "Logins of clients by SASL.")
    authentication_failures: int = metric(
        "logbus_failed_authentications_total", "Connections closed because the client could not log in."
    )
    reauthentications: int = metric(
        "logbus_successful_reauthentications_total", "Logins of clients on connections that had logged in before."
    )
    reauthentication_failures: int = metric(
        "logbus_failed_reauthentications_total", "Connections closed because the client could not log in again."
    )
    sessions_expired: int = metric(
        "logbus_expired_sessions_total", "Connections closed because the client did not log in again in time."
    )
    request_memory: int = metric("logbus_request_memory_bytes", "Memory reserved for large requests.")
