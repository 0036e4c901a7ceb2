"""``kafka-transactions``: lists, describes and aborts transactions (Kafka: TransactionsCommand)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from attrs import frozen

from logbus.cli.hanging_transactions import OpenTransaction, find_hanging_at, transaction_at
from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.java_errors import broker_text
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import with_cluster
from logbus.cli.runner import CommandFailed
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.transaction_results import ActiveProducer, ListedTransaction, TransactionDescription
from logbus.client.cluster.cluster import Cluster
from logbus.errors import ApiError, LogbusError
from logbus.model import TopicPartition

_MINUTE_MS = 60_000
_DEFAULT_TIMEOUT_MINUTES = 15

_OPTIONS = {
    "list": ("duration-filter", "transactional-id-pattern"),
    "describe": ("transactional-id",),
    "describe-producers": ("broker-id", "topic", "partition"),
    "abort": ("topic", "partition", "start-offset", "producer-id", "producer-epoch", "coordinator-epoch"),
    "find-hanging": ("broker-id", "max-transaction-timeout", "topic", "partition"),
    "forceTerminateTransaction": ("transactional-id",),
}
"""The options of each action."""

PARSER = OptionParser(
    f"Lists, describes and aborts transactions: {', '.join(_OPTIONS)}.",
    [
        Option(
            ("transactional-id", "transactionalId"),
            "TRANSACTIONAL_ID",
            "describe, forceTerminateTransaction: the transactional id.",
        ),
        Option("duration-filter", "DURATION", "list: only transactions that take longer, in milliseconds.", bits=64),
        Option("transactional-id-pattern", "PATTERN", "list: only ids that match a regular expression (RE2)."),
        Option("topic", "TOPIC", "abort, describe-producers, find-hanging: the topic."),
        Option("partition", "PARTITION", "The partition of --topic.", bits=32),
        Option("start-offset", "START_OFFSET", "abort: the first offset of the transaction.", bits=64),
        Option("producer-id", "PRODUCER_ID", "abort: instead of --start-offset, the producer.", bits=64),
        Option("producer-epoch", "PRODUCER_EPOCH", "abort: with --producer-id.", bits=16),
        Option("coordinator-epoch", "COORDINATOR_EPOCH", "abort: with --producer-id.", bits=32),
        Option("broker-id", "BROKER_ID", "describe-producers, find-hanging: the replica to ask.", bits=32),
        Option("max-transaction-timeout", "MINUTES", "find-hanging: only older ones; 15 by default.", bits=32),
    ],
)


@frozen
class _Request:
    """An action with its options."""

    action: str
    options: ParsedOptions

    async def __call__(self, cluster: Cluster, admin: AdminClient) -> None:
        match self.action:
            case "list":
                await _list(admin, self.options)
            case "describe":
                await _describe(admin, self.options.text("transactional-id"))
            case "describe-producers":
                await _describe_producers(admin, self.options)
            case "abort":
                await _abort(admin, self.options)
            case "find-hanging":
                await _find_hanging(admin, self.options)
            case _:
                await admin.terminate_transaction(self.options.text("transactional-id"))


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    action = action_of(options)
    try:
        with_cluster(options, _Request(action, options))
    except LogbusError as e:
        complain(broker_text(e) if isinstance(e, ApiError) else str(e))
        return 1
    return 0


def action_of(options: ParsedOptions) -> str:
    """
    The action.

    :raise UsageError: there is none, or options are missing or belong to another one.
    """
    if not options.words:
        raise UsageError(f"too few arguments: there are {', '.join(_OPTIONS)}")
    action = options.words[0]
    if action not in _OPTIONS or len(options.words) > 1:
        raise UsageError(f"invalid choice: '{' '.join(options.words)}' (choose from {', '.join(_OPTIONS)})")
    for name, _ in options.given:
        if name not in (*_OPTIONS[action], "bootstrap-server", "command-config"):
            there = ", ".join(f"--{each}" for each in _OPTIONS[action])
            raise UsageError(f"unrecognized arguments: '--{name}'; {action} has {there}")
    required = ["bootstrap-server"]
    if action in ("describe", "forceTerminateTransaction"):
        required.append("transactional-id")
    if action in ("describe-producers", "abort"):
        required += ["topic", "partition"]
    if action == "abort" and not options.has("start-offset"):
        if not options.has("producer-id"):
            raise UsageError("The transaction to abort must be identified either with --start-offset or --producer-id")
        required += ["producer-epoch", "coordinator-epoch"]
    if action == "find-hanging" and options.has("partition"):
        required.append("topic")
    for name in required:
        if not options.has(name):
            raise UsageError(f"argument --{name} is required")
    if action == "find-hanging" and not (options.has("broker-id") or options.has("topic")):
        raise UsageError("The search for hanging transactions must be limited with --broker-id or --topic")
    return action


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows below a head, padded to the widest value of each column, with a tab behind each value."""
    cells = [list(head), *([str(each) for each in row] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(head))]
    return "\n".join(
        "".join(f"{value.ljust(width)}\t" for value, width in zip(row, widths, strict=True)) for row in cells
    )


