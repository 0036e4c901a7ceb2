"""
The ``logbus transactions`` commands (Kafka: TransactionsCommand); :mod:`logbus.cli.commands.transactions_abort` has
those that abort.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from logbus.cli.commands.transactions_abort import abort, force_terminate
from logbus.cli.options import bootstrap_options, json_option, transactional_id
from logbus.cli.output import print_json, print_table

if TYPE_CHECKING:
    from logbus.cli.hanging_transactions import SearchResult
    from logbus.client.admin.admin_client import AdminClient
    from logbus.client.admin.transaction_admin import ActiveProducer, ListedTransaction, TransactionDescription
    from logbus.client.cluster.cluster import Cluster
    from logbus.model import TopicPartition

# As in logbus.client.admin.transaction_admin, which is not imported for --help.
_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence")
_MAX_INT32, _MAX_INT64 = 2**31 - 1, 2**63 - 1


@click.group()
def transactions() -> None:
    """Show transactions and the producers of partitions; find and abort hanging transactions.

    \b
    Example:
      logbus transactions list --state ongoing
      logbus transactions find-hanging --topic orders
    """


@transactions.command("list", short_help="Print transactional ids.")
@click.option(
    "--state",
    "-s",
    "states",
    multiple=True,
    type=click.Choice(_STATES, case_sensitive=False),
    help="Only transactions in this state.",
)
@click.option(
    "--producer-id", "producer_ids", multiple=True, type=click.IntRange(0, _MAX_INT64), help="Only this producer's."
)
@click.option(
    "--duration-filter",
    "longer_than_ms",
    type=click.IntRange(0, _MAX_INT64),
    metavar="MS",
    help="Only transactions that have been running for more than this many milliseconds.",
)
@click.option(
    "--transactional-id-pattern", "pattern", metavar="REGEX", help="Only ids that fully match this expression (RE2)."
)
@json_option
@bootstrap_options
def list_transactions(
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than_ms: int | None,
    pattern: str | None,
    as_json: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Print transactional ids with their coordinators, producers and states. --state and --producer-id may be
    repeated.

    \b
    Example:
      logbus transactions list
      logbus transactions list --state ongoing --duration-filter 60000
      logbus transactions list --transactional-id-pattern 'billing-.*' --json
    """
    from logbus.cli.runner import with_cluster
    from logbus.client.admin.admin_client import AdminClient

    async def work(cluster: Cluster) -> list[ListedTransaction]:
        return await AdminClient(cluster, timeout=timeout).list_transactions(
            states=states, producer_ids=producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
        )

    found = with_cluster(bootstrap, timeout, work)
    if as_json:
        print_json(
            [
                {
                    "transactional_id": each.transactional_id,
                    "state": each.state,
                    "producer_id": each.producer_id,
                    "coordinator": each.coordinator,
                }
                for each in found
            ]
        )
    elif found:
        print_table(
            ["transactional id", "state", "producer", "coordinator"],
            [[each.transactional_id, each.state, each.producer_id, each.coordinator] for each in found],
        )


