"""
Keys of Kafka that logbus ignores with a warning, so that a broker starts with a file written for Kafka.

A value that asks for a feature that logbus does not have is refused, such as ``zookeeper.ssl.crl.enable=true``.
"""

from __future__ import annotations

from collections.abc import Mapping

from logbus.config.kinds import LONG_MAX

_THREADS = "logbus serves everything from one reactor and sizes its worker threads itself"
_JVM = "it names a Java class"
_KRAFT = "metadata lives in ZooKeeper or in the embedded store, not in a Raft quorum"
_REMOTE_PLUGINS = "remote storage is what remote.log.storage.uri names, and its metadata are in a topic"
_REMOTE_RETRIES = "what failed is tried again at the next run, at most a minute later"
_FORMAT = "records are always stored as version 2 batches, and never converted for readers"
_WAITING = "waiting requests are dropped when they end, not purged"
_GROWING = "segment files grow as they are written"
_NO_WINDOW = "limits of remote storage need no window"
_METRICS = "metrics are at /metrics of the admin listener"

IGNORED_BROKER_KEYS: Mapping[str, str] = {
    "background.threads": _THREADS,
    "num.io.threads": _THREADS,
    "num.network.threads": _THREADS,
    "num.recovery.threads.per.data.dir": _THREADS,
    "num.replica.alter.log.dirs.threads": _THREADS,
    "num.replica.fetchers": _THREADS,
    "group.coordinator.threads": _THREADS,
    "group.coordinator.background.threads": _THREADS,
    "share.coordinator.threads": _THREADS,
    "log.cleaner.io.buffer.size": "the cleaner sizes its buffers itself",
    "log.cleaner.io.buffer.load.factor": "the cleaner sizes its buffers itself",
    "log.flush.start.offset.checkpoint.interval.ms": "log start offsets are written as soon as they change",
    "log.preallocate": _GROWING,
    "log.initial.task.delay.ms": "periodic work on logs begins with the broker",
    "log.message.downconversion.enable": _FORMAT,
    "log.message.format.version": _FORMAT,
    "inter.broker.protocol.version": "brokers agree on a protocol by the feature levels they register",
    "fetch.purgatory.purge.interval.requests": _WAITING,
    "producer.purgatory.purge.interval.requests": _WAITING,
    "delete.records.purgatory.purge.interval.requests": _WAITING,
    "auto.include.jmx.reporter": _METRICS,
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "telemetry.max.bytes": "clients' own metrics are not collected",
    "alter.config.policy.class.name": _JVM,
    "create.topic.policy.class.name": _JVM,
    "client.quota.callback.class": _JVM,
    "principal.builder.class": _JVM,
    "security.providers": _JVM,
    "group.consumer.regex.refresh.interval.ms": "new topics are matched as soon as they are known",
    "group.consumer.assignors": "members choose between uniform and range, and there are no others",
    "group.share.assignors": "there is no assignor but simple",
    "group.consumer.assignor.offload.enable": _THREADS,
    "group.share.assignor.offload.enable": _THREADS,
    "group.streams.assignor.offload.enable": _THREADS,
    "share.fetch.purgatory.purge.interval.requests": _WAITING,
    "broker.id.generation.enable": "a broker's number is always given",
    "reserved.broker.max.id": "a broker's number is always given",
    "control.plane.listener.name": "the controller uses the inter-broker listener",
    "controller.listener.names": _KRAFT,
    "early.start.listeners": _KRAFT,
    "initial.broker.registration.timeout.ms": _KRAFT,
    "process.roles": _KRAFT,
    "unstable.api.versions.enable": "only stable versions are served",
    "unstable.feature.versions.enable": "only stable versions are served",
    "offsets.commit.required.acks": "commits always wait for all in-sync replicas",
    "group.coordinator.new.enable": "there is one group coordinator for all protocols",
    "group.coordinator.append.linger.ms": "commits are written at once",
    "share.coordinator.append.linger.ms": "states of share partitions are written at once",
    "group.coordinator.cached.buffer.max.bytes": "no buffers are kept",
    "group.share.persister.class.name": _JVM,
    "share.coordinator.cached.buffer.max.bytes": "no buffers are kept",
    "log.dir.failure.timeout.ms": _KRAFT,
    "remote.log.index.file.cache.ttl.ms": "indexes of remote segments are few, and kept in memory",
    "remote.log.index.file.cache.total.size.bytes": "indexes of remote segments are few, and kept in memory",
    "remote.log.manager.copy.quota.window.num": _NO_WINDOW,
    "remote.log.manager.copy.quota.window.size.seconds": _NO_WINDOW,
    "remote.log.manager.fetch.max.bytes.per.second": "fetches from remote storage are limited by connections",
    "remote.log.manager.fetch.quota.window.num": _NO_WINDOW,
    "remote.log.manager.fetch.quota.window.size.seconds": _NO_WINDOW,
    "remote.log.manager.copier.thread.pool.size": "remote.log.manager.thread.pool.size is for all of it",
    "remote.log.manager.expiration.thread.pool.size": "remote.log.manager.thread.pool.size is for all of it",
    "remote.log.manager.follower.thread.pool.size": "followers only read metadata",
    "remote.log.manager.task.retry.backoff.ms": _REMOTE_RETRIES,
    "remote.log.manager.task.retry.backoff.max.ms": _REMOTE_RETRIES,
    "remote.log.manager.task.retry.jitter": _REMOTE_RETRIES,
    "remote.log.metadata.custom.metadata.max.bytes": "there are no custom metadata",
    "remote.log.metadata.manager.class.name": _REMOTE_PLUGINS,
    "remote.log.metadata.manager.class.path": _REMOTE_PLUGINS,
    "remote.log.metadata.manager.impl.prefix": _REMOTE_PLUGINS,
    "remote.log.metadata.manager.listener.name": "brokers use the inter-broker listener",
    "remote.log.reader.max.pending.tasks": "fetches that wait for remote storage are limited by connections",
    "remote.log.storage.manager.class.name": _REMOTE_PLUGINS,
    "remote.log.storage.manager.class.path": _REMOTE_PLUGINS,
    "remote.log.storage.manager.impl.prefix": _REMOTE_PLUGINS,
    "remote.list.offsets.request.timeout.ms": "a search in remote storage is limited by its request",
    "replication.quota.window.num": "replication.quota.window.size.seconds is the only window",
    "alter.log.dirs.replication.quota.window.num": "replica.alter.log.dirs.io.max.bytes.per.second needs no window",
    "alter.log.dirs.replication.quota.window.size.seconds": (
        "replica.alter.log.dirs.io.max.bytes.per.second needs no window"
    ),
    "zookeeper.clientCnxnSocket": _JVM,
    "zookeeper.metadata.migration.enable": _KRAFT,
    "zookeeper.ssl.crl.enable": "revocation is not checked",
    "zookeeper.ssl.ocsp.enable": "revocation is not checked",
    "zookeeper.ssl.protocol": "zookeeper.ssl.enabled.protocols says which versions are allowed",
    "zookeeper.sync.time.ms": "it has no effect in Kafka either",
    "ssl.protocol": "ssl.enabled.protocols says which versions are allowed",
    "ssl.provider": _JVM,
    "ssl.keymanager.algorithm": _JVM,
    "ssl.trustmanager.algorithm": _JVM,
    "ssl.secure.random.implementation": _JVM,
    "ssl.engine.factory.class": _JVM,
    "ssl.allow.dn.changes": "a new certificate may be of another subject",
    "ssl.allow.san.changes": "a new certificate must only be of the host at which other brokers connect",
    "sasl.client.callback.handler.class": _JVM,
    "sasl.login.callback.handler.class": _JVM,
    "sasl.login.class": _JVM,
    "sasl.server.callback.handler.class": _JVM,
    "sasl.mechanism.controller.protocol": _KRAFT,
    "server.max.startup.time.ms": "a start takes as long as its logs need",
    "transaction.two.phase.commit.enable": "two-phase commit is not offered",
    "unclean.leader.election.interval.ms": "leaders are elected at once",
    "eligible.leader.replicas.enable": "replicas fit to lead are always kept beside the in-sync set",
}
"""The reason for ignoring each key, to follow "ignored:"."""

