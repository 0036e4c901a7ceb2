"""The ``logbus topics`` commands (Kafka: TopicCommand)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from logbus.cli.options import bootstrap_options, json_option, parse_pairs
from logbus.cli.output import print_json, print_table
from logbus.errors import ApiError

if TYPE_CHECKING:
    from logbus.client.cluster.cluster import Cluster, TopicMetadata


@click.group()
def topics() -> None:
    """Create, list, describe and delete topics, and add partitions.

    \b
    Example:
      logbus topics create orders --partitions 12 --config retention.ms=86400000
      logbus topics list
    """


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option("--partitions", "-p", type=click.IntRange(min=1), help="Default: the broker's num.partitions.")
@click.option("--replication-factor", "-r", type=click.IntRange(min=1), help="Default: the broker's.")
@click.option(
    "--replica-assignment",
    "-a",
    metavar="0:1,1:2,…",
    help="The brokers of each partition, the preferred leader first; instead of the two numbers.",
)
@click.option("--config", "-c", "configs", multiple=True, metavar="NAME=VALUE", help="A setting; may be repeated.")
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic exists.")
@click.option("--validate-only", is_flag=True, help="Only check whether the topics can be created.")
@bootstrap_options
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
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
      logbus topics create orders --partitions 12 --replication-factor 3
      logbus topics create orders --replica-assignment 0:1,1:2,2:0
    """
    from logbus.cli.runner import raise_errors, with_cluster
    from logbus.client.admin.admin_client import AdminClient, NewTopic
    from logbus.errors import ErrorCode

    settings = parse_pairs(configs, "--config")
    assignment = None
    if replica_assignment is not None:
        if partitions is not None or replication_factor is not None:
            raise click.UsageError("--replica-assignment says how many partitions and replicas there are")
        assignment = replicas_of(replica_assignment)

    async def work(cluster: Cluster) -> None:
        new = [
            NewTopic(name, partitions or -1, replication_factor or -1, settings, assignment)
            for name in dict.fromkeys(names)
        ]
        answers = await AdminClient(cluster, timeout=timeout).create_topics(new, validate_only=validate_only)
        if if_not_exists:
            exists = ErrorCode.TOPIC_ALREADY_EXISTS
            answers = {name: None if e is not None and e.code is exists else e for name, e in answers.items()}
        raise_errors(answers)

    with_cluster(bootstrap, timeout, work)


