"""The ``logbus pipeline load`` command: loads topics into a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from logbus.cli.number_types import FloatRange, IntRange
from logbus.cli.options import timestamp_ms
from logbus.cli.output import print_json
from logbus.cli.pipeline_job import Job, job_options, kafka_options
from logbus.cli.pipeline_options import (
    option_of_vacuum,
    payload_of,
    payload_options,
    store_of,
    subscription,
    table_options,
)


@click.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option("--pattern", metavar="REGEX", help="Topics whose names it matches, instead of TOPIC.")
@click.option(
    "--table",
    required=True,
    metavar="DIR",
    help="The table's directory or URL; of Iceberg its name, such as lake.views.",
)
@table_options
@click.option("--since", metavar="WHEN", help="Records from this time on: as for 'logbus consume --timestamp'.")
@click.option("--until", metavar="WHEN", help="Records before this time.")
@click.option(
    "--offsets",
    metavar="JSON",
    help='Begin at these offsets of all partitions: {"orders": {"0": 23, "1": -2}}; -2 is the first.',
)
@click.option("--end-offsets", metavar="JSON", help="Stop before these offsets; -1 means the end.")
@click.option("--headers", is_flag=True, help="Keep the records' headers, in a separate column.")
@click.option("--batch-offsets", type=IntRange(min=1), default=1_000_000, show_default=True, help="Offsets per commit.")
@click.option(
    "--partition-by",
    metavar="none|date|hour|COLUMN",
    default="",
    help="Directories for each date or hour of the event's time, or each value of a column; default: as the table has "
    "them, and none for a new one.",
)
@click.option(
    "--min-partitions",
    type=IntRange(min=1),
    metavar="TASKS",
    help="Read in about this many tasks; default: one per partition.",
)
@click.option(
    "--follow",
    type=FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Keep running: look for new records at this interval.",
)
@click.option(
    "--compact",
    type=IntRange(min=0),
    default=0,
    metavar="BATCHES",
    help="Merge small files after this many batches, and at the end; 0: never.",
)
@option_of_vacuum
@click.option(
    "--late-after",
    type=FloatRange(min=0),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="Count events that are older than their records by more than this.",
)
@click.option(
    "--allow-data-loss", is_flag=True, help="Continue, with a warning, if records were deleted before they were loaded."
)
@click.option("--dry-run", is_flag=True, help="Only print how many offsets would be loaded.")
@payload_options
@kafka_options
@job_options
def load(
    topics: tuple[str, ...],
    pattern: str | None,
    table: str,
    table_format: str | None,
    store_settings: tuple[str, ...],
    catalog: str,
    since: str | None,
    until: str | None,
    offsets: str | None,
    end_offsets: str | None,
    headers: bool,
    batch_offsets: int,
    partition_by: str,
    min_partitions: int | None,
    compact: int,
    vacuum: float,
    follow: float | None,
    late_after: float,
    allow_data_loss: bool,
    dry_run: bool,
    kafka: Mapping[str, str],
    job: Job,
    **given: Any,
) -> None:
    """Load topics into a table, each record exactly once, even if the job is killed.

    Records that the table contains are not loaded again: the same command continues a load, and other times or offsets
    fill gaps. Prints a report at the end.

    \b
    Example:
      logbus pipeline load events --table lake/events
      logbus pipeline load events --table lake/views --payload json \\
          --schema 'user STRING, page STRING, at TIMESTAMP' --event-time at
      logbus pipeline load events --table lake/events --since 2024-05-01T00:00 --until 2024-05-02T00:00
    """
    from logbus.pipeline.jobs.load import LoadOptions, remaining, run

    which = subscription(topics, pattern)
    source = {
        "startingTimestamp": None if since is None else str(timestamp_ms(since, "--since")),
        "endingTimestamp": None if until is None else str(timestamp_ms(until, "--until")),
        "startingOffsets": offsets,
        "endingOffsets": end_offsets,
        "failOnDataLoss": "false" if allow_data_loss else None,
        "includeHeaders": "true" if headers else None,
        "minPartitions": None if min_partitions is None else str(min_partitions),
    }
    with _options_named():
        options = LoadOptions(
            source={
                **kafka,
                **which,
                **{name: value for name, value in source.items() if value is not None},
            },
            table=table,
            format=table_format or "",
            store_options=store_of(store_settings),
            catalog=catalog,
            payload=payload_of(topics, given),
            batch_offsets=batch_offsets,
            partition_by=partition_by,
            compact=compact,
            vacuum=vacuum,
            follow=follow,
            late_after=late_after,
        )
        done = job.run(
            lambda spark, watch: remaining(spark, options) if dry_run else run(spark, options, watch), options.check
        )
    print_json(done.as_json())


_NAMES = {
    "startingOffsets": "--offsets",
    "endingOffsets": "--end-offsets",
    "startingTimestamp": "--since",
    "endingTimestamp": "--until",
    "minPartitions": "--min-partitions",
    "subscribePattern": "--pattern",
    "partition_by": "--partition-by",
    "late_after": "--late-after",
}
"""This command's options by those of the source and of the job that they set."""

_NAMED = re.compile(rf"(?:option )?'?\b({'|'.join(_NAMES)})\b'?")


@contextmanager
def _options_named() -> Iterator[None]:
    """Have errors about options name those of the command."""
    from logbus.pipeline.errors import OptionError

    try:
        yield
    except OptionError as e:
        raise OptionError(_NAMED.sub(lambda found: _NAMES[found[1]], str(e))) from e
