"""The ``logbus pipeline windows`` command: aggregates topics by time windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from logbus.cli.output import print_json
from logbus.cli.pipeline_job import Job, job_options, kafka_options
from logbus.cli.pipeline_options import outputs_of, parse_named, payload_of, payload_options, query_options, source_of


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option("--size", metavar="DURATION", help="Size of the windows, such as '1 hour'.")
@click.option(
    "--slide", metavar="DURATION", help="Start a window at this interval, so that they overlap; default: the size."
)
@click.option("--session", metavar="DURATION", help="Instead of --size: a window ends after this time without events.")
@click.option(
    "--by", "by", multiple=True, metavar="COLUMN|NAME=EXPRESSION", help="Also group by this; may be repeated."
)
@click.option(
    "--aggregate",
    "aggregates",
    multiple=True,
    metavar="NAME=EXPRESSION",
    default=("count=count(*)",),
    show_default=True,
    help="What to compute, such as paid=sum(price); may be repeated.",
)
@click.option(
    "--watermark", metavar="DURATION", default="10 minutes", show_default=True, help="How late events may be."
)
@payload_options
@query_options
@kafka_options
@job_options
def windows(
    topics: tuple[str, ...],
    size: str | None,
    slide: str | None,
    session: str | None,
    by: tuple[str, ...],
    aggregates: tuple[str, ...],
    watermark: str,
    source_settings: tuple[str, ...],
    checkpoint: str,
    every: float | None,
    max_late_share: float,
    close_open: bool,
    kafka: Mapping[str, str],
    job: Job,
    **given: Any,
) -> None:
    """Count or aggregate the events of topics by time windows; writes each window once, when the watermark has passed
    it.

    Expressions are Spark SQL over the columns of the events and the column event_time.

    \b
    Example:
      logbus pipeline windows views --payload json --schema 'user STRING, page STRING, at TIMESTAMP' \\
          --event-time at --size '1 hour' --by page --to-topic hourly --checkpoint lake/hourly-checkpoint
      logbus pipeline windows views --session '30 minutes' --by 'user=cast(key AS STRING)' \\
          --to-table lake/sessions --checkpoint lake/sessions-checkpoint --every 10
    """
    from logbus.pipeline.jobs.event_stream import EventStream
    from logbus.pipeline.jobs.streaming_query import QuerySettings
    from logbus.pipeline.jobs.windows import SessionWindow, SlidingWindow, TumblingWindow, Window, WindowsOptions, run

    if bool(size) == bool(session) or (slide and not size):
        raise click.UsageError("say how windows are made: --size, --size with --slide, or --session")
    window: Window = (
        SessionWindow(session) if session else SlidingWindow(str(size), slide) if slide else TumblingWindow(str(size))
    )
    groups = parse_named([each if "=" in each else _as_column(each) for each in by], "--by", "page or day=date(at)")
    options = WindowsOptions(
        stream=EventStream(
            source={"subscribe": ",".join(topics), **kafka, **source_of(source_settings)},
            payload=payload_of(topics, given),
            watermark=watermark,
        ),
        window=window,
        by=groups,
        aggregates=parse_named(aggregates, "--aggregate", "paid=sum(price)"),
        outputs=outputs_of(given, kafka, ["window_start", *groups], topics),
        running=QuerySettings(checkpoint, every, max_late_share, close_open),
    )
    done = job.run(lambda spark, watch: run(spark, options, watch), options.check)
    print_json(done.as_json())


def _as_column(name: str) -> str:
    """A column as an expression, named as the column is."""
    quoted = name.replace("`", "``")
    return f"{name}=`{quoted}`"
