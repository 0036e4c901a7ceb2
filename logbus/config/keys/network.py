"""Keys of listeners, connections, and the limits of requests."""

from __future__ import annotations

from logbus.config import kinds
from logbus.config.keys.declare import CLUSTER, int32, int64, key, optional_text, same
from logbus.config.kinds import INT_MAX
from logbus.config.listener_address import ListenerAddress, listener_list

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

LISTENERS = key(
    listener_list(),
    "listeners",
    (ListenerAddress("PLAINTEXT", "127.0.0.1", 9092),),
    "Where the broker listens, as ``NAME://host:port`` with commas between; an empty host is every interface, port 0 "
    "a free one.",
)
ADVERTISED_LISTENERS = key(
    listener_list(),
    "advertised.listeners",
    (ListenerAddress("PLAINTEXT", "127.0.0.1", 9092),),
    "What clients are told to connect to, for each listener by its name.",
    fallbacks=(same(LISTENERS),),
)
LISTENER_SECURITY_PROTOCOL_MAP = key(
    kinds.mapping(SECURITY_PROTOCOLS),
    "listener.security.protocol.map",
    {protocol: protocol for protocol in SECURITY_PROTOCOLS},
    "Which security protocol each listener name speaks, as ``NAME:PROTOCOL`` with commas between.",
)
INTER_BROKER_LISTENER_NAME = optional_text(
    "inter.broker.listener.name",
    "The listener that brokers use among themselves; when absent, the first one of ``security.inter.broker.protocol``.",
)

SOCKET_REQUEST_MAX_BYTES = int32(
    "socket.request.max.bytes",
    100 * 1024 * 1024,
    "Longest request accepted, in bytes; before a client has authenticated, 65536 at most.",
    at_least=1,
)
SOCKET_SEND_BUFFER_BYTES = int32(
    "socket.send.buffer.bytes",
    256 * 1024,
    "Bytes that the kernel holds on their way to a client. More carries further over a long way, but costs more CPU "
    "over a short one; −1 lets the kernel decide.",
    at_least=-1,
)
SOCKET_LISTEN_BACKLOG_SIZE = int32(
    "socket.listen.backlog.size", 50, "Connections the system holds ready while the broker accepts others.", at_least=1
)
QUEUED_MAX_REQUESTS = int32(
    "queued.max.requests",
    100,
    "Requests of one connection that may wait for their answers before the broker stops reading from it.",
    at_least=1,
)
QUEUED_MAX_REQUEST_BYTES = int64(
    "queued.max.request.bytes",
    256 * 1024 * 1024,
    "Bytes of requests that all connections together may hold in memory; −1: no limit. When they are used up, reading "
    "pauses.",
    at_least=-1,
)
MAX_CONNECTIONS = int32(
    "max.connections",
    10_000,
    "Most connections to the broker, or to one listener.",
    at_least=0,
    dynamic=CLUSTER,
    per_listener=True,
)
MAX_CONNECTIONS_PER_IP = int32(
    "max.connections.per.ip", INT_MAX, "Most connections from one address.", at_least=0, dynamic=CLUSTER
)
MAX_CONNECTIONS_PER_IP_OVERRIDES = key(
    kinds.mapping(whole_numbers=True),
    "max.connections.per.ip.overrides",
    {},
    "Exceptions to ``max.connections.per.ip``, as ``address:number`` with commas between.",
    dynamic=CLUSTER,
)
MAX_CONNECTION_CREATION_RATE = int32(
    "max.connection.creation.rate",
    INT_MAX,
    "Most new connections a second, for the broker or for one listener.",
    at_least=0,
    dynamic=CLUSTER,
    per_listener=True,
)
CONNECTIONS_MAX_IDLE_MS = int64(
    "connections.max.idle.ms",
    600_000,
    "Milliseconds of silence after which a connection is closed; before a client has authenticated, 10000 at most.",
    at_least=1,
)
REQUEST_TIMEOUT_MS = int32(
    "request.timeout.ms", 30_000, "Milliseconds to wait for an answer to a request the broker sent.", at_least=1
)
FETCH_MAX_BYTES = int32(
    "fetch.max.bytes", 55 * 1024 * 1024, "Most bytes of records in one answer to a fetch.", at_least=1024
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = int32(
    "max.incremental.fetch.session.cache.slots", 1000, "Fetch sessions kept at a time (KIP-227).", at_least=0
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_PARTITIONS = int32(
    "max.incremental.fetch.session.cache.partitions",
    100_000,
    "Most partitions that all fetch sessions remember together, and ten times what a consumer's session may remember. "
    "Each takes up to 600 bytes of memory. A client that wants more fetches without a session.",
    at_least=0,
)
MAX_REQUEST_PARTITION_SIZE_LIMIT = int32(
    "max.request.partition.size.limit",
    2000,
    "Most partitions in one answer to DescribeTopicPartitions (KIP-966).",
    at_least=1,
)
