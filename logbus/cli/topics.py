"""``logbus topics``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from logbus.cli.options import bootstrap_options, json_option, pairs
from logbus.cli.output import print_json, print_table
from logbus.errors import ApiError

if TYPE_CHECKING:
    from logbus.client.cluster import Cluster, Topic


@click.group()
def topics() -> None:
    """Create, list, describe and delete topics, and give them more partitions.

    \b
    Example:
      logbus topics create orders --partitions 12 --config retention.ms=86400000
      logbus topics list
    """


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option("--partitions", "-p", type=click.IntRange(min=1), help="Default: the broker's num.partitions.")
@click.option("--replication-factor", "-r", type=click.IntRange(min=1), help="Default: the broker's.")
@click.option("--config", "-c", "configs", multiple=True, metavar="NAME=VALUE", help="A setting; may be repeated.")
@click.option("--if-not-exists", is_flag=True, help="Be content if the topic is there already.")
@click.option("--validate-only", is_flag=True, help="Only say whether it would work.")
@bootstrap_options
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Create topics.

    \b
    Example:
      logbus topics create orders --partitions 12 --config cleanup.policy=compact
    """
    from logbus.cli.running import with_cluster
    from logbus.client.admin import AdminClient, NewTopic
    from logbus.errors import ErrorCode

    settings = pairs(configs, "--config")

    async def work(cluster: Cluster) -> None:
        new = [NewTopic(name, partitions or -1, replication_factor or -1, settings) for name in dict.fromkeys(names)]
        answers = await AdminClient(cluster, timeout=timeout).create_topics(new, validate_only=validate_only)
        if if_not_exists:
            exists = ErrorCode.TOPIC_ALREADY_EXISTS
            answers = {name: None if e is not None and e.code is exists else e for name, e in answers.items()}
        finish(answers)

    with_cluster(bootstrap, timeout, work)


@topics.command("list")
@click.option("--internal", is_flag=True, help="Also those that the brokers keep for themselves.")
@json_option
@bootstrap_options
def list_topics(internal: bool, as_json: bool, bootstrap: str, timeout: float) -> None:
    """Print the names of all topics.

    \b
    Example:
      logbus topics list --json
    """
    from logbus.cli.running import with_cluster
    from logbus.client.admin import AdminClient

    async def work(cluster: Cluster) -> list[Topic]:
        return await AdminClient(cluster, timeout=timeout).list_topics(internal=internal)

    found = with_cluster(bootstrap, timeout, work)
    if as_json:
        print_json(
            [{"name": each.name, "partitions": len(each.partitions), "internal": each.internal} for each in found]
        )
    else:
        for each in found:
            click.echo(each.name)


@topics.command()
@click.argument("names", nargs=-1, metavar="[TOPIC]...")
@json_option
@bootstrap_options
def describe(names: tuple[str, ...], as_json: bool, bootstrap: str, timeout: float) -> None:
    """Show the partitions of topics (of all, if none is named): leader, replicas, and the offsets they keep.

    \b
    Example:
      logbus topics describe orders
    """
    from logbus.cli.running import with_cluster
    from logbus.client.admin import AdminClient
    from logbus.client.offsets import EARLIEST, LATEST
    from logbus.model import TopicPartition

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        admin = AdminClient(cluster, timeout=timeout)
        if names:
            answers = await admin.describe_topics(dict.fromkeys(names))
            finish({name: each if isinstance(each, ApiError) else None for name, each in answers.items()})
            found = [each for each in answers.values() if not isinstance(each, ApiError)]
        else:
            found = await admin.list_topics()
        partitions = [TopicPartition(topic.name, index) for topic in found for index in topic.partitions]
        earliest = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
        latest = await admin.list_offsets(dict.fromkeys(partitions, LATEST))

        def offset(answers: Mapping[TopicPartition, Any], partition: TopicPartition) -> int | None:
            answer = answers.get(partition)
            return None if answer is None or isinstance(answer, ApiError) else int(answer.offset)

        return [
            {
                "name": topic.name,
                "topic_id": str(topic.topic_id),
                "internal": topic.internal,
                "partitions": [
                    {
                        "partition": each.index,
                        "leader": each.leader if each.leader >= 0 else None,
                        "leader_epoch": each.leader_epoch,
                        "replicas": list(each.replicas),
                        "isr": list(each.isr),
                        "offline": list(each.offline),
                        "start_offset": offset(earliest, TopicPartition(topic.name, each.index)),
                        "end_offset": offset(latest, TopicPartition(topic.name, each.index)),
                    }
                    for each in topic.partitions.values()
                ],
            }
            for topic in found
        ]

    described = with_cluster(bootstrap, timeout, work)
    if as_json:
        print_json(described)
        return
    head = ["topic", "partition", "leader", "epoch", "replicas", "in sync", "from", "to"]
    print_table(
        head,
        [
            [
                topic["name"],
                each["partition"],
                each["leader"],
                each["leader_epoch"],
                ",".join(map(str, each["replicas"])),
                ",".join(map(str, each["isr"])),
                each["start_offset"],
                each["end_offset"],
            ]
            for topic in described
            for each in topic["partitions"]
        ],
    )


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option("--if-exists", is_flag=True, help="Be content if the topic is not there.")
@bootstrap_options
def delete(names: tuple[str, ...], if_exists: bool, bootstrap: str, timeout: float) -> None:
    """Delete topics with all their records.

    \b
    Example:
      logbus topics delete orders
    """
    from logbus.cli.running import with_cluster
    from logbus.client.admin import AdminClient
    from logbus.errors import ErrorCode

    async def work(cluster: Cluster) -> None:
        answers = await AdminClient(cluster, timeout=timeout).delete_topics(dict.fromkeys(names))
        if if_exists:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answers = {name: None if e is not None and e.code is unknown else e for name, e in answers.items()}
        finish(answers)

    with_cluster(bootstrap, timeout, work)


@topics.command("add-partitions")
@click.argument("name", metavar="TOPIC")
@click.option("--total", "-t", type=click.IntRange(min=1), required=True, help="How many it is to have in all.")
@bootstrap_options
def add_partitions(name: str, total: int, bootstrap: str, timeout: float) -> None:
    """Give a topic more partitions. Records stay where they are; keys go elsewhere from then on.

    \b
    Example:
      logbus topics add-partitions orders --total 24
    """
    from logbus.cli.running import with_cluster
    from logbus.client.admin import AdminClient

    async def work(cluster: Cluster) -> None:
        finish(await AdminClient(cluster, timeout=timeout).create_partitions({name: total}))

    with_cluster(bootstrap, timeout, work)


def finish(answers: Mapping[Any, ApiError | None]) -> None:
    """
    The end of a command that did something for each of several things.

    :raises CommandFailed: it was refused for some.
    """
    from logbus.cli.running import CommandFailed

    errors = [error.message for error in answers.values() if error is not None]
    if errors:
        raise CommandFailed("; ".join(errors))
