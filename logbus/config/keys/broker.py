"""Keys of a broker's identity, its metadata store, and its controlled shutdown."""

from __future__ import annotations

from logbus.config import kinds
from logbus.config.config_key import Fallback
from logbus.config.keys.declare import boolean, int32, int64, key, optional_text, same, secret, text, texts

NODE_ID = int32("node.id", 0, "Another name for ``broker.id``.", at_least=0)
BROKER_ID = int32(
    "broker.id",
    0,
    "The broker's number, unique in its cluster and kept for the life of its data directory.",
    at_least=0,
    fallbacks=(same(NODE_ID),),
)
BROKER_RACK = optional_text("broker.rack", "The rack (or zone) of this broker; replicas are spread over racks.")

LOG_DIR = text("log.dir", "logbus-data", "One directory for the logs; ``log.dirs`` names several.")
LOG_DIRS = key(
    kinds.listed(empty=False),
    "log.dirs",
    ("logbus-data",),
    "Directories for the logs, each partition in one of them; the first also holds the embedded metadata store.",
    fallbacks=(Fallback(LOG_DIR, lambda path: (path,)),),
)

WORKERS = key(
    kinds.count_or_auto(),
    "workers",
    1,
    "The processes that serve, each as a broker of its own, with the numbers from ``broker.id`` on; ``auto``: one for "
    "each processor that this process may use. More than one need Linux.",
)

WORKERS_FIRST_PORT = int32(
    "workers.first.port",
    -1,
    "The first of the workers' own ports for Kafka clients; the others follow. −1: they follow the shared port, or are "
    "any free ones if that is; 0: any free ports.",
    at_least=-1,
    at_most=65535,
)

WORKERS_ANSWER_TIMEOUT_MS = int32(
    "workers.answer.timeout.ms",
    30_000,
    "Milliseconds without an answer after which a worker is killed and started again.",
    at_least=3000,
)

AUTO_LEADER_REBALANCE_ENABLE = boolean(
    "auto.leader.rebalance.enable", True, "Whether the controller returns leadership to preferred replicas."
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS = int64(
    "leader.imbalance.check.interval.seconds",
    300,
    "Seconds between two checks of the leader imbalance by the controller.",
    at_least=1,
)
LEADER_IMBALANCE_PER_BROKER_PERCENTAGE = int32(
    "leader.imbalance.per.broker.percentage",
    10,
    "Percentage of a broker's partitions not led by their preferred replica above which leadership is returned.",
    at_least=0,
    at_most=100,
)
CONTROLLED_SHUTDOWN_ENABLE = boolean(
    "controlled.shutdown.enable", True, "Whether a broker moves its leaderships to other brokers before it stops."
)
CONTROLLED_SHUTDOWN_MAX_RETRIES = int32(
    "controlled.shutdown.max.retries",
    3,
    "Retries of the controlled shutdown before the broker stops without it.",
    at_least=0,
)
CONTROLLED_SHUTDOWN_RETRY_BACKOFF_MS = int64(
    "controlled.shutdown.retry.backoff.ms",
    5000,
    "Milliseconds between two attempts of the controlled shutdown.",
    at_least=0,
)

ZOOKEEPER_CONNECT = optional_text(
    "zookeeper.connect",
    "ZooKeeper servers and chroot, as in ``zk1:2181,zk2:2181/logbus``; when absent, metadata lives in an embedded "
    "store in the first log directory, for a single broker.",
)
ZOOKEEPER_SESSION_TIMEOUT_MS = int32(
    "zookeeper.session.timeout.ms",
    18_000,
    "Milliseconds without a heartbeat after which ZooKeeper ends a broker's session.",
    at_least=1,
)
ZOOKEEPER_CONNECTION_TIMEOUT_MS = int32(
    "zookeeper.connection.timeout.ms",
    18_000,
    "Milliseconds without a connection to ZooKeeper between warnings in the log; the broker keeps waiting.",
    at_least=1,
    fallbacks=(same(ZOOKEEPER_SESSION_TIMEOUT_MS),),
)
ZOOKEEPER_MAX_IN_FLIGHT_REQUESTS = int32(
    "zookeeper.max.in.flight.requests", 200, "Maximum number of requests to ZooKeeper in flight.", at_least=1
)
ZOOKEEPER_SET_ACL = boolean(
    "zookeeper.set.acl",
    False,
    "Whether only clients with the broker's credentials may change the nodes that it creates in ZooKeeper, and read "
    "those with secrets. Needs ``zookeeper.digest.username`` or a client certificate.",
)
ZOOKEEPER_DIGEST_USERNAME = optional_text(
    "zookeeper.digest.username",
    "User with which the broker proves itself to ZooKeeper (scheme ``digest``); the same on all brokers.",
)
ZOOKEEPER_DIGEST_PASSWORD = secret(
    "zookeeper.digest.password",
    "Password of ``zookeeper.digest.username``. Without TLS it goes over the network in clear.",
)
ZOOKEEPER_SSL_CLIENT_ENABLE = boolean("zookeeper.ssl.client.enable", False, "Whether to speak TLS to ZooKeeper.")
ZOOKEEPER_SSL_KEYSTORE_LOCATION = optional_text(
    "zookeeper.ssl.keystore.location",
    "File with the private key and certificate by which ZooKeeper knows the broker (scheme ``x509``).",
)
ZOOKEEPER_SSL_KEYSTORE_PASSWORD = secret(
    "zookeeper.ssl.keystore.password", "Password of ``zookeeper.ssl.keystore.location``, and of the key in it."
)
ZOOKEEPER_SSL_KEYSTORE_TYPE = key(
    kinds.optional(kinds.one_of("PEM", "PKCS12")),
    "zookeeper.ssl.keystore.type",
    None,
    "Format of ``zookeeper.ssl.keystore.location``: ``PEM`` or ``PKCS12``; when empty, files named ``.p12`` or "
    "``.pfx`` are PKCS12, others PEM.",
)
ZOOKEEPER_SSL_TRUSTSTORE_LOCATION = optional_text(
    "zookeeper.ssl.truststore.location",
    "File with the CA certificates that verify ZooKeeper's certificate; when empty, those of the system.",
)
ZOOKEEPER_SSL_TRUSTSTORE_PASSWORD = secret(
    "zookeeper.ssl.truststore.password", "Password of ``zookeeper.ssl.truststore.location``, if it is PKCS12."
)
ZOOKEEPER_SSL_TRUSTSTORE_TYPE = key(
    kinds.optional(kinds.one_of("PEM", "PKCS12")),
    "zookeeper.ssl.truststore.type",
    None,
    "Format of ``zookeeper.ssl.truststore.location``, as in ``zookeeper.ssl.keystore.type``.",
)
ZOOKEEPER_SSL_ENABLED_PROTOCOLS = texts(
    "zookeeper.ssl.enabled.protocols",
    ("TLSv1.2", "TLSv1.3"),
    "TLS versions spoken with ZooKeeper.",
    choices=("TLSv1.2", "TLSv1.3"),
    empty=False,
)
ZOOKEEPER_SSL_CIPHER_SUITES = texts(
    "zookeeper.ssl.cipher.suites",
    (),
    "Cipher suites spoken with ZooKeeper, by their names in RFCs or OpenSSL; when empty, all with forward secrecy but "
    "those with CBC. Those of TLS 1.3 cannot be chosen one by one.",
)
ZOOKEEPER_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = text(
    "zookeeper.ssl.endpoint.identification.algorithm",
    "HTTPS",
    "``HTTPS`` checks that ZooKeeper's certificate names the host connected to; empty does not.",
)
