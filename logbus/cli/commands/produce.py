"""The ``logbus produce`` command: sends lines from standard input, or records in JSON."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from logbus.cli.empty_values import AnyText
from logbus.cli.input_records import IGNORABLE, json_lines, lines
from logbus.cli.number_types import IntRange
from logbus.cli.options import (
    ACKS,
    acks_option,
    bootstrap_options,
    check_registry_auth,
    codec_option,
    json_option,
    registry_options,
)
from logbus.cli.output import print_json, quantity

if TYPE_CHECKING:
    from logbus.client.cluster.cluster import Cluster


@click.command()
@click.argument("topic")
@click.option(
    "--format",
    "-f",
    "input_format",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help="What lines are: values, or JSON objects as 'logbus consume --json' prints them.",
)
@click.option(
    "--ignore",
    type=click.Choice(IGNORABLE),
    multiple=True,
    help="What of records in JSON is chosen anew; may be repeated.",
)
@click.option(
    "--key-separator", "-K", metavar="TEXT", help="Split lines into key and value at this text. Default: no keys."
)
@click.option("--partition", "-p", type=IntRange(min=0), help="Default: chosen by the key, or any.")
@acks_option
@codec_option
@click.option(
    "--header",
    "--headers",
    "-H",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header for each record; may be repeated.",
)
@click.option(
    "--null", "null", metavar="TEXT", type=AnyText(), help="Send a line with this value as null: a tombstone."
)
@registry_options("Encode keys and values, which are JSON, by schemas of this registry: Avro, JSON Schema, Protobuf.")
@click.option(
    "--key-schema",
    metavar="SUBJECT[:VERSION]",
    help="Of keys. Default: the latest of TOPIC-key, or none.",
)
@click.option("--value-schema", metavar="SUBJECT[:VERSION]", help="Of values. Default: the latest of TOPIC-value.")
@click.option(
    "--batch-bytes", type=IntRange(min=1), default=512 * 1024, show_default=True, help="The most in one batch."
)
@click.option("--linger-ms", type=IntRange(min=0), default=20, show_default=True, help="Wait for a batch to fill.")
@click.option("--create", "create", is_flag=True, help="Let the broker create the topic, if it is configured to.")
@json_option
@bootstrap_options
def produce(
    topic: str,
    input_format: str,
    ignore: tuple[str, ...],
    key_separator: str | None,
    partition: int | None,
    acks: str,
    codec: str,
    headers: tuple[str, ...],
    null: str | None,
    registry: str | None,
    registry_auth: str | None,
    key_schema: str | None,
    value_schema: str | None,
    batch_bytes: int,
    linger_ms: int,
    create: bool,
    as_json: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Send each line from standard input as a record; the newline is not part of it.

    In JSON a record has 'value', and may have 'key', 'headers', 'partition' and 'timestamp'. A key or value is text,
    null or, as 'value_base64', base64; other JSON is sent as it is.

    \b
    Example:
      printf 'hello\\nworld\\n' | logbus produce greetings
      logbus produce prices --key-separator : --codec zstd < prices.txt
      logbus consume prices --from-beginning -e --json | logbus produce copy --format json
      logbus produce orders --registry http://127.0.0.1:8080/registry <<< '{"id": 7}'
    """
    from logbus.cli.line_producer import Encoding, produce_lines
    from logbus.cli.record_sender import SendOptions
    from logbus.cli.registry_address import RegistryAddress, Subjects
    from logbus.cli.runner import with_cluster
    from logbus.records.compression import codec_named

    check_registry_auth(registry)
    if input_format == "json" and (key_separator is not None or null is not None):
        raise click.UsageError("--key-separator and --null are for lines: in JSON a record has 'key', and null is null")
    if input_format != "json" and ignore:
        raise click.UsageError("--ignore is for records in JSON: --format json")
    if registry is None and (key_schema or value_schema):
        raise click.UsageError("--key-schema and --value-schema name schemas of a registry: give --registry")
    options = SendOptions(
        topic=topic,
        create=create,
        partition=partition,
        headers=tuple(_header(each) for each in headers),
        acks=ACKS[acks],
        codec=codec_named(codec),
        batch_bytes=batch_bytes,
        linger=linger_ms / 1000,
        timeout=timeout,
    )
    read = json_lines(ignore) if input_format == "json" else lines(_coded(key_separator), _coded(null))
    encoding = None
    if registry is not None:
        encoding = Encoding(RegistryAddress(registry, registry_auth), Subjects(key_schema, value_schema))

    async def work(cluster: Cluster) -> dict[str, Any]:
        if create:
            from logbus.cli.created_topic import create_if_absent

            await create_if_absent(cluster, topic)
        return await produce_lines(cluster, options, read, encoding)

    summary = with_cluster(bootstrap, timeout, work)
    if as_json:
        print_json(summary)
    elif sys.stderr.isatty():
        count = summary["records"]
        click.echo(f"{topic}: {count} {'record' if count == 1 else 'records'}, {quantity(summary['bytes'])}B", err=True)


def _coded(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
    return name, os.fsencode(value)
