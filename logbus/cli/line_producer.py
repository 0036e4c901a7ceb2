"""Sends lines from standard input as records, for ``logbus produce``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen
from twisted.internet.defer import CancelledError

from logbus.cli.input_records import InputFormat
from logbus.cli.line_reader import LineReader, LineTooLong
from logbus.cli.record_sender import REFUSED, RecordSender, SendOptions, existing_topic
from logbus.cli.runner import CommandFailed
from logbus.client.cluster.cluster import Cluster
from logbus.errors import LogbusError

if TYPE_CHECKING:
    from logbus.cli.registry_address import RegistryAddress, Subjects

_FLUSH_SECONDS = 5.0
"""Seconds in which lines that were read are still sent after Ctrl-C."""


@frozen
class Encoding:
    """The encoding of keys and values: schemas of a registry."""

    registry: RegistryAddress
    subjects: Subjects


async def produce_lines(
    cluster: Cluster, options: SendOptions, input_format: InputFormat, encoding: Encoding | None = None
) -> dict[str, Any]:
    """
    Send the lines of standard input.

    :param input_format: what lines stand for.
    :param encoding: None: keys and values are sent as they are.
    :returns: a summary, as JSON values.
    :raise CommandFailed: a line cannot be sent, or a batch failed; lines before it are sent.
    """
    topic = await existing_topic(cluster, options, f"'logbus topics create {options.topic}', or by --create")
    if encoding is not None:
        input_format = await _encoded(cluster, options.topic, input_format, encoding)
    lines = LineReader(cluster.reactor)
    sender = RecordSender(cluster, topic, options, on_failure=lines.stop)
    try:
        await _send_lines(lines, sender, input_format)
        await sender.flush()
    except CancelledError:
        # Lines that were read are sent, since they are gone from the input.
        await sender.flush(_FLUSH_SECONDS)
        raise
    finally:
        lines.stop()
        sender.stop()
    return sender.summary()


async def _encoded(cluster: Cluster, topic: str, plain: InputFormat, encoding: Encoding) -> InputFormat:
    from logbus.cli.registry_encoder import encoded_by_registry

    registry = encoding.registry.open(cluster.reactor, cluster.timeout)
    try:
        return await encoded_by_registry(plain, registry, topic, encoding.subjects)
    finally:
        await registry.close()


async def _send_lines(lines: LineReader, sender: RecordSender, input_format: InputFormat) -> None:
    read = 0
    while not sender.has_failed:
        size = 0
        try:
            found = await lines.more()
            if found is None:
                break
            size = sum(map(len, found))
            _put_lines(found, read, sender, input_format)
            read += len(found)
        except (LineTooLong, LogbusError) as problem:
            sender.refuse(problem)
        await sender.room(size)


def _put_lines(lines: Sequence[bytes], read: int, sender: RecordSender, input_format: InputFormat) -> None:
    """
    Send lines.

    :param read: how many there were before them.
    """
    now = int(time.time() * 1000)
    for number, line in enumerate(lines, read + 1):
        try:
            record = input_format(line)
            if record is not None:
                sender.put(record, now)
        except REFUSED as problem:
            raise CommandFailed(f"line {number}: {problem}") from None
