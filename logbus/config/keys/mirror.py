"""Keys of the mirror that a broker runs, which copies topics of another cluster into its own."""

from __future__ import annotations

from logbus.config.keys.declare import boolean, choice, int64, optional_text, text, texts

MIRROR_SOURCE_BOOTSTRAP_SERVERS = texts(
    "mirror.source.bootstrap.servers",
    (),
    "Brokers of another cluster, whose topics this one copies, as ``host:port`` with commas between; empty: no mirror "
    "runs. It runs at the controller of the cluster, so give all brokers the same keys. A key of logbus, as all that "
    "begin with ``mirror.``; they are those of ``logbus mirror``.",
)
MIRROR_SOURCE_NAME = text(
    "mirror.source.name", "source", "What the other cluster is called: its topic ``orders`` becomes ``NAME.orders``."
)
MIRROR_SOURCE_CONFIG = optional_text(
    "mirror.source.config",
    "A file with the properties of Kafka's clients that say how to connect to the other cluster: "
    "``security.protocol``, ``ssl.…`` and ``sasl.…``.",
)
MIRROR_TARGET_NAME = text(
    "mirror.target.name", "target", "What this cluster is called: topics that come from here are not copied back."
)
MIRROR_TARGET_CONFIG = optional_text(
    "mirror.target.config", "The same file as ``mirror.source.config``, for connections to this cluster."
)
MIRROR_TARGET_BOOTSTRAP_SERVERS = texts(
    "mirror.target.bootstrap.servers",
    (),
    "Where the mirror connects to this cluster; empty: to the first listener of this broker.",
)
MIRROR_TOPICS = texts(
    "mirror.topics", (".*",), "Regular expressions of the topics to copy, by their whole names, with commas between."
)
MIRROR_TOPICS_EXCLUDE = texts("mirror.topics.exclude", (), "The same of topics not to copy.")
MIRROR_NAMING = choice(
    "mirror.naming", "prefix", ("prefix", "identity"), "Whether copies are named ``NAME.orders``, or ``orders``."
)
MIRROR_START = choice(
    "mirror.start",
    "earliest",
    ("earliest", "latest"),
    "Where to begin in a partition of which nothing was copied yet.",
)
MIRROR_ON_TOO_LARGE = choice(
    "mirror.on.too.large",
    "stop",
    ("stop", "skip"),
    "Whether a record that is larger than this cluster takes stops its partition, or is left out.",
)
MIRROR_SYNC_GROUPS = boolean(
    "mirror.sync.groups", False, "Whether translated offsets are committed here for groups that have no members."
)
MIRROR_RATE = int64("mirror.rate", 0, "Copy at most so many bytes per second; 0: as many as possible.", at_least=0)