@transactions.command(short_help="Show transactional ids and their transactions.")
@click.argument("names", nargs=-1, type=transactional_id, metavar="[TRANSACTIONAL_ID]...")
@click.option(
    "--transactional-id",
    "more",
    multiple=True,
    type=transactional_id,
    help="The same as an option, as in Kafka's tool.",
)
@json_option
@bootstrap_options
def describe(names: tuple[str, ...], more: tuple[str, ...], as_json: bool, bootstrap: str, timeout: float) -> None:
    """Show transactional ids: the producer, and the transaction's state, start time and partitions. While a transaction
    ends, its partitions are those without a marker yet.

    \b
    Example:
      logbus transactions describe billing-1
      logbus transactions describe billing-1 --json | jq .[0].partitions
    """
    from logbus.cli.runner import raise_errors, with_cluster
    from logbus.client.admin.admin_client import AdminClient
    from logbus.errors import ApiError

    wanted = list(dict.fromkeys([*names, *more]))
    if not wanted:
        raise click.UsageError("name a transactional id; 'logbus transactions list' prints all")

    async def work(cluster: Cluster) -> list[TransactionDescription]:
        answers = await AdminClient(cluster, timeout=timeout).describe_transactions(wanted)
        raise_errors({name: each if isinstance(each, ApiError) else None for name, each in answers.items()})
        return [each for each in answers.values() if not isinstance(each, ApiError)]

    found = with_cluster(bootstrap, timeout, work)
    now_ms = int(time.time() * 1000)
    if as_json:
        print_json(
            [
                {
                    "transactional_id": each.transactional_id,
                    "state": each.state,
                    "producer_id": each.producer_id,
                    "producer_epoch": each.producer_epoch,
                    "timeout_ms": each.timeout_ms,
                    "started_ms": each.started_ms,
                    "duration_ms": None if each.started_ms is None else max(now_ms - each.started_ms, 0),
                    "partitions": by_topic(each.partitions),
                    "coordinator": {"id": each.coordinator.node_id, "address": str(each.coordinator)},
                }
                for each in found
            ]
        )
        return
    print_table(
        [
            *("transactional id", "state", "producer", "epoch", "timeout ms"),
            *("started", "seconds", "coordinator", "partitions"),
        ],
        [
            [
                each.transactional_id,
                each.state,
                each.producer_id,
                each.producer_epoch,
                each.timeout_ms,
                date(each.started_ms),
                None if each.started_ms is None else max(now_ms - each.started_ms, 0) // 1000,
                each.coordinator,
                " ".join(f"{name}:{','.join(map(str, numbers))}" for name, numbers in by_topic(each.partitions).items())
                or None,
            ]
            for each in found
        ],
    )


@transactions.command("describe-producers", short_help="Show the producer state of a partition.")
@click.option("--topic", required=True, help="The topic.")
@click.option("--partition", required=True, type=click.IntRange(0, _MAX_INT32), help="The partition's number.")
@click.option("--broker-id", type=click.IntRange(0, _MAX_INT32), help="Ask this replica instead of the leader.")
@json_option
@bootstrap_options
def describe_producers(
    topic: str, partition: int, broker_id: int | None, as_json: bool, bootstrap: str, timeout: float
) -> None:
    """Show a partition's state of idempotent and transactional producers: epochs, the last sequence number and
    timestamp, and the first offset of an open transaction.

    \b
    Example:
      logbus transactions describe-producers --topic orders --partition 0
    """
    from logbus.cli.runner import with_cluster
    from logbus.client.admin.admin_client import AdminClient
    from logbus.errors import ApiError
    from logbus.model import TopicPartition

    where = TopicPartition(topic, partition)

    async def work(cluster: Cluster) -> tuple[ActiveProducer, ...]:
        answer = (await AdminClient(cluster, timeout=timeout).describe_producers([where], broker_id=broker_id))[where]
        if isinstance(answer, ApiError):
            raise answer
        return answer

    found = with_cluster(bootstrap, timeout, work)
    if as_json:
        print_json([producer_json(each) for each in found])
    elif found:
        print_table(
            ["producer", "epoch", "coordinator epoch", "last sequence", "last write", "open since"],
            [
                [
                    each.producer_id,
                    each.producer_epoch,
                    none_if_unknown(each.coordinator_epoch),
                    none_if_unknown(each.last_sequence),
                    date(each.last_timestamp),
                    each.open_since,
                ]
                for each in found
            ],
        )


