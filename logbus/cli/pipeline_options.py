"""Options that commands of ``logbus pipeline`` share: what values are, and where results go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logbus.cli.options import parse_pairs

if TYPE_CHECKING:
    from logbus.pipeline.jobs.outputs import Output
    from logbus.pipeline.payloads.payload import Payload

F = TypeVar("F", bound=Callable[..., Any])


def payload_options(command: F) -> F:
    """What records' values are, as :func:`payload_of` takes it."""
    for option in (
        click.option(
            "--into", metavar="COLUMN", default="", help="One column for the whole event, not one for each field."
        ),
        click.option("--event-time", metavar="FIELD", default="", help="The event's time; else the record's is taken."),
        click.option(
            "--subject", metavar="NAME", help="Of Avro without --schema: its newest version; else TOPIC-value."
        ),
        click.option(
            "--registry-auth", metavar="USER:PASSWORD", default="", envvar="LOGBUS_REGISTRY_AUTH", help="For it."
        ),
        click.option(
            "--registry", metavar="URL", help="The schema registry of Avro, such as http://127.0.0.1:8080/registry."
        ),
        click.option(
            "--schema",
            metavar="SCHEMA",
            help="Of JSON: 'user STRING, at TIMESTAMP'; of Avro: its JSON; @FILE: a file.",
        ),
        click.option(
            "--payload",
            type=click.Choice(["raw", "json", "avro"]),
            default="raw",
            show_default=True,
            help="What values are.",
        ),
    ):
        command = option(command)
    return command


def payload_of(topics: Sequence[str], given: Mapping[str, Any]) -> Payload:
    """
    What to make of values.

    :param topics: those that are read, if they are named.
    :param given: the values of :func:`payload_options`, by parameter.
    :raise click.UsageError: options are missing or do not go together.
    """
    kind, schema = given["payload"], given["schema"]
    if kind != "avro" and (given["registry"] or given["subject"]):
        raise click.UsageError("--registry and --subject are for --payload avro")
    if kind == "raw":
        if schema or given["event_time"] or given["into"]:
            raise click.UsageError("--schema, --event-time and --into are for --payload json and avro")
        from logbus.pipeline.payloads.payload import RawPayload

        return RawPayload()
    if kind == "json":
        if not schema:
            raise click.UsageError("--payload json needs --schema, such as 'user STRING, at TIMESTAMP'")
        from logbus.pipeline.payloads.payload import JsonPayload

        return JsonPayload(schema=text_of(schema), event_time=given["event_time"], into=given["into"])
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
    )


def text_of(given: str) -> str:
    """What is given, or what is in the file that is named behind an ``@``."""
    if not given.startswith("@"):
        return given
    with click.open_file(given[1:]) as file:
        return str(file.read())


def named(given: Sequence[str], option: str, example: str) -> dict[str, str]:
    """
    Read ``NAME=TEXT`` arguments, such as expressions by the names of columns.

    :param example: of one, for errors.
    :raise click.BadParameter: one is not of that form, or empty, or a name comes twice.
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
    """How a stream is read, where results go, and how often, as :func:`outputs_of` takes it."""
    for option in (
        click.option(
            "--source",
            "source_settings",
            multiple=True,
            metavar="KEY=VALUE",
            help="An option of reading, such as maxOffsetsPerTrigger=100000; may be repeated.",
        ),
        click.option(
            "--every",
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            help="Go on, with a batch so often; else take what there is, and end.",
        ),
        click.option(
            "--max-late-share",
            type=click.FloatRange(0, 1),
            metavar="SHARE",
            default=0.01,
            show_default=True,
            help="Fail if more of the events than this are late, and so are left out; 1: never.",
        ),
        click.option(
            "--checkpoint",
            required=True,
            metavar="DIR",
            help="Where the query remembers how far it is; a directory of its own.",
        ),
        click.option(
            "--partition-by",
            multiple=True,
            metavar="COLUMN",
            help="Of --to-table: have a directory for each of its values; may be repeated.",
        ),
        click.option("--to-table", metavar="DIR", help="Write to a table of Parquet files."),
        click.option(
            "--sink",
            multiple=True,
            metavar="KEY=VALUE",
            help="Of --to-topic: an option of writing, such as kafka.compression.type=zstd; may be repeated.",
        ),
        click.option(
            "--tasks",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            help="Of --to-topic: how many write, each in transactions of its own; it stays as it is.",
        ),
        click.option("--to-topic", metavar="TOPIC", help="Write JSON to a topic, in transactions."),
    ):
        command = option(command)
    return command


def source_of(settings: Sequence[str]) -> dict[str, str]:
    """
    Options of reading, as :func:`query_options` has them.

    :raise click.BadParameter: one is not of the form ``KEY=VALUE``.
    """
    return parse_pairs(settings, "--source", "maxOffsetsPerTrigger=100000")


def outputs_of(given: Mapping[str, Any], kafka: Mapping[str, str], key: Sequence[str]) -> list[Output]:
    """
    The outputs.

    :param given: the values of :func:`query_options`, by parameter.
    :param kafka: how to connect.
    :param key: columns that records' keys are made of.
    :raise click.UsageError: there is none, or something is said of one that there is not.
    """
    from logbus.pipeline.jobs.outputs import ToTable, ToTopic

    sink = parse_pairs(given["sink"], "--sink", "kafka.compression.type=zstd")
    found: list[Output] = []
    if given["to_topic"]:
        found.append(ToTopic({"topic": given["to_topic"], **kafka, **sink}, key, given["tasks"]))
    elif sink or given["tasks"] > 1:
        raise click.UsageError("--sink and --tasks are for --to-topic")
    if given["to_table"]:
        found.append(ToTable(given["to_table"], given["partition_by"]))
    elif given["partition_by"]:
        raise click.UsageError("--partition-by is for --to-table")
    if not found:
        raise click.UsageError("say where the result goes: --to-topic, --to-table, or both")
    return found
