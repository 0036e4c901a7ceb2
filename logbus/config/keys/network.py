"""Keys of listeners, connections, and the limits of requests."""

from __future__ import annotations

from logbus.config import kinds
from logbus.config.keys.declare import CLUSTER, int32, int64, key, optional_text, same, secret
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
    "The addresses that clients use, for each listener by its name.",
    fallbacks=(same(LISTENERS),),
)
LISTENER_SECURITY_PROTOCOL_MAP = key(
    kinds.mapping(SECURITY_PROTOCOLS),
    "listener.security.protocol.map",
    {protocol: protocol for protocol in SECURITY_PROTOCOLS},
    "The security protocol of each listener, as ``NAME:PROTOCOL`` separated by commas.",
)
INTER_BROKER_LISTENER_NAME = optional_text(
    "inter.broker.listener.name",
    "The listener for connections between brokers; by default the first one with ``security.inter.broker.protocol``.",
)
INTER_BROKER_SECRET = secret(
    "inter.broker.secret",
    "A secret of at least 16 characters, the same on all brokers, by which they prove to each other that they are "
    "brokers; by default one that the first broker puts into ZooKeeper.",
)

SOCKET_REQUEST_MAX_BYTES = int32(
    "socket.request.max.bytes",
    100 * 1024 * 1024,
    "Longest request accepted, in bytes; before a client has authenticated, 65536 at most.",
    at_least=1,
)
SOCKET_SEND_BUFFER_BYTES = int32(
    "socket.send.buffer.bytes",
    100 * 1024,
    "Size of the kernel's send buffer for a client, in bytes. A larger one is faster over long distances, but "
    "costs more CPU over short ones; −1: the kernel's default.",
    at_least=-1,
)
SOCKET_RECEIVE_BUFFER_BYTES = int32(
    "socket.receive.buffer.bytes",
    -1,
    "Size of the kernel's receive buffer for a client, in bytes; −1: the kernel adapts it to the connection, which is "
    "faster with large requests and over long distances.",
    at_least=-1,
)
SOCKET_LISTEN_BACKLOG_SIZE = int32(
    "socket.listen.backlog.size",
    50,
    "Length of the kernel's queue of connections that are not accepted yet.",
    at_least=1,
)
QUEUED_MAX_REQUESTS = int32(
    "queued.max.requests",
    100,
    "Unanswered requests of a connection above which the broker stops reading from it.",
    at_least=1,
)
QUEUED_MAX_REQUEST_BYTES = int64(
    "queued.max.request.bytes",
    256 * 1024 * 1024,
    "Maximum bytes of requests in memory, over all connections; −1: no limit. Above it, reading pauses.",
    at_least=-1,
)
MAX_CONNECTIONS = int32(
    "max.connections",
    10_000,
    "Maximum number of connections to the broker, or to one listener.",
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
    "Maximum number of new connections a second, for the broker or for one listener.",
    at_least=0,
    dynamic=CLUSTER,
    per_listener=True,
)
CONNECTION_FLOOD_COUNT = int32(
    "connection.flood.count",
    60_000,
    "New connections within ten minutes from which on a broker tells of a flood of them; 0: never. A key of logbus.",
    at_least=0,
    dynamic=CLUSTER,
)
CONNECTIONS_MAX_IDLE_MS = int64(
    "connections.max.idle.ms",
    600_000,
    "Milliseconds after which an idle connection is closed; at most 10000 before a client has authenticated.",
    at_least=1,
)
REQUEST_TIMEOUT_MS = int32(
    "request.timeout.ms", 30_000, "Milliseconds to wait for a response to a request of the broker.", at_least=1
)
SOCKET_BUSY_POLL_US = int32(
    "socket.busy.poll.us",
    60,
    "Microseconds for which a broker polls before it sleeps, where the requests of a single client have followed each "
    "other as closely; 0: never. Such requests take about half the time, and no more processor time than with sleep; "
    "where others want the processor, or there is only one, the broker sleeps. A key of logbus.",
    at_least=0,
    at_most=1000,
)
FETCH_MAX_BYTES = int32(
    "fetch.max.bytes", 55 * 1024 * 1024, "Maximum bytes of records in a fetch response.", at_least=1024
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = int32(
    "max.incremental.fetch.session.cache.slots", 1000, "Maximum number of fetch sessions (KIP-227).", at_least=0
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_PARTITIONS = int32(
    "max.incremental.fetch.session.cache.partitions",
    100_000,
    "Maximum number of partitions in all fetch sessions, and in all sessions of members of share groups; a consumer's "
    "session may have a tenth. Each takes up to 600 bytes of memory. A client with more partitions fetches without a "
    "session; a member of a share group is refused.",
    at_least=0,
)
MAX_REQUEST_PARTITION_SIZE_LIMIT = int32(
    "max.request.partition.size.limit",
    2000,
    "Maximum number of partitions in a DescribeTopicPartitions response (KIP-966).",
    at_least=1,
)
