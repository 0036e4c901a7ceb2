"""Keys of tiered storage (KIP-405)."""

from __future__ import annotations

from logbus.config.config_key import ConfigKey
from logbus.config.keys.declare import CLUSTER, TOPIC_ONLY, boolean, int16, int32, int64, key, optional_text
from logbus.config.kinds import json_object, optional

REMOTE_LOG_STORAGE_SYSTEM_ENABLE = boolean(
    "remote.log.storage.system.enable",
    False,
    "Whether topics may keep their older segments in remote storage; see ``remote.storage.enable`` of topics.",
)
REMOTE_LOG_STORAGE_URI = optional_text(
    "remote.log.storage.uri",
    "Where remote segments are, the same for all brokers: ``s3://bucket/path``, ``gs://bucket/path``, or "
    "``file:///path`` on a file system that all brokers share. A key of logbus.",
)
REMOTE_LOG_STORAGE_OPTIONS: ConfigKey[dict[str, object] | None] = key(
    optional(json_object()),
    "remote.log.storage.options",
    None,
    "Options of the store, as fsspec takes them (``storage_options``): a JSON object, such as "
    '``{"endpoint_url": "https://s3.example.com", "key": "...", "secret": "..."}``. A key of logbus.',
    sensitive=True,
)
REMOTE_LOG_MANAGER_TASK_INTERVAL_MS = int64(
    "remote.log.manager.task.interval.ms",
    30_000,
    "Milliseconds between two looks for segments to copy to remote storage, or to delete there.",
    at_least=1,
)
REMOTE_LOG_MANAGER_THREAD_POOL_SIZE = int32(
    "remote.log.manager.thread.pool.size",
    2,
    "Threads that copy segments to remote storage, and delete them.",
    at_least=1,
)
REMOTE_LOG_MANAGER_COPY_MAX_BYTES_PER_SECOND = int64(
    "remote.log.manager.copy.max.bytes.per.second",
    2**63 - 1,
    "Bytes a second that this broker copies to remote storage.",
    at_least=1,
    dynamic=CLUSTER,
)
REMOTE_LOG_READER_THREADS = int32("remote.log.reader.threads", 10, "Threads that read from remote storage.", at_least=1)
REMOTE_LOG_READER_CACHE_BYTES = int64(
    "remote.log.reader.cache.bytes",
    128 * 1024 * 1024,
    "Memory for what was read from remote storage, and read ahead, in bytes. A key of logbus.",
    at_least=8 * 1024 * 1024,
)
REMOTE_FETCH_MAX_WAIT_MS = int32(
    "remote.fetch.max.wait.ms",
    500,
    "Milliseconds that a fetch waits for remote storage, before it is answered without its records; they are read on "
    "meanwhile.",
    at_least=1,
    dynamic=CLUSTER,
)
REMOTE_LOG_METADATA_TOPIC_NUM_PARTITIONS = int32(
    "remote.log.metadata.topic.num.partitions",
    50,
    "Partitions of the internal topic ``__remote_log_metadata``; read when it is created.",
    at_least=1,
)
REMOTE_LOG_METADATA_TOPIC_REPLICATION_FACTOR = int16(
    "remote.log.metadata.topic.replication.factor",
    3,
    "Replicas of that topic, or one on each broker if there are fewer; read when it is created.",
    at_least=1,
)

REMOTE_STORAGE_ENABLE = boolean(
    "remote.storage.enable",
    False,
    "Whether closed segments are copied to remote storage, and deleted locally by ``local.retention.ms`` and "
    "``local.retention.bytes``. Not for compacted topics. It can be turned off again only together with "
    "``remote.log.delete.on.disable``.",
    topic="remote.storage.enable",
    scope=TOPIC_ONLY,
    dynamic=CLUSTER,
)
LOG_LOCAL_RETENTION_MS = int64(
    "log.local.retention.ms",
    -2,
    "Milliseconds that segments stay on brokers after they were copied to remote storage; -1: no limit; -2: as long as "
    "``retention.ms``.",
    at_least=-2,
    topic="local.retention.ms",
    dynamic=CLUSTER,
)
LOG_LOCAL_RETENTION_BYTES = int64(
    "log.local.retention.bytes",
    -2,
    "Bytes of a partition above which its oldest segments are deleted on brokers, if they were copied to remote "
    "storage; -1: no limit; -2: as many as ``retention.bytes``.",
    at_least=-2,
    topic="local.retention.bytes",
    dynamic=CLUSTER,
)
REMOTE_LOG_COPY_DISABLE = boolean(
    "remote.log.copy.disable",
    False,
    "Whether nothing more is copied to remote storage; what is there can still be read, and expires.",
    topic="remote.log.copy.disable",
    scope=TOPIC_ONLY,
    dynamic=CLUSTER,
)
REMOTE_LOG_DELETE_ON_DISABLE = boolean(
    "remote.log.delete.on.disable",
    False,
    "Whether the records in remote storage are deleted when ``remote.storage.enable`` is turned off.",
    topic="remote.log.delete.on.disable",
    scope=TOPIC_ONLY,
    dynamic=CLUSTER,
)