@topics.command("list")
@click.option("--internal", is_flag=True, help="Include internal topics.")
@json_option
@bootstrap_options
def list_topics(internal: bool, as_json: bool, bootstrap: str, timeout: float) -> None:
    """Print the names of all topics.

    \b
    Example:
      logbus topics list --json
    """
    from logbus.cli.runner import with_cluster
    from logbus.client.admin.admin_client import AdminClient

    async def work(cluster: Cluster) -> list[TopicMetadata]:
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
@click.option("--under-replicated", is_flag=True, help="Only partitions with replicas that are not in sync.")
@click.option("--unavailable", is_flag=True, help="Only partitions without a live leader.")
@click.option("--under-min-isr", is_flag=True, help="Only partitions with fewer in sync than min.insync.replicas.")
@json_option
@bootstrap_options
def describe(
    names: tuple[str, ...],
    under_replicated: bool,
    unavailable: bool,
    under_min_isr: bool,
    as_json: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Show the partitions of topics (of all, if none is named): leader, replicas, first and last offsets.

    Several filters show partitions that match any of them, including those of internal topics.

    \b
    Example:
      logbus topics describe orders
      logbus topics describe --under-replicated --unavailable
    """
    from attrs import evolve

    from logbus.cli.partition_health import HealthFilter
    from logbus.cli.runner import raise_errors, with_cluster
    from logbus.client.admin.admin_client import AdminClient
    from logbus.client.list_offsets import EARLIEST, LATEST
    from logbus.client.retry import Unreachable
    from logbus.model import TimestampOffset, TopicPartition

    wanted = {"under_replicated": under_replicated, "unavailable": unavailable, "under_min_isr": under_min_isr}
    faults = [name for name, given in wanted.items() if given]

    async def matching(admin: AdminClient, topics: list[TopicMetadata]) -> list[TopicMetadata]:
        """Return the topics with only the matching partitions."""
        if not faults:
            return topics
        alive = {node.node_id for node in (await admin.describe_cluster()).nodes}
        health = HealthFilter(
            alive, await admin.min_insync_replicas(topic.name for topic in topics) if under_min_isr else {}
        )
        kept = []
        for topic in topics:
            kinds = health.kinds(topic)
            at_fault = {
                number: each for number, each in topic.partitions.items() if any(kinds[fault](each) for fault in faults)
            }
            if at_fault:
                kept.append(evolve(topic, partitions=at_fault))
        return kept

    async def offsets(
        admin: AdminClient, partitions: list[TopicPartition], which: int
    ) -> Mapping[TopicPartition, TimestampOffset | ApiError]:
        try:
            return await admin.list_offsets(dict.fromkeys(partitions, which))
        except Unreachable:
            if not faults:
                raise
            return {}  # partitions without a leader are what the filters look for

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        admin = AdminClient(cluster, timeout=timeout)
        if names:
            answers = await admin.describe_topics(dict.fromkeys(names))
            raise_errors({name: each if isinstance(each, ApiError) else None for name, each in answers.items()})
            found = [each for each in answers.values() if not isinstance(each, ApiError)]
        else:
            found = await admin.list_topics(internal=bool(faults))
        found = await matching(admin, found)
        partitions = [TopicPartition(topic.name, index) for topic in found for index in topic.partitions]
        earliest = await offsets(admin, partitions, EARLIEST)
        latest = await offsets(admin, partitions, LATEST)

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
@click.option("--if-exists", is_flag=True, help="Succeed if the topic does not exist.")
@bootstrap_options
def delete(names: tuple[str, ...], if_exists: bool, bootstrap: str, timeout: float) -> None:
    """Delete topics and all their records.

    \b
    Example:
      logbus topics delete orders
    """
    from logbus.cli.runner import raise_errors, with_cluster
    from logbus.client.admin.admin_client import AdminClient
    from logbus.errors import ErrorCode

    async def work(cluster: Cluster) -> None:
        answers = await AdminClient(cluster, timeout=timeout).delete_topics(dict.fromkeys(names))
        if if_exists:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answers = {name: None if e is not None and e.code is unknown else e for name, e in answers.items()}
        raise_errors(answers)

    with_cluster(bootstrap, timeout, work)


@topics.command("add-partitions")
@click.argument("name", metavar="TOPIC")
@click.option("--total", "-t", type=click.IntRange(min=1), required=True, help="The total number of partitions.")
@click.option("--replica-assignment", "-a", metavar="0:1,1:2,…", help="The brokers of each new partition.")
@bootstrap_options
def add_partitions(name: str, total: int, replica_assignment: str | None, bootstrap: str, timeout: float) -> None:
    """Add partitions to a topic. Existing records do not move; keys may map to other partitions afterwards.

    \b
    Example:
      logbus topics add-partitions orders --total 24
    """
    from logbus.cli.runner import raise_errors, with_cluster
    from logbus.client.admin.admin_client import AdminClient

    assignments = {} if replica_assignment is None else {name: replicas_of(replica_assignment)}

    async def work(cluster: Cluster) -> None:
        admin = AdminClient(cluster, timeout=timeout)
        raise_errors(await admin.create_partitions({name: total}, assignments=assignments))

    with_cluster(bootstrap, timeout, work)


def replicas_of(text: str) -> list[list[int]]:
    """
    Parse ``0:1,1:2`` into the broker ids of each partition's replicas.

    :raises click.BadParameter: it does not have this form.
    """
    try:
        found = [[int(number) for number in one.split(":")] for one in text.split(",")]
    except ValueError:
        found = []
    if not found or any(number < 0 for one in found for number in one):
        raise click.BadParameter(
            f"{text!r} is not broker ids such as 0:1,1:2 (two partitions of two replicas each)",
            param_hint="--replica-assignment",
        )
    return found