def list_table(found: Iterable[ListedTransaction]) -> str:
    """The table of ``list``."""
    head = ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
    return table(head, [[each.transactional_id, each.coordinator, each.producer_id, each.state] for each in found])


def description_table(each: TransactionDescription, now_ms: int) -> str:
    """The table of ``describe``."""
    head = [
        "CoordinatorId",
        "TransactionalId",
        "ProducerId",
        "ProducerEpoch",
        "TransactionState",
        "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs",
        "TransactionDurationMs",
        "TopicPartitions",
    ]
    started = each.started_ms
    return table(
        head,
        [
            [
                each.coordinator.node_id,
                each.transactional_id,
                each.producer_id,
                each.producer_epoch,
                each.state,
                each.timeout_ms,
                "None" if started is None else started,
                "None" if started is None else now_ms - started,
                ",".join(map(str, each.partitions)),
            ]
        ],
    )


def producers_table(producers: Iterable[ActiveProducer]) -> str:
    """The table of ``describe-producers``."""
    head = [
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    ]
    rows = [
        [
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp,
            "None" if each.open_since is None else each.open_since,
        ]
        for each in producers
    ]
    return table(head, rows)


def hanging_table(found: Iterable[OpenTransaction], now_ms: int) -> str:
    """The table of ``find-hanging``."""
    head = [
        "Topic",
        "Partition",
        "ProducerId",
        "ProducerEpoch",
        "CoordinatorEpoch",
        "StartOffset",
        "LastTimestamp",
        "Duration(min)",
    ]
    rows = [
        [
            *each.partition,
            each.producer.producer_id,
            each.producer.producer_epoch,
            each.producer.coordinator_epoch,
            each.since,
            each.producer.last_timestamp,
            (now_ms - each.producer.last_timestamp) // _MINUTE_MS,
        ]
        for each in found
    ]
    return table(head, rows)


async def _list(admin: AdminClient, options: ParsedOptions) -> None:
    longer, pattern = options.integer("duration-filter"), options.value("transactional-id-pattern")
    say(list_table(await admin.list_transactions(longer_than_ms=longer, pattern=pattern)))


async def _describe(admin: AdminClient, transactional_id: str) -> None:
    answer = (await admin.describe_transactions([transactional_id]))[transactional_id]
    if isinstance(answer, ApiError):
        raise CommandFailed(
            f"Failed to describe transaction state of transactional-id `{transactional_id}`: {broker_text(answer)}"
        )
    say(description_table(answer, int(time.time() * 1000)))


def _place(options: ParsedOptions) -> TopicPartition:
    return TopicPartition(options.text("topic"), options.integer("partition") or 0)


async def _describe_producers(admin: AdminClient, options: ParsedOptions) -> None:
    where, broker = _place(options), options.integer("broker-id")
    answer = (await admin.describe_producers([where], broker_id=broker))[where]
    if isinstance(answer, ApiError):
        which = "leader" if broker is None else f"broker {broker}"
        raise CommandFailed(f"Failed to describe producers for partition {where} on {which}: {broker_text(answer)}")
    say(producers_table(answer))


async def _abort(admin: AdminClient, options: ParsedOptions) -> None:
    where, offset = _place(options), options.integer("start-offset")
    if offset is not None:
        ending = await transaction_at(admin, where, offset)
        producer_id, epoch, coordinator = ending.producer_id, ending.producer_epoch, ending.coordinator_epoch
    else:
        producer_id, epoch = options.integer("producer-id") or 0, options.integer("producer-epoch") or 0
        coordinator = options.integer("coordinator-epoch") or 0
    await admin.abort_transaction(
        where, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=max(coordinator, 0)
    )


async def _find_hanging(admin: AdminClient, options: ParsedOptions) -> None:
    minutes = options.integer("max-transaction-timeout")
    now = int(time.time() * 1000)
    before = now - (_DEFAULT_TIMEOUT_MINUTES if minutes is None else minutes) * _MINUTE_MS
    found = await find_hanging_at(
        admin, options.value("topic"), options.integer("partition"), options.integer("broker-id"), before
    )
    for error in found.errors.values():
        complain(broker_text(error))
    say(hanging_table(found.transactions, now))
