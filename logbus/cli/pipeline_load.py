"""``logbus pipeline load``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logbus.cli.options import when
from logbus.cli.output import print_json
from logbus.cli.pipeline import job_options, kafka_options, kafka_settings, run_job

if TYPE_CHECKING:
    from logbus.pipeline.jobs.payloads import Payload


@click.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option("--pattern", metavar="REGEX", help="Topics whose names it matches, instead of TOPIC.")
@click.option(
    "--table", required=True, metavar="DIR", help="Where the files go: a directory, or a URL that Spark knows."
)
@click.option("--since", metavar="WHEN", help="Records from this time on: as for 'logbus consume --timestamp'.")
@click.option("--until", metavar="WHEN", help="Records before this time.")
@click.option(
    "--offsets",
    metavar="JSON",
    help='Begin at these offsets of all partitions: {"orders": {"0": 23, "1": -2}}; -2 is the first.',
)
@click.option("--end-offsets", metavar="JSON", help="End before these offsets; -1 is behind the last.")
@click.option(
    "--payload", type=click.Choice(["raw", "json", "avro"]), default="raw", show_default=True, help="What values are."
)
@click.option(
    "--schema", metavar="SCHEMA", help="Of JSON: 'user STRING, at TIMESTAMP'; of Avro: its JSON; @FILE: a file."
)
@click.option("--registry", metavar="URL", help="The schema registry of Avro, such as http://127.0.0.1:8080/registry.")
@click.option("--registry-auth", metavar="USER:PASSWORD", default="", envvar="LOGBUS_REGISTRY_AUTH", help="For it.")
@click.option("--subject", metavar="NAME", help="Of Avro without --schema: its newest version; else TOPIC-value.")
@click.option("--event-time", metavar="FIELD", default="", help="The event's time; else the record's is taken.")
@click.option("--headers", is_flag=True, help="Keep the records' headers, in a column of their own.")
@click.option("--into", metavar="COLUMN", default="", help="One column for the whole event, not one for each field.")
@click.option(
    "--batch-offsets", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="Of one commit."
)
@click.option(
    "--min-partitions", type=click.IntRange(min=1), metavar="TASKS", help="Read in about so many; else one a partition."
)
@click.option(
    "--follow",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="When all is loaded, wait so long and look for more.",
)
@click.option(
    "--compact",
    type=click.IntRange(min=0),
    default=0,
    metavar="BATCHES",
    help="Make few large files of many small ones after so many batches, and at the end; 0: never.",
)
@click.option(
    "--late-after",
    type=click.FloatRange(min=0),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="Count events that are older than their records by more.",
)
@click.option(
    "--allow-data-loss", is_flag=True, help="Go on where records are gone before they were loaded, and say so."
)
@click.option("--dry-run", is_flag=True, help="Say how many offsets would be loaded, and change nothing.")
@kafka_options
@job_options
def load(
    topics: tuple[str, ...],
    pattern: str | None,
    table: str,
    since: str | None,
    until: str | None,
    offsets: str | None,
    end_offsets: str | None,
    payload: str,
    schema: str | None,
    registry: str | None,
    registry_auth: str,
    subject: str | None,
    event_time: str,
    headers: bool,
    into: str,
    batch_offsets: int,
    min_partitions: int | None,
    compact: int,
    follow: float | None,
    late_after: float,
    allow_data_loss: bool,
    dry_run: bool,
    bootstrap: str,
    kafka_settings_: tuple[str, ...],
    master: str | None,
    spark_settings: tuple[str, ...],
    report: str | None,
    quiet: bool,
) -> None:
    """Load topics into a table of Parquet files, each record exactly once, however often the job is killed.

    What the table has already is not loaded again, so the same command continues, and one with other times or offsets
    fills in. At the end the report is printed.

    \b
    Example:
      logbus pipeline load events --table lake/events
      logbus pipeline load events --table lake/views --payload json \\
          --schema 'user STRING, page STRING, at TIMESTAMP' --event-time at
      logbus pipeline load events --table lake/events --since 2024-05-01T00:00 --until 2024-05-02T00:00
    """
    from logbus.pipeline.jobs.load import LoadOptions, remaining, run

    if bool(topics) == bool(pattern):
        raise click.UsageError("say which topics: their names, or --pattern")
    source = kafka_settings(bootstrap, kafka_settings_)
    source |= {"subscribePattern": pattern} if pattern else {"subscribe": ",".join(topics)}
    if since is not None:
        source["startingTimestamp"] = str(when(since, "--since"))
    if until is not None:
        source["endingTimestamp"] = str(when(until, "--until"))
    if offsets is not None:
        source["startingOffsets"] = offsets
    if end_offsets is not None:
        source["endingOffsets"] = end_offsets
    if allow_data_loss:
        source["failOnDataLoss"] = "false"
    if headers:
        source["includeHeaders"] = "true"
    if min_partitions is not None:
        source["minPartitions"] = str(min_partitions)
    if payload == "avro":
        only = topics[0] if len(topics) == 1 else None
        made = _avro(schema, registry, registry_auth, subject or (f"{only}-value" if only else None), event_time, into)
    else:
        if registry or subject:
            raise click.UsageError("--registry and --subject are for --payload avro")
        made = _payload(payload, schema, event_time, into)
    options = LoadOptions(
        source=source,
        table=table,
        payload=made,
        batch_offsets=batch_offsets,
        compact=compact,
        follow=follow,
        late_after=late_after,
    )
    done = run_job(
        "load",
        lambda spark, watch: remaining(spark, options) if dry_run else run(spark, options, watch),
        master=master,
        spark_settings=spark_settings,
        report=report,
        quiet=quiet,
    )
    print_json(done.as_json())


def _payload(kind: str, schema: str | None, event_time: str, into: str) -> Payload:
    from logbus.pipeline.jobs.payloads import JsonPayload, RawPayload

    if kind == "raw":
        if schema or event_time or into:
            raise click.UsageError("--schema, --event-time and --into are for --payload json and avro")
        return RawPayload()
    if not schema:
        raise click.UsageError("--payload json needs --schema, such as 'user STRING, at TIMESTAMP'")
    return JsonPayload(schema=_text(schema), event_time=event_time, into=into)


def _avro(
    schema: str | None, registry: str | None, auth: str, subject: str | None, event_time: str, into: str
) -> Payload:
    from logbus.pipeline.jobs.avro_payload import AvroPayload
    from logbus.pipeline.jobs.registry import Registry

    if not registry:
        raise click.UsageError("--payload avro needs --registry, such as http://127.0.0.1:8080/registry")
    if not schema and not subject:
        raise click.UsageError("of several topics --payload avro needs --schema or --subject")
    return AvroPayload(
        registry=Registry(registry, auth),
        schema=_text(schema) if schema else "",
        subject="" if schema else subject or "",
        event_time=event_time,
        into=into,
    )


def _text(given: str) -> str:
    """What is given, or in the file that is named."""
    if not given.startswith("@"):
        return given
    with click.open_file(given[1:]) as file:
        return str(file.read())
