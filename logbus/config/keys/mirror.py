"""
Keys of the mirrors that a cluster runs, which copy topics of other clusters into it. They are the options of ``logbus
mirror``: what one has, the other has. With several mirrors a key is that of all, and ``mirror.flow.<name>.…`` sets it
for one of them.
"""

from __future__ import annotations

from logbus.config import kinds
from logbus.config.keys.declare import boolean, choice, decimal, int32, int64, key, optional_text, text, texts

_LONGEST = 86400.0
"""Seconds."""

MIRROR_SOURCE_BOOTSTRAP_SERVERS = texts(
    "mirror.source.bootstrap.servers",
    (),
    "Brokers of another cluster, whose topics this one copies, as ``host:port`` with commas between; empty: no mirror "
    "runs. It runs at the controller of the cluster, so give all brokers the same keys. A key of logbus, as all that "
    "begin with ``mirror.``.",
)
MIRROR_SOURCE_NAME = text(
    "mirror.source.name", "source", "What the cluster to read is called: its topic ``orders`` becomes ``ALIAS.orders``."
)
MIRROR_SOURCE_CONFIG = optional_text(
    "mirror.source.config",
    "A file that says how to connect to the cluster to read: ``security.protocol``, ``ssl.*`` and ``sasl.*`` of "
    "Kafka's clients.",
)
MIRROR_TARGET_BOOTSTRAP_SERVERS = texts(
    "mirror.target.bootstrap.servers",
    (),
    "Where the mirror connects to this cluster; empty: to the first listener of this broker.",
)
MIRROR_TARGET_NAME = text(
    "mirror.target.name",
    "target",
    "What the cluster to write to is called: topics that come from there are not sent back.",
)
MIRROR_TARGET_CONFIG = optional_text(
    "mirror.target.config", "The same file as ``mirror.source.config``, for connections to the cluster to write to."
)
MIRROR_TOPICS = key(
    kinds.expressions(),
    "mirror.topics",
    (".*",),
    "Regular expressions of the topics to copy, by their whole names, with commas between.",
)
MIRROR_TOPICS_EXCLUDE = key(
    kinds.expressions(), "mirror.topics.exclude", (), "Regular expressions of topics not to copy; likewise."
)
MIRROR_NAMING = choice(
    "mirror.naming", "prefix", ("prefix", "identity"), "Whether copies are named ``ALIAS.orders``, or ``orders``."
)
MIRROR_GROUPS = key(
    kinds.expressions(),
    "mirror.groups",
    (),
    "Regular expressions of the groups whose offsets are translated; by default all but those of console consumers "
    "and Kafka Connect.",
)
MIRROR_GROUPS_EXCLUDE = key(
    kinds.expressions(), "mirror.groups.exclude", (), "Regular expressions of groups to leave alone; likewise."
)
MIRROR_SYNC_GROUPS = boolean(
    "mirror.sync.groups",
    False,
    "Commit translated offsets for groups that have no members in the cluster to write to.",
)
MIRROR_SYNC_SETTINGS = boolean("mirror.sync.settings", True, "Copy changes of topics' settings.")
MIRROR_SYNC_ACLS = boolean(
    "mirror.sync.acls",
    False,
    "Give the rights on topics also on their copies; that to write only if copies keep their names.",
)
MIRROR_START = choice(
    "mirror.start",
    "earliest",
    ("earliest", "latest"),
    "Where to begin in a partition of which nothing was copied yet.",
)
MIRROR_ON_RECREATED = choice(
    "mirror.on.recreated",
    "stop",
    ("stop", "continue"),
    "Whether a topic that was deleted and created anew is left alone, or copied behind its old records.",
)
MIRROR_ON_TOO_LARGE = choice(
    "mirror.on.too.large",
    "stop",
    ("stop", "skip"),
    "Whether a record that is larger than the target takes stops its partition, or is left out.",
)
MIRROR_REPLICATION_FACTOR = int32(
    "mirror.replication.factor",
    0,
    "Replicas of topics that are created; 0: as many as they have at the source, if there are so many brokers.",
    at_least=0,
    at_most=32767,
)
MIRROR_RATE = int64("mirror.rate", 0, "Copy at most so many bytes per second; 0: as many as possible.", at_least=0)
MIRROR_INTERVAL_SECONDS = decimal(
    "mirror.interval.seconds",
    1.0,
    "Seconds that a transaction may collect records: how late they may be.",
    at_least=0.01,
    at_most=_LONGEST,
)
MIRROR_REFRESH_INTERVAL_SECONDS = decimal(
    "mirror.refresh.interval.seconds",
    30.0,
    "Seconds after which new topics, partitions and settings are looked for.",
    at_least=0.1,
    at_most=_LONGEST,
)
MIRROR_CHECKPOINT_INTERVAL_SECONDS = decimal(
    "mirror.checkpoint.interval.seconds",
    10.0,
    "Seconds between translations of groups' offsets; 0: none.",
    at_least=0,
    at_most=_LONGEST,
)
MIRROR_HEARTBEAT_INTERVAL_SECONDS = decimal(
    "mirror.heartbeat.interval.seconds", 5.0, "Seconds between heartbeats; 0: none.", at_least=0, at_most=_LONGEST
)
MIRROR_TIMEOUT_SECONDS = decimal(
    "mirror.timeout.seconds", 30.0, "Seconds to wait for a response.", at_least=0.001, at_most=_LONGEST
)
