"""
The ``logbus transactions`` commands (Kafka: TransactionsCommand); :mod:`logbus.cli.commands.transactions_abort` has
those that abort.
"""

from __future__ import annotations

import time

import click

from logbus.cli.commands.transactions_abort import abort, force_terminate
from logbus.cli.number_types import IntRange
from logbus.cli.options import bootstrap_options, json_option, transactional_id
from logbus.cli.output import print_json, print_table

# As in logbus.client.admin.transaction_results, which is not imported for --help.
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
    metavar="STATE",
    type=click.Choice(_STATES, case_sensitive=False),
    help=f"Only transactions in this state: {', '.join(_STATES)}.",
)
@click.option(
    "--producer-id", "producer_ids", multiple=True, type=IntRange(0, _MAX_INT64), help="Only this producer's."
)
@click.option(
    "--duration-filter",
    "longer_than_ms",
    type=IntRange(0, _MAX_INT64),
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
    from logbus.cli.runner import with_admin

    found = with_admin(
        bootstrap,
        timeout,
        lambda admin: admin.list_transactions(
            states=states, producer_ids=producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
        ),
    )
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
    from logbus.cli.runner import results, with_admin
    from logbus.cli.transaction_report import DESCRIPTION_HEAD, description_json, description_row

    wanted = list(dict.fromkeys([*names, *more]))
    if not wanted:
        raise click.UsageError("name a transactional id; 'logbus transactions list' prints all")
    found = results(with_admin(bootstrap, timeout, lambda admin: admin.describe_transactions(wanted)))
    now_ms = int(time.time() * 1000)
    if as_json:
        print_json([description_json(each, now_ms) for each in found])
    else:
        print_table(DESCRIPTION_HEAD, [description_row(each, now_ms) for each in found])


@transactions.command("describe-producers", short_help="Show the producer state of a partition.")
@click.option("--topic", required=True, help="The topic.")
@click.option("--partition", required=True, type=IntRange(0, _MAX_INT32), help="The partition's number.")
@click.option("--broker-id", type=IntRange(0, _MAX_INT32), help="Ask this replica instead of the leader.")
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
    from logbus.cli.runner import results, with_admin
    from logbus.cli.transaction_report import PRODUCER_HEAD, producer_json, producer_row
    from logbus.model import TopicPartition

    where = TopicPartition(topic, partition)
    (found,) = results(
        with_admin(bootstrap, timeout, lambda admin: admin.describe_producers([where], broker_id=broker_id))
    )
    if as_json:
        print_json([producer_json(each) for each in found])
    elif found:
        print_table(PRODUCER_HEAD, [producer_row(each) for each in found])


@transactions.command("find-hanging", short_help="Find hanging transactions.")
@click.option("--broker-id", type=IntRange(0, _MAX_INT32), help="Search the partitions with a replica on this broker.")
@click.option("--topic", help="Search this topic.")
@click.option("--partition", type=IntRange(0, _MAX_INT32), help="Only this partition of the topic.")
@click.option(
    "--max-transaction-timeout",
    "minutes",
    type=IntRange(0, _MAX_INT32),
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
    from logbus.cli.hanging_transactions import find_hanging_at
    from logbus.cli.runner import CommandFailed, with_admin
    from logbus.cli.transaction_report import HANGING_HEAD, hanging_json, hanging_row

    if topic is None and broker_id is None:
        raise click.UsageError("where to search? Give --broker-id or --topic")
    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic")
    now_ms = int(time.time() * 1000)
    before_ms = now_ms - minutes * 60_000
    found = with_admin(bootstrap, timeout, lambda admin: find_hanging_at(admin, topic, partition, broker_id, before_ms))
    if as_json:
        print_json([hanging_json(each) for each in found.transactions])
    elif found.transactions:
        print_table(HANGING_HEAD, [hanging_row(each, now_ms) for each in found.transactions])
    elif not found.errors:
        click.echo("no transaction hangs")
    if found.errors:
        some = [f"{partition}: {error.message}" for partition, error in sorted(found.errors.items())]
        more = f" (and {len(some) - 3} more)" if len(some) > 3 else ""
        raise CommandFailed(f"not searched: {'; '.join(some[:3])}{more}")


for _command in (abort, force_terminate):
    transactions.add_command(_command)
