"""``kafka-console-producer``: sends lines of its input as records (Kafka: ConsoleProducer)."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from logbus.cli.input_records import InputFormat, InputRecord
from logbus.cli.kafka_scripts.client_settings import Settings
from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.line_message_reader import CLASS, LineMessageReader
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import client_properties, key_values, with_cluster
from logbus.cli.line_producer import produce_lines
from logbus.cli.options import ACKS
from logbus.cli.record_sender import SendOptions
from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import Cluster
from logbus.errors import LogbusError
from logbus.records.compression import Codec

_NO_EFFECT = "Accepted, without an effect."

PARSER = OptionParser(
    "Sends lines of standard input as records.",
    [
        Option("topic", "topic", "The topic."),
        Option("reader-property", "prop", "Of the lines: parse.key=true, key.separator=:, …; may be repeated."),
        Option("property", "prop", "The same, as it was called before."),
        Option("reader-config", "config file", "A file of such properties."),
        Option("line-reader", "reader_class", f"Only {CLASS}, the default."),
        Option("command-property", "producer_prop", "A property of the producer, such as acks=1; may be repeated."),
        Option("producer-property", "producer_prop", "The same, as it was called before."),
        Option("producer.config", "config file", "As --command-config, as it was called before."),
        Option(
            "compression-codec",
            "compression-codec",
            "none, gzip, snappy, lz4 or zstd; gzip if none is named.",
            is_optional=True,
        ),
        Option("request-required-acks", "request required acks", "0, 1, -1 or all (the default)."),
        Option("batch-size", "size", "Bytes of a batch.", bits=32),
        Option("max-partition-memory-bytes", "memory in bytes per partition", "The same.", bits=32),
        Option("timeout", "timeout_ms", "Milliseconds to wait for a batch to fill.", bits=64),
        Option("request-timeout-ms", "request timeout ms", "Milliseconds to wait for a response.", bits=32),
        Option("sync", help="Send each batch at once."),
        Option("message-send-max-retries", "Integer", _NO_EFFECT, bits=32),
        Option("retry-backoff-ms", "Long", _NO_EFFECT, bits=64),
        Option("metadata-expiry-ms", "metadata expiration interval", _NO_EFFECT, bits=64),
        Option("max-block-ms", "max block on send", _NO_EFFECT, bits=64),
        Option("max-memory-bytes", "total memory in bytes", _NO_EFFECT, bits=64),
        Option("socket-buffer-size", "size", _NO_EFFECT, bits=32),
    ],
)

_REPLACED = {
    "property": "reader-property",
    "producer-property": "command-property",
    "producer.config": "command-config",
    "max-partition-memory-bytes": "batch-size",
}


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    options.require("topic", "bootstrap-server")
    if options.has("line-reader") and options.value("line-reader") != CLASS:
        raise UsageError(f"line-reader {options.value('line-reader')} is not served; there is {CLASS}")
    for old, new in _REPLACED.items():
        options.forbid(old, [new])
        if options.has(old):
            say(f"Warning: --{old} is deprecated and will be removed in a future version. Use --{new} instead.")
    files, pairs = ("producer.config", "command-config"), ("producer-property", "command-property")
    settings = Settings(client_properties(options, files, pairs))
    wanted = produce_options(options, settings)
    settings.complain_unused()
    input_format = line_format(options)

    async def work(cluster: Cluster, admin: AdminClient) -> None:
        await produce_lines(cluster, wanted, input_format)

    try:
        with_cluster(options, work, settings.properties)
    except LogbusError as e:
        complain(re.sub(r"^line [0-9]+: ", "", str(e)))
        return 1
    return 0


def produce_options(options: ParsedOptions, settings: Settings) -> SendOptions:
    """
    How lines are sent.

    :raise UsageError: an option or a property is wrong.
    """
    codec = settings.text("compression.type", "none")
    if options.has("compression-codec"):
        codec = options.value("compression-codec") or "gzip"
    codecs = {each.name.lower(): each for each in Codec}
    if codec not in codecs:
        raise UsageError(
            f"Invalid value {codec} for configuration compression.type: String must be one of: {', '.join(codecs)}"
        )
    acks = options.value("request-required-acks") or settings.text("acks", "all")
    if acks not in ACKS:
        raise UsageError(f"Invalid value {acks} for configuration acks: String must be one of: all, -1, 0, 1")
    batch = options.integer("batch-size") or options.integer("max-partition-memory-bytes")
    linger = options.integer("timeout")
    timeout = options.integer("request-timeout-ms")
    if linger is None:
        linger = settings.integer("linger.ms", 5)
    if timeout is None:
        timeout = settings.integer("request.timeout.ms", 30_000)
    settings.text("enable.idempotence", "")
    return SendOptions(
        topic=options.text("topic"),
        create=True,
        partition=None,
        headers=(),
        acks=ACKS[acks],
        codec=codecs[codec],
        batch_bytes=max(batch or settings.integer("batch.size", 64 * 1024), 1),
        linger=0.0 if options.has("sync") else max(linger, 0) / 1000,
        timeout=max(timeout, 1) / 1000,
    )


def line_format(options: ParsedOptions) -> InputFormat:
    """
    What lines stand for; on a terminal, asks for the next one.

    :raise UsageError: a property is wrong.
    """
    reader = LineMessageReader.of(_reader_properties(options))
    prompts = sys.stdin.isatty() and sys.stdout.isatty()
    number = 0
    if prompts:
        say(">", end="")

    def record(line: bytes) -> InputRecord:
        nonlocal number
        number += 1
        found = reader.record(line, number)
        if prompts:
            say(">", end="")
        return found

    return record


def _reader_properties(options: ParsedOptions) -> Mapping[str, str]:
    return client_properties(options, ("reader-config",)) | key_values(
        options.values("property") + options.values("reader-property")
    )
