"""``kafka-delete-records``: deletes the first records of partitions (Kafka: DeleteRecordsCommand)."""

from __future__ import annotations

from logbus.cli.kafka_scripts.console import say
from logbus.cli.kafka_scripts.java_errors import java_text
from logbus.cli.kafka_scripts.json_file import read_partitions
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions
from logbus.cli.kafka_scripts.session import with_cluster
from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import Cluster
from logbus.errors import ApiError
from logbus.model import TopicPartition

PARSER = OptionParser(
    "Deletes the first records of partitions, up to an offset.",
    [
        Option(
            "offset-json-file",
            "Offset json file path",
            '{"partitions": [{"topic": "t", "partition": 0, "offset": 7}], "version": 1}; -1: all that are there.',
        )
    ],
)


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    options.require("offset-json-file", "bootstrap-server")
    entries = read_partitions(options.text("offset-json-file"), {"offset": int})

    async def work(cluster: Cluster, admin: AdminClient) -> dict[TopicPartition, int | ApiError]:
        return await admin.delete_records({partition: each["offset"] for partition, each in entries.items()})

    say("Executing records delete operation")
    answers = with_cluster(options, work)
    say("Records delete operation completed:")
    for partition, answer in answers.items():
        if isinstance(answer, ApiError):
            say(f"partition: {partition}\terror: {java_text(answer, str(partition))}")
        else:
            say(f"partition: {partition}\tlow_watermark: {answer}")
    return 0
