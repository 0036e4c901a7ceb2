"""``kafka-leader-election``: elects leaders (Kafka: LeaderElectionCommand)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.java_errors import java_text
from logbus.cli.kafka_scripts.json_file import read_partitions
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import client_properties, with_cluster
from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import Cluster
from logbus.errors import ApiError
from logbus.model import TopicPartition

_SCOPES = ("topic", "all-topic-partitions", "path-to-json-file")

PARSER = OptionParser(
    "Elects leaders of partitions: the preferred ones, or any that live.",
    [
        Option("election-type", "[PREFERRED,UNCLEAN]", "preferred, or unclean: committed records may be lost."),
        Option("topic", "topic name", "The topic, with --partition."),
        Option("partition", "partition id", "The partition of --topic.", bits=32),
        Option("all-topic-partitions", help="All partitions."),
        Option("path-to-json-file", "Path to JSON file", '{"partitions": [{"topic": "t", "partition": 0}]}.'),
        Option("admin.config", "config file", "As --command-config, as it was called before."),
    ],
)


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    missing = [name for name in ("bootstrap-server", "election-type") if not options.has(name)]
    if missing:
        raise UsageError(f"Missing required option(s): {', '.join(missing)}")
    kind = options.text("election-type").lower()
    if kind not in ("preferred", "unclean"):
        raise UsageError(f"Cannot parse argument '{options.text('election-type')}' of option election-type")
    scope = options.only_one(_SCOPES, f"One and only one of the following options is required: {', '.join(_SCOPES)}")
    if options.has("topic") != options.has("partition"):
        raise UsageError(
            "Missing required option(s): partition"
            if options.has("topic")
            else "Option partition is only allowed if topic is used"
        )
    partitions = _partitions(options, scope)

    async def work(cluster: Cluster, admin: AdminClient) -> Mapping[TopicPartition, ApiError | None]:
        return await admin.elect_leaders(partitions, unclean=kind == "unclean")

    answers = with_cluster(options, work, client_properties(options, ("admin.config", "command-config")))
    for line in result_lines(answers, partitions, kind.upper()):
        say(line)
    failed = [error for error in answers.values() if error is not None]
    if failed:
        complain(f"{len(failed)} replica(s) could not be elected")
    return 1 if failed else 0


def result_lines(
    answers: Mapping[TopicPartition, ApiError | None], wanted: Sequence[TopicPartition] | None, kind: str
) -> list[str]:
    """
    The lines about an election.

    :param answers: of those that needed one.
    :param wanted: the partitions; None: all.
    """
    elected = sorted(each for each, error in answers.items() if error is None)
    needless = sorted(set(wanted or ()) - answers.keys())
    lines = []
    if elected:
        lines.append(f"Successfully completed leader election ({kind}) for partitions {_joined(elected)}")
    if needless:
        lines.append(f"Valid replica already elected for partitions {_joined(needless)}")
    for each, error in sorted(answers.items(), key=lambda one: one[0]):
        if error is not None:
            lines.append(
                f"Error completing leader election ({kind}) for partition: {each}: {java_text(error, str(each))}"
            )
    return lines


def _joined(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))


def _partitions(options: ParsedOptions, scope: str) -> list[TopicPartition] | None:
    if scope == "all-topic-partitions":
        return None
    if scope == "topic":
        return [TopicPartition(options.text("topic"), options.integer("partition") or 0)]
    return list(read_partitions(options.text("path-to-json-file"), {}))
