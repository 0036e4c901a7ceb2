"""Scripts of Kafka that are not served, and what there is instead. Pure."""

from __future__ import annotations

from collections.abc import Mapping

ABSENT: Mapping[str, str] = {
    "kafka-server-start": "'logbus start --config server.properties' starts a broker, and 'twistd logbus' as a daemon",
    "kafka-server-stop": "SIGTERM to the broker's process stops it in order, as Ctrl-C does",
    "kafka-storage": "a data directory needs no formatting: a broker makes it at its first start; 'logbus doctor' "
    "checks a configuration, and 'logbus users' adds users",
    "kafka-metadata-quorum": "metadata is in ZooKeeper, or in a file of a single broker, and not in a quorum of "
    "brokers; 'logbus cluster describe' shows the controller",
    "kafka-metadata-shell": "'logbus metadata' moves metadata, which is in ZooKeeper or in a file of a single broker",
    "kafka-preferred-replica-election": "since Kafka 3.0 it is kafka-leader-election.sh --election-type preferred",
    "kafka-mirror-maker": "'logbus mirror --from HOST:PORT --to HOST:PORT' mirrors topics",
    "connect-mirror-maker": "'logbus mirror --from HOST:PORT --from-name NAME --to HOST:PORT --to-name NAME' mirrors "
    "topics as MirrorMaker 2 does, by options instead of mm2.properties",
    "connect-distributed": "there is no Kafka Connect here; Apache's works with a broker of logbus",
    "connect-standalone": "there is no Kafka Connect here; Apache's works with a broker of logbus, and 'logbus topics "
    "export' and 'import' copy topics to and from files",
    "kafka-verifiable-producer": "'logbus produce' sends records, and 'logbus audit' compares what was consumed with "
    "what was published",
    "kafka-verifiable-consumer": "'logbus consume --json' prints records with their places, and 'logbus audit' "
    "compares what was consumed with what was published",
    "kafka-e2e-latency": "'logbus bench latency' measures it",
    "kafka-replica-verification": "'logbus cluster describe' shows replicas that are not in sync, and 'logbus verify' "
    "checks a log directory",
    "kafka-streams-application-reset": "'logbus groups reset-offsets' sets the offsets of a group, and 'logbus topics "
    "delete' deletes the internal topics of an application",
    "kafka-streams-groups": "Apache's works with a broker of logbus; kafka-groups.sh --list --streams lists streams "
    "groups",
    "kafka-share-groups": "Apache's works with a broker of logbus; kafka-groups.sh --list --share lists share groups",
    "kafka-console-share-consumer": "Apache's works with a broker of logbus",
    "kafka-client-metrics": "brokers do not ask clients for metrics (KIP-714); '/metrics' of a broker has its own",
    "kafka-jmx": "metrics are at '/metrics' of the admin listener, for Prometheus",
    "kafka-run-class": "there is no Java here; 'logbus --help' lists commands",
    "zookeeper-server-start": "ZooKeeper is a server of its own; 'logbus start' needs none for a single broker",
    "zookeeper-shell": "ZooKeeper's own zkCli.sh shows its tree",
    "zookeeper-security-migration": "zookeeper.set.acl=true of brokers protects what they write in ZooKeeper",
}
"""By the names of scripts."""


def advice(name: str) -> str | None:
    """The line about a script that is not served; None: it is no script of Kafka's."""
    found = ABSENT.get(name)
    return None if found is None else f"{name} is not served: {found}"
