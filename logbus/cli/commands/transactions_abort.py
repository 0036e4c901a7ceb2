"""The commands ``logbus transactions abort`` and ``force-terminate`` (KIP-664)."""

from __future__ import annotations

import click

from logbus.cli.number_types import IntRange
from logbus.cli.options import bootstrap_options, transactional_id
from logbus.cli.output import printable

_MAX_INT16, _MAX_INT32, _MAX_INT64 = 2**15 - 1, 2**31 - 1, 2**63 - 1


@click.command(short_help="End a transaction that hangs, in one partition.")
@click.option("--topic", required=True, help="The topic.")
@click.option("--partition", required=True, type=IntRange(0, _MAX_INT32), help="The partition's number.")
@click.option(
    "--start-offset",
    type=IntRange(0, _MAX_INT64),
    help="The transaction's first offset there, as find-hanging prints it.",
)
@click.option("--producer-id", type=IntRange(0, _MAX_INT64), help="Instead of --start-offset: the producer's id.")
@click.option("--producer-epoch", type=IntRange(0, _MAX_INT16), help="With --producer-id: the producer's epoch.")
@click.option(
    "--coordinator-epoch",
    type=IntRange(-1, _MAX_INT32),
    help="and the epoch of the coordinator that last ended a transaction of it; -1: none.",
)
@click.option(
    "--force", is_flag=True, help="Skip the check with the coordinators. A logbus broker makes it nevertheless."
)
@bootstrap_options
def abort(
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    force: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Abort a transaction in one partition by a marker to the partition's leader: for transactions that no coordinator
    knows any more.

    A transaction that its coordinator knows is refused: the abort would affect this partition only. The coordinator
    ends it after its timeout, or at once with 'logbus transactions force-terminate'.

    \b
    Example:
      logbus transactions abort --topic orders --partition 3 --start-offset 1234
    """
    from logbus.cli.hanging_transactions import abort_transaction
    from logbus.cli.runner import with_admin
    from logbus.client.admin.transaction_requests import AbortTransactionSpec
    from logbus.model import TopicPartition

    by_producer = {
        "--producer-id": producer_id,
        "--producer-epoch": producer_epoch,
        "--coordinator-epoch": coordinator_epoch,
    }
    missing = [name for name, value in by_producer.items() if value is None]
    if start_offset is None and missing:
        needed = "--start-offset, or all of --producer-id, --producer-epoch and --coordinator-epoch"
        raise click.UsageError(
            f"which transaction? Give {needed}" + (f"; {missing[0]} is missing" if len(missing) < 3 else "")
        )
    if start_offset is not None and len(missing) < 3:
        raise click.UsageError("--start-offset says which transaction it is: leave out the producer")
    where = TopicPartition(topic, partition)
    if start_offset is not None:
        which: int | AbortTransactionSpec = start_offset
    else:
        assert producer_id is not None and producer_epoch is not None and coordinator_epoch is not None
        which = AbortTransactionSpec(producer_id, producer_epoch, max(coordinator_epoch, 0))
    ended = with_admin(bootstrap, timeout, lambda admin: abort_transaction(admin, where, which, force=force))
    click.echo(
        f"{printable(str(where))}: aborted what producer {ended.producer_id} wrote in epoch {ended.producer_epoch}"
    )


@click.command("force-terminate", short_help="Abort a transaction and fence its producer.")
@click.argument("name", type=transactional_id, metavar="TRANSACTIONAL_ID")
@bootstrap_options
def force_terminate(name: str, bootstrap: str, timeout: float) -> None:
    """Have the coordinator abort the transaction of a transactional id in all partitions, and fence its producer, which
    gets errors until it is restarted.

    \b
    Example:
      logbus transactions force-terminate billing-1
    """
    from logbus.cli.runner import with_admin

    with_admin(bootstrap, timeout, lambda admin: admin.terminate_transaction(name))
