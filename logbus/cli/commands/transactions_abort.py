"""The commands ``logbus transactions abort`` and ``force-terminate`` (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logbus.cli.options import bootstrap_options, transactional_id
from logbus.cli.output import printable

if TYPE_CHECKING:
    from logbus.client.admin.admin_client import AdminClient
    from logbus.client.admin.transaction_requests import AbortTransactionSpec
    from logbus.client.cluster.cluster import Cluster
    from logbus.model import TopicPartition

_MAX_INT16, _MAX_INT32, _MAX_INT64 = 2**15 - 1, 2**31 - 1, 2**63 - 1


@click.command(short_help="End a transaction that hangs, in one partition.")
@click.option("--topic", required=True, help="The topic.")
@click.option("--partition", required=True, type=click.IntRange(0, _MAX_INT32), help="The partition's number.")
@click.option(
    "--start-offset",
    type=click.IntRange(0, _MAX_INT64),
    help="The transaction's first offset there, as find-hanging prints it.",
)
@click.option("--producer-id", type=click.IntRange(0, _MAX_INT64), help="Instead of --start-offset: the producer's id,")
@click.option("--producer-epoch", type=click.IntRange(0, _MAX_INT16), help="its epoch,")
@click.option(
    "--coordinator-epoch",
    type=click.IntRange(-1, _MAX_INT32),
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
    from logbus.cli.runner import with_cluster
    from logbus.client.admin.admin_client import AdminClient
    from logbus.client.admin.transaction_requests import AbortTransactionSpec
    from logbus.model import TopicPartition

    by_producer = {
        "--producer-id": producer_id,
        "--producer-epoch": producer_epoch,
        "--coordinator-epoch": coordinator_epoch,
    }
    missing = [name for name, value in by_producer.items() if value is None]
    if start_offset is None and missing:
        which = "--start-offset, or all of --producer-id, --producer-epoch and --coordinator-epoch"
        raise click.UsageError(
            f"which transaction? Give {which}" + (f"; {missing[0]} is missing" if len(missing) < 3 else "")
        )
    if start_offset is not None and len(missing) < 3:
        raise click.UsageError("--start-offset says which transaction it is: leave out the producer")
    where = TopicPartition(topic, partition)

    async def work(cluster: Cluster) -> AbortTransactionSpec:
        admin = AdminClient(cluster, timeout=timeout)
        if start_offset is None:
            assert producer_id is not None and producer_epoch is not None and coordinator_epoch is not None
            ending = AbortTransactionSpec(producer_id, producer_epoch, max(coordinator_epoch, 0))
        else:
            ending = await transaction_at(admin, where, start_offset)
        if not force:
            await refuse_if_coordinated(admin, where, ending)
        await admin.abort_transaction(
            where,
            producer_id=ending.producer_id,
            producer_epoch=ending.producer_epoch,
            coordinator_epoch=ending.coordinator_epoch,
        )
        return ending

    ended = with_cluster(bootstrap, timeout, work)
    click.echo(
        f"{printable(str(where))}: aborted what producer {ended.producer_id} wrote in epoch {ended.producer_epoch}"
    )


async def transaction_at(admin: AdminClient, where: TopicPartition, start_offset: int) -> AbortTransactionSpec:
    """
    Return the transaction that begins at an offset.

    :raise ApiError: the partition's leader returns an error.
    :raise CommandFailed: no open transaction begins there.
    """
    from logbus.cli.hanging_transactions import open_transactions
    from logbus.cli.runner import CommandFailed
    from logbus.client.admin.transaction_requests import AbortTransactionSpec

    found = await open_transactions(admin, [where])
    for error in found.errors.values():
        raise error
    for each in found.transactions:
        if each.since == start_offset:
            # Without any marker yet it is −1; 0 is not above any coordinator's epoch.
            producer = each.producer
            return AbortTransactionSpec(
                producer.producer_id, producer.producer_epoch, max(producer.coordinator_epoch, 0)
            )
    begin = ", ".join(str(since) for since in sorted(each.since for each in found.transactions)[:10])
    there = f"those that are open begin at {begin}" if begin else "none is open"
    raise CommandFailed(f"no open transaction of {where} begins at offset {start_offset}; {there}")


async def refuse_if_coordinated(admin: AdminClient, where: TopicPartition, ending: AbortTransactionSpec) -> None:
    """
    Check that no coordinator knows the transaction, and so is going to end it.

    :raise CommandFailed: one does.
    """
    from logbus.cli.hanging_transactions import known_transactions
    from logbus.cli.runner import CommandFailed

    known = (await known_transactions(admin, [ending.producer_id])).get(ending.producer_id)
    if known is not None and where in known.partitions:
        name = printable(known.transactional_id)
        raise CommandFailed(
            f"it is a transaction of {name}, which is in state {known.state}: its coordinator ends it; "
            f"'logbus transactions force-terminate {name}' has it ended now"
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
    from logbus.cli.runner import with_cluster
    from logbus.client.admin.admin_client import AdminClient

    async def work(cluster: Cluster) -> None:
        await AdminClient(cluster, timeout=timeout).terminate_transaction(name)

    with_cluster(bootstrap, timeout, work)
