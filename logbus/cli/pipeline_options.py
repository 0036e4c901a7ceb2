"""Options that commands of ``logbus pipeline`` share: the format of values, the source, and the outputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logbus.cli.number_types import FloatRange, IntRange
from logbus.cli.options import check_registry_auth, max_share_option, parse_pairs, registry_auth_option, registry_urls

if TYPE_CHECKING:
    from logbus.pipeline.jobs.outputs import Output
    from logbus.pipeline.payloads.payload import Payload

F = TypeVar("F", bound=Callable[..., Any])


def payload_options(command: F) -> F:
    """Add the options for the format of values; see :func:`payload_of`."""
    for option in (
        click.option(
            "--metadata-as",
            metavar="columns|NAME",
            default="",
            help="The record's topic, partition, offset, timestamp and key: columns, or one of this name with all of "
            "them; default: as the table has them; else columns, or if the event has a field of such a name, kafka.",
        ),
        click.option(
            "--into", metavar="COLUMN", default="", help="One column for the whole event instead of one per field."
        ),
        click.option("--event-time", metavar="FIELD", default="", help="The event's time; default: the record's time."),
        click.option(
            "--subject", metavar="NAME", help="For Avro without --schema: the subject to use; default: TOPIC-value."
        ),
        registry_auth_option(default=""),
        click.option(
            "--registry",
            metavar="URL",
            callback=registry_urls,
            help="The schema registry for Avro, such as http://127.0.0.1:8080/registry.",
        ),
        click.option(
            "--schema",
            metavar="SCHEMA",
            help="For JSON: 'user STRING, at TIMESTAMP'; for Avro: its JSON; @FILE: a file.",
        ),
        click.option(
            "--payload",
            type=click.Choice(["raw", "json", "avro"]),
            default="raw",
            show_default=True,
            help="The format of values.",
        ),
    ):
        command = option(command)
    return command


def payload_of(topics: Sequence[str], given: Mapping[str, Any]) -> Payload:
    """
    Return the payload that the options describe.

    :param topics: the topics to read, if they are named.
    :param given: the values of :func:`payload_options`, by parameter.
    :raise click.UsageError: options are missing or conflict.
    """
    kind, schema = given["payload"], given["schema"]
    check_registry_auth(given["registry"])
    if kind != "avro" and (given["registry"] or given["subject"]):
        raise click.UsageError("--registry and --subject are for --payload avro")
    if kind == "raw":
        if schema or given["event_time"] or given["into"] or given["metadata_as"]:
            raise click.UsageError("--schema, --event-time, --into and --metadata-as are for --payload json and avro")
        from logbus.pipeline.payloads.payload import RawPayload

        return RawPayload()
    if kind == "json":
        if not schema:
            raise click.UsageError("--payload json needs --schema, such as 'user STRING, at TIMESTAMP'")
        from logbus.pipeline.payloads.payload import JsonPayload

        return JsonPayload(
            schema=text_of(schema),
            event_time=given["event_time"],
            into=given["into"],
            metadata=given["metadata_as"],
        )
    return _avro(topics, given)


def _avro(topics: Sequence[str], given: Mapping[str, Any]) -> Payload:
    from logbus.pipeline.blocking.schema_registry import RegistryClient
    from logbus.pipeline.payloads.avro_payload import AvroPayload

    if not given["registry"]:
        raise click.UsageError("--payload avro needs --registry, such as http://127.0.0.1:8080/registry")
    schema, subject = given["schema"], given["subject"]
    if not schema and not subject:
        if len(topics) != 1:
            raise click.UsageError("of several topics --payload avro needs --schema or --subject")
        subject = f"{topics[0]}-value"
    return AvroPayload(
        registry=RegistryClient(given["registry"], given["registry_auth"]),
        schema=text_of(schema) if schema else "",
        subject="" if schema else subject,
        event_time=given["event_time"],
        into=given["into"],
        metadata=given["metadata_as"],
    )


def text_of(given: str) -> str:
    """
    Return the schema that is given, or for ``@FILE`` that in the file.

    :raise click.UsageError: the file cannot be read.
    """
    if not given.startswith("@"):
        return given
    try:
        with click.open_file(given[1:]) as file:
            return str(file.read())
    except OSError as e:
        raise click.UsageError(f"the schema {given} is in no file that can be read: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise click.UsageError(f"the schema {given} is in a file that is not text: {e}") from e


def parse_named(given: Sequence[str], option: str, example: str) -> dict[str, str]:
    """
    Parse ``NAME=TEXT`` arguments, such as expressions by column name.

    :param example: an example for errors.
    :raise click.BadParameter: one does not have this form, is empty, or repeats a name.
    """
    found: dict[str, str] = {}
    for each in given:
        ((name, text),) = parse_pairs([each], option, example).items()
        if not text.strip():
            raise click.BadParameter(f"{name!r} is of nothing; it takes more, such as {example}", param_hint=option)
        if name in found:
            raise click.BadParameter(f"{name!r} is there twice; each takes a name of its own", param_hint=option)
        found[name] = text
    return found


def query_options(command: F) -> F:
    """Add the options of a streaming query; see :func:`source_of` and :func:`outputs_of`."""
    for option in (
        click.option(
            "--source",
            "source_settings",
            multiple=True,
            metavar="KEY=VALUE",
            help="An option of the source, such as maxOffsetsPerTrigger=100000; may be repeated.",
        ),
        click.option(
            "--every",
            type=FloatRange(min=0),
            metavar="SECONDS",
            help="Keep running, with a batch at this interval; default: process existing records and stop.",
        ),
        click.option(
            "--close-open",
            is_flag=True,
            help="At the end, also write what is still open, as if later events had come.",
        ),
        max_share_option("--max-late-share", 0.01, "of the events is late, and so dropped"),
        click.option(
            "--checkpoint",
            required=True,
            metavar="DIR",
            help="The directory for the query's progress; each query needs its own.",
        ),
        click.option(
            "--partition-by",
            multiple=True,
            metavar="COLUMN",
            help="With --to-table: a directory for each value of this column; may be repeated.",
        ),
        store_options,
        option_of_catalog,
        option_of_format,
        click.option("--to-table", metavar="DIR", help="Write to a table."),
        click.option(
            "--sink",
            multiple=True,
            metavar="KEY=VALUE",
            help="With --to-topic: an option of the sink, such as kafka.compression.type=zstd; may be repeated.",
        ),
        click.option(
            "--tasks",
            type=IntRange(min=1),
            default=1,
            show_default=True,
            help="With --to-topic: tasks that write, each with its own transactions; cannot be changed later.",
        ),
        click.option("--to-topic", metavar="TOPIC", help="Write JSON to a topic, in transactions."),
    ):
        command = option(command)
    return command


def table_options(command: F) -> F:
    """Add the options of a table that is written: its format, and options of its store; see :func:`store_of`."""
    return option_of_format(option_of_catalog(store_options(command)))


def option_of_format(command: F) -> F:
    """Add the option for the format of a table."""
    return click.option(
        "--format",
        "table_format",
        type=click.Choice(["parquet", "delta", "iceberg"]),
        help="The table's format; default: as the table has it, and parquet for a new one.",
    )(command)


def option_of_catalog(command: F) -> F:
    """Add the option for the catalog of a table of Iceberg."""
    return click.option(
        "--catalog",
        default="",
        metavar="NAME",
        help="In which a table of Iceberg is, of PyIceberg's configuration; default: the one called 'default'.",
    )(command)


def option_of_vacuum(command: F) -> F:
    """Add the option for the age at which files of old versions of a table are deleted."""
    return click.option(
        "--vacuum",
        type=FloatRange(min=0),
        default=0,
        metavar="DAYS",
        help="Delete files, and expire Iceberg's snapshots, that only readers of versions older than this need, from "
        "1; 0: never.",
    )(command)


def store_options(command: F) -> F:
    """Add the option for an object store; see :func:`store_of`."""
    return click.option(
        "--store-option",
        "store_settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="Of an object store, such as AWS_REGION=eu-north-1; others come from the environment.",
    )(command)


def store_of(settings: Sequence[str]) -> dict[str, str]:
    """
    Parse the options of an object store.

    :raise click.BadParameter: one does not have the form ``NAME=VALUE``.
    """
    return parse_pairs(settings, "--store-option", "AWS_ENDPOINT_URL=http://127.0.0.1:9000")


def subscription(topics: Sequence[str], pattern: str | None) -> dict[str, str]:
    """
    Return the source's options for topics or a pattern.

    :raise click.UsageError: both are given, or neither.
    """
    if topics and pattern:
        raise click.UsageError(
            f"topics are named ({', '.join(topics)}), and --pattern is {pattern!r}: give one of the two"
        )
    if not topics and not pattern:
        raise click.UsageError("say which topics: their names, or --pattern")
    return {"subscribePattern": pattern} if pattern else {"subscribe": ",".join(topics)}


def source_of(settings: Sequence[str]) -> dict[str, str]:
    """
    Parse the options of the source.

    :raise click.BadParameter: one does not have the form ``KEY=VALUE``, or says which topics are read.
    """
    found = parse_pairs(settings, "--source", "maxOffsetsPerTrigger=100000")
    for name in found:
        if name.lower() in ("assign", "subscribe", "subscribepattern"):
            raise click.BadParameter(
                f"{name!r} is not for this command, whose arguments are the topics", param_hint="--source"
            )
    return found


def outputs_of(
    given: Mapping[str, Any], kafka: Mapping[str, str], key: Sequence[str], topics: Collection[str]
) -> list[Output]:
    """
    Return the outputs that the options describe.

    :param given: the values of :func:`query_options`, by parameter.
    :param kafka: the options of the source; those about connections are the sink's as well.
    :param key: columns that form the records' keys.
    :param topics: those that the job reads.
    :raise click.UsageError: there is no output, it is read by the job itself, or an option belongs to a missing one.
    """
    from logbus.pipeline.jobs.outputs import ToTable, ToTopic
    from logbus.pipeline.sink.options import connection_options

    sink = parse_pairs(given["sink"], "--sink", "kafka.compression.type=zstd")
    found: list[Output] = []
    if given["to_topic"]:
        if given["to_topic"] in topics and not any(name.lower().endswith("bootstrap.servers") for name in sink):
            raise click.BadParameter(
                f"the job reads {given['to_topic']!r}, so that it would read what it writes; give another topic",
                param_hint="--to-topic",
            )
        options = {"topic": given["to_topic"], **connection_options(kafka), **sink}
        found.append(ToTopic(options, key, given["tasks"]))
    elif sink or given["tasks"] > 1:
        raise click.UsageError("--sink and --tasks are for --to-topic")
    if given["to_table"]:
        found.append(
            ToTable(
                given["to_table"],
                given["partition_by"],
                given["table_format"] or "",
                store_of(given["store_settings"]),
                given["catalog"],
            )
        )
    elif given["partition_by"] or given["table_format"] or given["store_settings"] or given["catalog"]:
        raise click.UsageError("--partition-by, --format, --catalog and --store-option are for --to-table")
    if not found:
        raise click.UsageError("say where the result goes: --to-topic, --to-table, or both")
    return found
