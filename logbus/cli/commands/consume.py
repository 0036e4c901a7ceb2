"""The ``logbus consume`` command: prints records."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

import click

from logbus.cli.number_types import IntRange
from logbus.cli.options import (
    bootstrap_options,
    check_registry_auth,
    filter_options,
    group_id,
    registry_options,
    timestamp_ms,
    wanted_records,
)
from logbus.cli.terminal_escapes import for_terminal

if TYPE_CHECKING:
    from logbus.client.cluster.cluster import Cluster


@click.command()
@click.argument("topic")
@click.option(
    "--partition", "-p", "partitions", type=IntRange(min=0), multiple=True, help="Default: all; may be repeated."
)
@click.option("--from-beginning", is_flag=True, help="Start at the first record.")
@click.option(
    "--offset", "-o", type=int, help="Start at this offset; -5 means the last five records of each partition."
)
@click.option(
    "--timestamp",
    "--from",
    "-t",
    metavar="WHEN",
    help="Start at this time: milliseconds since 1970, or 2024-05-01T12:00.",
)
@click.option("--until", metavar="WHEN", help="Stop at this time, or at the current end.")
@filter_options
@click.option(
    "--group",
    "-g",
    type=group_id,
    metavar="ID",
    help="Consume as a member of this group, from its committed offsets (without any: from the end, or with "
    "--from-beginning from the first record). Commits what was printed. With --partition, does not join the group.",
)
@click.option("--max-records", "-n", type=IntRange(min=0), help="Stop after this many records.")
@click.option("--exit-at-end", "-e", is_flag=True, help="Stop at the current end.")
@click.option(
    "--isolation-level",
    "isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="Whether to read records of transactions only after their commit.",
)
@registry_options("Print keys and values that have a schema of this registry as JSON: Avro, JSON Schema, Protobuf.")
@click.option("--key-separator", "-K", metavar="TEXT", help="Print the key and this text before the value.")
@click.option(
    "--format",
    "-f",
    "template",
    metavar="TEXT",
    help="The format of a record: %t topic, %p partition, %o offset, %T timestamp, %k key, %v value, %h headers, "
    "%%, \\n and \\t. Default: the value and a newline.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line.")
@bootstrap_options
def consume(
    topic: str,
    partitions: tuple[int, ...],
    from_beginning: bool,
    offset: int | None,
    timestamp: str | None,
    until: str | None,
    patterns: tuple[str, ...],
    conditions: tuple[str, ...],
    group: str | None,
    max_records: int | None,
    exit_at_end: bool,
    isolation: Literal["read_uncommitted", "read_committed"],
    registry: str | None,
    registry_auth: str | None,
    key_separator: str | None,
    template: str | None,
    as_json: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Print records: by default new ones as they arrive, until Ctrl-C.

    On a terminal, control characters in records are escaped, as in \\x1b; in a pipe or a file they are unchanged.

    \b
    Example:
      logbus consume greetings --from-beginning --exit-at-end
      logbus consume orders --offset -10 --json
      logbus consume orders --timestamp 2024-05-01T12:00 --format '%p %o %k=%v\\n'
      logbus consume orders --from 2024-05-01 --until 2024-05-02 --filter value.total>=100 --json
      logbus consume orders --group billing --exit-at-end
    """
    from twisted.internet.defer import CancelledError

    from logbus.cli.record_printer import RecordPrinter, record_format
    from logbus.cli.registry_address import RegistryAddress
    from logbus.cli.runner import with_cluster
    from logbus.cli.topic_reader import ReadOptions, consume_topic

    check_registry_auth(registry)
    if group is not None and (offset is not None or timestamp is not None):
        raise click.UsageError(
            "a group begins where it left off: --offset and --timestamp go without --group, and 'logbus groups "
            "reset-offsets' moves a group"
        )
    if sum((from_beginning, offset is not None, timestamp is not None)) > 1:
        raise click.UsageError("only one of --from-beginning, --offset and --timestamp can be given")
    if sum((template is not None, as_json, key_separator is not None)) > 1:
        raise click.UsageError("only one of --format, --json and --key-separator can be given")
    options = ReadOptions(
        topic=topic,
        partitions=partitions,
        from_beginning=from_beginning,
        offset=offset,
        at_ms=None if timestamp is None else timestamp_ms(timestamp, "--from (--timestamp)"),
        until_ms=None if until is None else timestamp_ms(until, "--until"),
        wanted=wanted_records(conditions, patterns),
        registry=None if registry is None else RegistryAddress(registry, registry_auth),
        group=group,
        limit=max_records,
        exit_at_end=exit_at_end,
        isolation=isolation,
    )
    # Records may contain escape sequences that a terminal would obey; a pipe gets the bytes unchanged.
    escape = for_terminal if sys.stdout.isatty() else bytes
    printer = RecordPrinter(record_format(template, as_json, key_separator, escape))

    async def work(cluster: Cluster) -> None:
        is_complete = await consume_topic(cluster, options, printer)
        if not is_complete and (exit_at_end or until is not None or max_records is not None):
            # A script must not take a part for all that it asked for.
            raise CancelledError

    with_cluster(bootstrap, timeout, work)
