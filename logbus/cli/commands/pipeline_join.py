"""The ``logbus pipeline join`` command: joins two topics, or a topic with a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from logbus.cli.output import print_json
from logbus.cli.pipeline_job import Job, job_options, kafka_options
from logbus.cli.pipeline_options import outputs_of, parse_named, query_options, source_of, text_of

if TYPE_CHECKING:
    from logbus.pipeline.payloads.payload import Payload

_OF_STREAMS = ("before", "after", "watermark", "close_open", "max_late_share")
"""Options without an effect where the right side is a table."""


@click.command()
@click.argument("left")
@click.argument("right")
@click.option(
    "--left-schema",
    metavar="SCHEMA",
    help="The schema of LEFT's JSON: 'user STRING, at TIMESTAMP', or @FILE; default: bytes.",
)
@click.option("--right-schema", metavar="SCHEMA", help="The same for RIGHT.")
@click.option("--left-time", metavar="FIELD", default="", help="LEFT's event time; default: the record's time.")
@click.option("--right-time", metavar="FIELD", default="", help="The same for RIGHT.")
@click.option("--left-into", metavar="COLUMN", default="", help="One column for all of LEFT's JSON: l.COLUMN.FIELD.")
@click.option("--right-into", metavar="COLUMN", default="", help="The same for RIGHT.")
@click.option(
    "--left-metadata-as",
    metavar="columns|NAME",
    default="",
    help="The topic, partition, offset, timestamp and key of LEFT's records: columns, or fields of one of this name; "
    "default: columns, or if the event has a field of such a name, kafka.",
)
@click.option("--right-metadata-as", metavar="columns|NAME", default="", help="The same for RIGHT.")
@click.option("--table", "is_table", is_flag=True, help="Treat RIGHT as a table: the newest record of each key.")
@click.option(
    "--on", "on", multiple=True, required=True, metavar="LEFT=RIGHT", help="Fields that must be equal; may be repeated."
)
@click.option(
    "--select",
    "select",
    multiple=True,
    required=True,
    metavar="NAME=EXPRESSION",
    help="A column, computed from l.FIELD and r.FIELD; may be repeated.",
)
@click.option(
    "--before", metavar="DURATION", default="0 seconds", show_default=True, help="How much earlier RIGHT may be."
)
@click.option("--after", metavar="DURATION", default="1 hour", show_default=True, help="How much later RIGHT may be.")
@click.option(
    "--as-of",
    metavar="DURATION",
    default="",
    help="Instead of --before and --after: only the latest RIGHT, which is at most this much earlier.",
)
@click.option(
    "--kind",
    type=click.Choice(["inner", "left", "right", "full"]),
    default="inner",
    show_default=True,
    help="left, right: also LEFT, or RIGHT, without a match; full: both.",
)
@click.option(
    "--watermark", metavar="DURATION", default="10 minutes", show_default=True, help="How late events may be."
)
@click.option(
    "--key", "key", multiple=True, metavar="NAME", help="A column for the key of --to-topic; may be repeated."
)
@query_options
@kafka_options
@job_options
def join(
    left: str,
    right: str,
    left_schema: str | None,
    right_schema: str | None,
    left_time: str,
    right_time: str,
    left_into: str,
    right_into: str,
    left_metadata_as: str,
    right_metadata_as: str,
    is_table: bool,
    on: tuple[str, ...],
    select: tuple[str, ...],
    before: str,
    after: str,
    as_of: str,
    kind: str,
    watermark: str,
    key: tuple[str, ...],
    source_settings: tuple[str, ...],
    checkpoint: str,
    every: float | None,
    max_late_share: float,
    close_open: bool,
    kafka: Mapping[str, str],
    job: Job,
    **given: Any,
) -> None:
    """Join the events of one topic with those of another, by equal fields and by time; or with a compacted topic as a
    table.

    \b
    Example:
      logbus pipeline join views clicks --left-schema 'user STRING, page STRING' \\
          --right-schema 'user STRING, ad STRING' --on user=user --after '10 minutes' \\
          --select user=l.user --select ad=r.ad \\
          --to-topic clicked --checkpoint lake/clicked-checkpoint
      logbus pipeline join views users --table --left-schema 'user STRING' --right-schema 'id STRING, name STRING' \\
          --on user=id --kind left --select user=l.user --select name=r.name \\
          --to-table lake/named --checkpoint lake/named-checkpoint
      logbus pipeline join flights weather --left-schema 'origin STRING, dest STRING' \\
          --right-schema 'origin STRING, wind DOUBLE' --on origin=origin --as-of '2 hours' --kind left \\
          --select dest=l.dest --select wind=r.wind --to-topic windy --checkpoint lake/windy-checkpoint
    """
    if as_of and {"before", "after"} & _given():
        raise click.UsageError("--as-of says how much earlier RIGHT may be; it takes no --before and --after")
    if is_table and (useless := [each for each in _OF_STREAMS if each in _given()]):
        raise click.UsageError(
            f"--{useless[0].replace('_', '-')} is for two streams: with --table no event waits, and none is late"
        )
    from logbus.pipeline.jobs.event_stream import EventStream
    from logbus.pipeline.jobs.joins import JoinOptions, run
    from logbus.pipeline.jobs.streaming_query import QuerySettings
    from logbus.pipeline.jobs.table_topic import TableTopic

    reading = {**kafka, **source_of(source_settings)}
    mine = EventStream(
        source={"subscribe": left, **reading},
        payload=_payload("left", left_schema, left_time, left_into, left_metadata_as),
        watermark=watermark,
    )
    payload = _payload("right", right_schema, right_time, right_into, right_metadata_as)
    theirs: EventStream | TableTopic = (
        TableTopic(source={"subscribe": right, **kafka}, payload=payload)
        if is_table
        else EventStream(source={"subscribe": right, **reading}, payload=payload, watermark=watermark)
    )
    columns = parse_named(select, "--select", "user=l.user")
    if unknown := sorted(set(key) - columns.keys()):
        raise click.UsageError(f"--key {unknown[0]}: there is no such --select; there are {', '.join(columns)}")
    options = JoinOptions(
        left=mine,
        right=theirs,
        on=parse_named(on, "--on", "user=id"),
        select=columns,
        before=before,
        after=after,
        as_of=as_of,
        kind=kind,
        outputs=outputs_of(given, kafka, key, (left, right)),
        running=QuerySettings(checkpoint, every, max_late_share, close_open),
    )
    done = job.run(lambda spark, watch: run(spark, options, watch), options.check)
    print_json(done.as_json())


def _given() -> set[str]:
    """The options on the command line."""
    context = click.get_current_context()
    return {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def _payload(side: str, schema: str | None, time: str, into: str, metadata: str) -> Payload:
    from logbus.pipeline.errors import OptionError
    from logbus.pipeline.payloads.payload import JsonPayload, RawPayload

    if schema is None:
        for option, value in (("time", time), ("into", into), ("metadata-as", metadata)):
            if value:
                field = ", with a field of this name" if option == "time" else ""
                raise click.UsageError(f"--{side}-{option} {value} needs --{side}-schema{field}")
        return RawPayload()
    try:
        return JsonPayload(schema=text_of(schema), event_time=time, into=into, metadata=metadata)
    except OptionError as e:
        said = str(e).replace("--into", f"--{side}-into").replace("--metadata-as", f"--{side}-metadata-as")
        raise OptionError(f"--{side}-schema: {said}") from None
