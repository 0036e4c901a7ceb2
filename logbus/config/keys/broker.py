"""Keys of a broker's identity, its metadata store, and its controlled shutdown."""

from __future__ import annotations

from logbus.config import kinds
from logbus.config.config_key import Fallback
from logbus.config.keys.declare import boolean, int32, int64, key, optional_text, same, secret, text

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

AUTO_LEADER_REBALANCE_ENABLE = boolean(
    "auto.leader.rebalance.enable", True, "Whether the controller hands leadership back to preferred replicas."
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS = int64(
    "leader.imbalance.check.interval.seconds",
    300,
    "Seconds between two looks of the controller at how leadership is spread.",
    at_least=1,
)
LEADER_IMBALANCE_PER_BROKER_PERCENTAGE = int32(
    "leader.imbalance.per.broker.percentage",
    10,
    "Percentage of a broker's partitions led elsewhere than by their preferred replica before they are handed back.",
    at_least=0,
    at_most=100,
)
CONTROLLED_SHUTDOWN_ENABLE = boolean(
    "controlled.shutdown.enable", True, "Whether a broker hands its leaderships over before it stops."
)
CONTROLLED_SHUTDOWN_MAX_RETRIES = int32(
    "controlled.shutdown.max.retries",
    3,
    "How often handing over is tried again before the broker just stops.",
    at_least=0,
)
CONTROLLED_SHUTDOWN_RETRY_BACKOFF_MS = int64(
    "controlled.shutdown.retry.backoff.ms", 5000, "Milliseconds between two tries of handing over.", at_least=0
)

ZOOKEEPER_CONNECT = optional_text(
    "zookeeper.connect",
    "ZooKeeper servers and chroot, as in ``zk1:2181,zk2:2181/logbus``; when absent, metadata lives in an embedded "
    "store in the first log directory, for a single broker.",
)
ZOOKEEPER_SESSION_TIMEOUT_MS = int32(
    "zookeeper.session.timeout.ms",
    18_000,
    "Milliseconds without a sign of life after which ZooKeeper declares a broker gone.",
    at_least=1,
)
ZOOKEEPER_CONNECTION_TIMEOUT_MS = int32(
    "zookeeper.connection.timeout.ms",
    18_000,
    "Milliseconds without a connection to ZooKeeper after which the log says so again; a broker goes on waiting.",
    at_least=1,
    fallbacks=(same(ZOOKEEPER_SESSION_TIMEOUT_MS),),
)
ZOOKEEPER_MAX_IN_FLIGHT_REQUESTS = int32(
    "zookeeper.max.in.flight.requests", 200, "Most requests to ZooKeeper that await an answer at a time.", at_least=1
)
ZOOKEEPER_SET_ACL = boolean(
    "zookeeper.set.acl", False, "Whether the nodes a broker makes in ZooKeeper are writable by the broker's user only."
)
ZOOKEEPER_SSL_CLIENT_ENABLE = boolean("zookeeper.ssl.client.enable", False, "Whether to speak TLS to ZooKeeper.")
ZOOKEEPER_SSL_KEYSTORE_LOCATION = optional_text(
    "zookeeper.ssl.keystore.location", "PEM file with the certificate and key shown to ZooKeeper."
)
ZOOKEEPER_SSL_KEYSTORE_PASSWORD = secret("zookeeper.ssl.keystore.password", "Password of the key shown to ZooKeeper.")
ZOOKEEPER_SSL_TRUSTSTORE_LOCATION = optional_text(
    "zookeeper.ssl.truststore.location", "PEM file of the authorities that ZooKeeper's certificate is checked against."
)
ZOOKEEPER_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = text(
    "zookeeper.ssl.endpoint.identification.algorithm",
    "HTTPS",
    "``HTTPS`` checks that ZooKeeper's certificate names the host connected to; empty does not.",
)
