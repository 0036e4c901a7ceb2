"""``kafka-log-dirs``: prints brokers' log directories as JSON (Kafka: LogDirsCommand)."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.java_errors import java_name
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import with_cluster
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.log_dir_admin import LogDir
from logbus.client.cluster.cluster import Cluster

PARSER = OptionParser(
    "Prints brokers' log directories, and the size of each partition in them.",
    [
        Option("describe", help="Print them."),
        Option("topic-list", "Topic list", "Only these topics, separated by commas."),
        Option("broker-list", "Broker list", "Only these brokers' ids, separated by commas."),
    ],
)


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    options.require("describe", "bootstrap-server")
    topics = [each for each in (options.value("topic-list") or "").split(",") if each]
    wanted = [each.strip() for each in (options.value("broker-list") or "").split(",") if each.strip()]
    for text in wanted:
        if not (text.isascii() and text.isdigit()):
            raise UsageError(f"--broker-list has {text!r}, which is no broker's id; it is a number, such as 0")
    numbers = list(dict.fromkeys(map(int, wanted)))

    async def work(cluster: Cluster, admin: AdminClient) -> int:
        there = [node.node_id for node in (await admin.describe_cluster()).nodes]
        missing = [each for each in numbers if each not in there]
        if missing:
            complain(
                f"ERROR: The given brokers do not exist from --broker-list: {_joined(missing)}. "
                f"Current existent brokers: {_joined(there)}"
            )
            return 1
        chosen = numbers or there
        say("Querying brokers for log directories information")
        found = {each: await admin.describe_log_dirs(each) for each in chosen}
        say(f"Received log directory information from brokers {_joined(chosen)}")
        say(json.dumps(report(found, topics), separators=(",", ":"), ensure_ascii=False))
        return 0

    return with_cluster(options, work)


def report(brokers: Mapping[int, Sequence[LogDir]], topics: Collection[str]) -> dict[str, Any]:
    """
    What is printed, as JSON values.

    :param topics: only these; none: all.
    """
    return {
        "brokers": [
            {"broker": number, "logDirs": [_log_dir(each, topics) for each in dirs]} for number, dirs in brokers.items()
        ],
        "version": 1,
    }


def _log_dir(found: LogDir, topics: Collection[str]) -> dict[str, Any]:
    return {
        "partitions": [
            {"partition": str(name), "size": each.size, "offsetLag": each.offset_lag, "isFuture": each.is_future}
            for name, each in sorted(found.replicas.items(), key=lambda one: one[0])
            if not topics or name.topic in topics
        ],
        "error": None if found.error is None else java_name(found.error),
        "logDir": found.path,
    }


def _joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
