"""The table of commands, and the scripts that run them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from logbus.cli.kafka_scripts.absent_scripts import ABSENT

COMMANDS = {
    "kafka-topics": "topic_command",
    "kafka-console-producer": "console_producer",
    "kafka-console-consumer": "console_consumer",
    "kafka-consumer-groups": "consumer_group_command",
    "kafka-configs": "config_command",
    "kafka-acls": "acl_command",
    "kafka-reassign-partitions": "reassign_partitions_command",
    "kafka-get-offsets": "get_offsets_command",
    "kafka-delete-records": "delete_records_command",
    "kafka-leader-election": "leader_election_command",
    "kafka-transactions": "transactions_command",
    "kafka-log-dirs": "log_dirs_command",
    "kafka-broker-api-versions": "broker_api_versions_command",
    "kafka-dump-log": "dump_log_command",
    "kafka-groups": "groups_command",
    "kafka-cluster": "cluster_command",
    "kafka-features": "features_command",
    "kafka-delegation-tokens": "delegation_token_command",
    "kafka-producer-perf-test": "producer_performance_command",
    "kafka-consumer-perf-test": "consumer_performance_command",
}
"""The module of each command."""


def script(name: str) -> str:
    """The text of a command's script; ``-P`` keeps the working directory from being searched for modules."""
    return f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m {__package__} {name} "$@"\n'


def write_scripts(directory: Path, *, suffixes: tuple[str, ...]) -> list[Path]:
    """
    Write the script of each command, and of those that only say what there is instead; replaces what is there.

    :param suffixes: of the files' names, such as ``.sh``.
    :returns: the files.
    :raise OSError: one cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    found = []
    for suffix in suffixes:
        for name in (*COMMANDS, *ABSENT):
            path = directory / f"{name}{suffix}"
            path.write_text(script(name), encoding="utf-8", errors="surrogateescape")
            path.chmod(0o755)
            found.append(path)
    return found
