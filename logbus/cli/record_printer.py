"""Prints records for ``logbus consume``: values, keys and values, JSON, or by a template."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence

import click

from logbus.cli.output import PROGRESS_INTERVAL, Progress, as_text, quantity
from logbus.cli.terminal_escapes import json_line
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.model import TopicPartition
from logbus.records.record import Record, readable_name

RecordFormat = Callable[[str, int, Record | ConsumerRecord], bytes]


class RecordPrinter:
    """Prints records; shows their number on the terminal if the output is redirected."""

    def __init__(self, render: RecordFormat) -> None:
        self._render = render
        self._progress = Progress(PROGRESS_INTERVAL) if not sys.stdout.isatty() else None
        self._count = 0

    def show(self, partition: TopicPartition, records: Sequence[ConsumerRecord]) -> None:
        """Print records of a partition."""
        out = sys.stdout.buffer
        out.write(b"".join([self._render(partition.topic, partition.partition, each) for each in records]))
        out.flush()
        self._count += len(records)
        if self._progress is not None:
            self._progress.show(f"{quantity(self._count)} records")

    def clear_progress(self) -> None:
        """Remove the number of records from the terminal."""
        if self._progress is not None:
            self._progress.clear()

    def close(self) -> None:
        """Remove the number of records."""
        self.clear_progress()


def record_format(
    template: str | None, as_json: bool, key_separator: str | None, show: Callable[[bytes], bytes] = bytes
) -> RecordFormat:
    """
    Return the function that formats a record.

    :param show: applied to keys, values and headers, except in JSON.
    """
    if as_json:
        return _as_json
    if template is not None:
        return _by_template(template, show)
    if key_separator is not None:
        between = key_separator.encode("utf-8", "surrogateescape")
        return lambda topic, partition, record: b"".join(
            (show(record.key or b""), between, show(record.value or b""), b"\n")
        )
    return lambda topic, partition, record: show(record.value or b"") + b"\n"


def _as_json(topic: str, partition: int, record: Record | ConsumerRecord) -> bytes:
    found: dict[str, object] = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **as_text("key", record.key),
        **as_text("value", record.value),
    }
    if record.headers:
        found["headers"] = [{"name": readable_name(name), **as_text("value", value)} for name, value in record.headers]
    return json_line(found).encode() + b"\n"


_ESCAPES = {"\\n": b"\n", "\\t": b"\t", "\\r": b"\r", "\\0": b"\0", "\\\\": b"\\", "%%": b"%"}
_FIELDS: dict[str, RecordFormat] = {
    "%t": lambda topic, partition, record: topic.encode(),
    "%p": lambda topic, partition, record: b"%d" % partition,
    "%o": lambda topic, partition, record: b"%d" % record.offset,
    "%T": lambda topic, partition, record: b"%d" % record.timestamp,
}
_CONTENTS: dict[str, RecordFormat] = {
    "%k": lambda topic, partition, record: record.key or b"",
    "%v": lambda topic, partition, record: record.value or b"",
    "%s": lambda topic, partition, record: record.value or b"",
    "%h": lambda topic, partition, record: b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + (value or b"") for name, value in record.headers
    ),
}
"""The fields that producers set."""


def _escaped_fields(render: RecordFormat, show: Callable[[bytes], bytes]) -> RecordFormat:
    return lambda topic, partition, record: show(render(topic, partition, record))


def _by_template(template: str, show: Callable[[bytes], bytes]) -> RecordFormat:
    parts: list[bytes | RecordFormat] = []
    for each in re.findall(r"\\.|%.|[^\\%]+|.", template, re.DOTALL):
        if each in _FIELDS:
            parts.append(_FIELDS[each])
        elif each in _CONTENTS:
            parts.append(_escaped_fields(_CONTENTS[each], show))
        elif each in _ESCAPES:
            parts.append(_ESCAPES[each])
        elif each.startswith("%"):
            known = " ".join([*_FIELDS, *_CONTENTS, "%%"])
            raise click.BadParameter(f"{each!r} is not known; there are {known}", param_hint="--format")
        else:
            parts.append(each.encode("utf-8", "surrogateescape"))

    def render(topic: str, partition: int, record: Record | ConsumerRecord) -> bytes:
        return b"".join([each if isinstance(each, bytes) else each(topic, partition, record) for each in parts])

    return render
