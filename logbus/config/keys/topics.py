"""Keys of topic creation, and of topics' defaults other than storage."""

from __future__ import annotations

from logbus.config import kinds
from logbus.config.keys.declare import CLUSTER, TOPIC_ONLY, boolean, choice, int16, int32, key

AUTO_CREATE_TOPICS_ENABLE = boolean(
    "auto.create.topics.enable", True, "Whether a topic is created when a client requests its metadata."
)
DELETE_TOPIC_ENABLE = boolean("delete.topic.enable", True, "Whether topics can be deleted.")
MAX_TOPICS = int32(
    "max.topics",
    10_000,
    "Maximum number of topics of a cluster, without internal ones. Requests to create more, also automatically, "
    "are refused with POLICY_VIOLATION.",
    at_least=0,
    dynamic=CLUSTER,
)
MAX_PARTITIONS_PER_BROKER = int32(
    "max.partitions.per.broker",
    20_000,
    "Maximum number of partition replicas of a cluster per live broker, without those of internal topics. "
    "Requests for more are refused with POLICY_VIOLATION.",
    at_least=0,
    dynamic=CLUSTER,
)
NUM_PARTITIONS = int32("num.partitions", 1, "Partitions of a topic that is created without their number.", at_least=1)
DEFAULT_REPLICATION_FACTOR = int16(
    "default.replication.factor", 1, "Replicas of a topic that is created without their number.", at_least=1
)

MESSAGE_MAX_BYTES = int32(
    "message.max.bytes",
    1_048_588,
    "Maximum size of a record batch, in bytes as sent (compressed).",
    at_least=0,
    topic="max.message.bytes",
    dynamic=CLUSTER,
)
COMPRESSION_TYPE = choice(
    "compression.type",
    "producer",
    ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    "Compression of stored batches; ``producer`` keeps the producer's.",
    topic="compression.type",
    dynamic=CLUSTER,
)
COMPRESSION_GZIP_LEVEL = key(
    kinds.number_or(kinds.integer(kinds.ConfigType.INT, 1, 9), -1),
    "compression.gzip.level",
    -1,
    "Level (1 to 9, −1: the codec's own) when ``compression.type`` is gzip.",
    topic="compression.gzip.level",
    dynamic=CLUSTER,
)
COMPRESSION_LZ4_LEVEL = int32(
    "compression.lz4.level",
    9,
    "Level (1 to 17) when ``compression.type`` is lz4.",
    at_least=1,
    at_most=17,
    topic="compression.lz4.level",
    dynamic=CLUSTER,
)
COMPRESSION_ZSTD_LEVEL = int32(
    "compression.zstd.level",
    3,
    "Level (−131072 to 22) when ``compression.type`` is zstd.",
    at_least=-131_072,
    at_most=22,
    topic="compression.zstd.level",
    dynamic=CLUSTER,
)
MIN_INSYNC_REPLICAS = int32(
    "min.insync.replicas",
    1,
    "Minimum of in-sync replicas; with fewer, acks=all is refused and the high watermark does not advance.",
    at_least=1,
    topic="min.insync.replicas",
    dynamic=CLUSTER,
)
UNCLEAN_LEADER_ELECTION_ENABLE = boolean(
    "unclean.leader.election.enable",
    False,
    "Whether an out-of-sync replica may become the leader if no other can, with the loss of acknowledged records.",
    topic="unclean.leader.election.enable",
    dynamic=CLUSTER,
)
LEADER_REPLICATION_THROTTLED_REPLICAS = key(
    kinds.throttled_replicas(),
    "leader.replication.throttled.replicas",
    (),
    "Replicas, as ``partition:broker`` or ``*``, whose leader is throttled to ``leader.replication.throttled.rate``.",
    topic="leader.replication.throttled.replicas",
    scope=TOPIC_ONLY,
    dynamic=CLUSTER,
)
FOLLOWER_REPLICATION_THROTTLED_REPLICAS = key(
    kinds.throttled_replicas(),
    "follower.replication.throttled.replicas",
    (),
    "Replicas, as ``partition:broker`` or ``*``, whose fetches are throttled to "
    "``follower.replication.throttled.rate``.",
    topic="follower.replication.throttled.replicas",
    scope=TOPIC_ONLY,
    dynamic=CLUSTER,
)