IGNORED_BROKER_PREFIXES: Mapping[str, str] = {
    "broker.heartbeat.": _KRAFT,
    "broker.session.": _KRAFT,
    "controller.performance.": _KRAFT,
    "controller.quorum.": _KRAFT,
    "internal.metadata.": _KRAFT,
    "kafka.metrics.": _METRICS,
    "metadata.": _KRAFT,
    "rlmm.config.": "the metadata of remote segments have keys of their own: remote.log.metadata.topic.*",
    "rsm.config.": "remote.log.storage.uri and remote.log.storage.options say where remote segments are",
    "password.encoder.": "passwords are not stored in ZooKeeper in clear or encoded",
    "sasl.kerberos.": "GSSAPI is not offered",
    "sasl.login.": "brokers authenticate to each other with sasl.jaas.config",
}
"""The reasons for families of keys, by prefix."""

FOREIGN_TOPIC_KEYS: Mapping[str, str] = {
    "message.downconversion.enable": _FORMAT,
    "message.format.version": _FORMAT,
    "message.timestamp.difference.max.ms": (
        "message.timestamp.before.max.ms and message.timestamp.after.max.ms have taken its place"
    ),
    "preallocate": _GROWING,
}
"""The reasons for keys of topics."""

ONLY_VALUES: Mapping[str, frozenset[str]] = {
    "message.timestamp.difference.max.ms": frozenset({str(LONG_MAX)}),
    "remote.log.manager.fetch.max.bytes.per.second": frozenset({str(LONG_MAX)}),
    "transaction.two.phase.commit.enable": frozenset({"false"}),
    "zookeeper.metadata.migration.enable": frozenset({"false"}),
    "zookeeper.ssl.crl.enable": frozenset({"false"}),
    "zookeeper.ssl.ocsp.enable": frozenset({"false"}),
}
"""The accepted values of ignored keys whose other values are refused."""
