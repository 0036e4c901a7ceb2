"""The commands of ``logbus topics`` that write topics to files and files to topics."""

from __future__ import annotations

from typing import Literal

import click

from logbus.cli.input_records import IGNORABLE
from logbus.cli.number_types import IntRange
from logbus.cli.options import (
    ACKS,
    acks_option,
    bootstrap_options,
    codec_option,
    filter_options,
    json_option,
    overwrite_option,
    timestamp_ms,
    wanted_records,
)
from logbus.cli.output import print_json, quantity
from logbus.wording import counted


@click.command("export", short_help="Write a topic's records to a file.")
@click.argument("topic")
@click.argument("file")
@click.option(
    "--partition", "-p", "partitions", type=IntRange(min=0), multiple=True, help="Default: all; may be repeated."
)
@click.option("--from", "since", metavar="WHEN", help="Records from this time on: as for 'logbus consume'.")
@click.option("--until", metavar="WHEN", help="Records before this time. Default: up to the current end.")
@filter_options
@click.option(
    "--isolation-level",
    "isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_committed",
    show_default=True,
    help="Whether records of transactions are written only if these were committed.",
)
@overwrite_option
@json_option
@bootstrap_options
def export_topic(
    topic: str,
    file: str,
    partitions: tuple[int, ...],
    since: str | None,
    until: str | None,
    patterns: tuple[str, ...],
    conditions: tuple[str, ...],
    isolation: Literal["read_uncommitted", "read_committed"],
    overwrite: bool,
    as_json: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Write a topic's records to FILE: JSON lines, Avro or Parquet, as its name ends in .jsonl, .avro or .parquet.

    \b
    Example:
      logbus topics export orders orders.parquet
      logbus topics export orders may.jsonl --from 2026-05-01 --until 2026-06-01
    """
    from logbus.cli.new_file import check_new_file
    from logbus.cli.record_files.record_file import format_of
    from logbus.cli.runner import with_cluster
    from logbus.cli.topic_files import export_topic as export
    from logbus.cli.topic_reader import ReadOptions

    options = ReadOptions(
        topic=topic,
        partitions=partitions,
        from_beginning=since is None,
        offset=None,
        at_ms=None if since is None else timestamp_ms(since, "--from"),
        until_ms=None if until is None else timestamp_ms(until, "--until"),
        wanted=wanted_records(conditions, patterns),
        group=None,
        limit=None,
        exit_at_end=True,
        isolation=isolation,
    )
    file_format = format_of(file)
    check_new_file(file, overwrite=overwrite)
    summary = with_cluster(
        bootstrap, timeout, lambda cluster: export(cluster, options, file, file_format, overwrite=overwrite)
    )
    if as_json:
        print_json(summary)
    else:
        click.echo(f"{file}: {counted(summary['records'], 'record')}, {quantity(summary['bytes'])}B")


@click.command("import", short_help="Send the records of a file.")
@click.argument("topic")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--ignore", type=click.Choice(IGNORABLE), multiple=True, help="What is chosen anew; may be repeated.")
@acks_option
@codec_option
@json_option
@bootstrap_options
def import_topic(
    topic: str,
    file: str,
    ignore: tuple[str, ...],
    acks: str,
    codec: str,
    as_json: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Send the records of FILE, which 'logbus topics export' or another program wrote.

    Avro and Parquet must have a column 'value', and may have 'key', 'headers', 'partition' and 'timestamp'.

    \b
    Example:
      logbus topics import orders orders.parquet
      logbus topics import orders may.jsonl --ignore partition
    """
    from logbus.cli.record_files.record_file import format_of
    from logbus.cli.record_sender import SendOptions
    from logbus.cli.runner import with_cluster
    from logbus.cli.topic_files import import_topic as send
    from logbus.records.compression import codec_named

    options = SendOptions(
        topic=topic, acks=ACKS[acks], codec=codec_named(codec), batch_bytes=512 * 1024, linger=0.02, timeout=timeout
    )
    file_format = format_of(file)
    with open(file, "rb") as opened:
        summary = with_cluster(bootstrap, timeout, lambda cluster: send(cluster, options, opened, file_format, ignore))
    if as_json:
        print_json(summary)
    else:
        click.echo(f"{topic}: {counted(summary['records'], 'record')}, {quantity(summary['bytes'])}B")