@transactions.command("find-hanging", short_help="Find hanging transactions.")
@click.option(
    "--broker-id", type=click.IntRange(0, _MAX_INT32), help="Search the partitions with a replica on this broker."
)
@click.option("--topic", help="Search this topic.")
@click.option("--partition", type=click.IntRange(0, _MAX_INT32), help="Only this partition of the topic.")
@click.option(
    "--max-transaction-timeout",
    "minutes",
    type=click.IntRange(0, _MAX_INT32),
    default=15,
    show_default=True,
    metavar="MINUTES",
    help="Ignore transactions whose producer wrote within this many minutes.",
)
@json_option
@bootstrap_options
def find_hanging(
    broker_id: int | None,
    topic: str | None,
    partition: int | None,
    minutes: int,
    as_json: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Find transactions that are open in a partition although no coordinator will end them. They block readers of
    committed records; 'logbus transactions abort' ends one.

    \b
    Example:
      logbus transactions find-hanging --broker-id 0
      logbus transactions find-hanging --topic orders --partition 3 --max-transaction-timeout 60
    """
    from logbus.cli.runner import CommandFailed, with_cluster
    from logbus.client.admin.admin_client import AdminClient

    if topic is None and broker_id is None:
        raise click.UsageError("where to search? Give --broker-id or --topic")
    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic")
    now_ms = int(time.time() * 1000)

    async def work(cluster: Cluster) -> SearchResult:
        from logbus.cli import hanging_transactions

        admin = AdminClient(cluster, timeout=timeout)
        places = await to_search(admin, topic, partition, broker_id)
        return await hanging_transactions.find_hanging(admin, places, now_ms - minutes * 60_000, broker_id)

    found = with_cluster(bootstrap, timeout, work)
    if as_json:
        print_json(
            [
                {"topic": each.partition.topic, "partition": each.partition.partition, **producer_json(each.producer)}
                for each in found.transactions
            ]
        )
    elif found.transactions:
        print_table(
            ["topic", "partition", "producer", "epoch", "coordinator epoch", "start offset", "last write", "minutes"],
            [
                [
                    *each.partition,
                    each.producer.producer_id,
                    each.producer.producer_epoch,
                    none_if_unknown(each.producer.coordinator_epoch),
                    each.since,
                    date(each.producer.last_timestamp),
                    max(now_ms - each.producer.last_timestamp, 0) // 60_000,
                ]
                for each in found.transactions
            ],
        )
    elif not found.errors:
        click.echo("no transaction hangs")
    if found.errors:
        some = [f"{partition}: {error.message}" for partition, error in sorted(found.errors.items())]
        more = f" (and {len(some) - 3} more)" if len(some) > 3 else ""
        raise CommandFailed(f"not searched: {'; '.join(some[:3])}{more}")


for _command in (abort, force_terminate):
    transactions.add_command(_command)


async def to_search(
    admin: AdminClient, topic: str | None, partition: int | None, broker_id: int | None
) -> list[TopicPartition]:
    """
    Return the partitions to search for hanging transactions.

    :param broker_id: only partitions with a replica on this broker; None: all.
    :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION.
    :raise CommandFailed: there is no such broker.
    """
    from logbus.cli.runner import CommandFailed
    from logbus.errors import ApiError
    from logbus.model import TopicPartition

    if broker_id is not None:
        there = [each.node_id for each in (await admin.describe_cluster()).nodes]
        if broker_id not in there:
            raise CommandFailed(f"there is no broker {broker_id}; there are {', '.join(map(str, there))}")
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    if topic is None:
        topics = await admin.list_topics(internal=True)
    else:
        found = (await admin.describe_topics([topic]))[topic]
        if isinstance(found, ApiError):
            raise found
        topics = [found]
    return [
        TopicPartition(each.name, number)
        for each in topics
        for number, state in each.partitions.items()
        if broker_id is None or broker_id in state.replicas
    ]


def producer_json(producer: ActiveProducer) -> dict[str, int | None]:
    """Return a producer as JSON values."""
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": none_if_unknown(producer.coordinator_epoch),
        "last_sequence": none_if_unknown(producer.last_sequence),
        "last_timestamp": none_if_unknown(producer.last_timestamp),
        "start_offset": producer.open_since,
    }


def none_if_unknown(number: int) -> int | None:
    """Return None for −1, which means unknown."""
    return None if number < 0 else number


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partition numbers by topic."""
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found


def date(at_ms: int | None) -> str | None:
    """Format a time; None if there is none, or one out of range."""
    if at_ms is None or at_ms < 0:
        return None
    try:
        return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(at_ms)
