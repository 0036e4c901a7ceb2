"""
Formats of the small files of a log directory: offset checkpoints, ``meta.properties``, ``partition.metadata``, and the
marker of a clean shutdown.

Each file is replaced atomically and synced (:meth:`~logbus.storage.istorage.IDisk.replace`), so that a crash leaves the
old content or the new. The first line or field of each is its version; a newer one is refused.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from logbus.errors import ConfigError
from logbus.model import TopicPartition
from logbus.records.checksum import crc32c

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".logbus_cleanshutdown"
BOOT_ID = ".logbus_boot"
UNFINISHED_RESTORE = ".logbus_restoring"
"""Present while a backup is restored to the directory: some of its logs are missing."""

VERSION = 0
FORMAT = 1
"""Version of the directory's layout as a whole, in ``meta.properties``."""


def encode_lines(lines: Iterable[str]) -> bytes:
    """Encode lines in Kafka's checkpoint format: the version, the number of lines, the lines."""
    rows = list(lines)
    return "\n".join([str(VERSION), str(len(rows)), *rows, ""]).encode()


def decode_lines(data: bytes) -> list[str]:
    """
    Decode the lines of a checkpoint.

    :raises ValueError: it is damaged, or of another version.
    """
    version, count, *rows = data.decode().split("\n")
    if int(version) != VERSION:
        raise ValueError(f"version {version} is not known; {VERSION} is")
    if not rows or rows.pop() != "":
        raise ValueError("its last line is cut off")
    if len(rows) != int(count):
        raise ValueError(f"{count} lines were promised, {len(rows)} are there")
    return rows


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Encode an offset checkpoint, with a line ``topic partition offset`` for each log."""
    return encode_lines(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """
    Read an offset checkpoint.

    :raises ValueError: it is damaged.
    """
    offsets = {}
    for line in decode_lines(data):
        topic, partition, offset = line.split(" ")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


# -- partition.metadata


def encode_partition_metadata(topic_id: uuid.UUID) -> bytes:
    """Encode ``partition.metadata``, which holds the topic's id."""
    text = base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
    return f"version: 0\ntopic_id: {text}".encode()


def decode_partition_metadata(data: bytes) -> uuid.UUID:
    """
    Decode the topic id in a ``partition.metadata`` file.

    :raises ValueError: it is damaged, or of another version.
    """
    fields = dict(line.split(": ", 1) for line in data.decode().splitlines() if line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError("it has no topic id of version 0")
    return uuid.UUID(bytes=base64.urlsafe_b64decode(fields["topic_id"] + "=="))


# -- stray


@frozen
class StrayLog:
    """
    The content of the file ``stray`` of a log that was set aside, which the checkpoints do not have any more.

    :ivar since_ms: when that was, ms since 1970.
    :ivar recovery_point: the offset from which the log must be scanned before it is used again.
    """

    partition: TopicPartition
    topic_id: uuid.UUID | None
    since_ms: int
    log_start_offset: int
    recovery_point: int
    high_watermark: int

    def encode(self) -> bytes:
        """The content of the file."""
        topic, partition = self.partition
        offsets = f"{self.log_start_offset} {self.recovery_point} {self.high_watermark}"
        topic_id = "-" if self.topic_id is None else self.topic_id.hex
        return encode_lines([f"{topic} {partition} {topic_id}", str(self.since_ms), offsets])

    @classmethod
    def decode(cls, data: bytes) -> StrayLog:
        """
        Read the file.

        :raises ValueError: it is damaged, or of another version.
        """
        of, since, offsets = decode_lines(data)
        topic, partition, topic_id = of.split(" ")
        start, recovery_point, high_watermark = map(int, offsets.split(" "))
        return cls(
            TopicPartition(topic, int(partition)),
            None if topic_id == "-" else uuid.UUID(topic_id),
            int(since),
            start,
            recovery_point,
            high_watermark,
        )


# -- meta.properties


@frozen
class MetaProperties:
    """
    The content of ``meta.properties``: the broker and cluster that a log directory belongs to.

    :ivar directories: how many log directories the broker has; 0: written by a version that did not note it.
    """

    broker_id: int
    cluster_id: str
    directories: int = 0

    def encode(self) -> bytes:
        """The content of ``meta.properties``."""
        lines = ["version=0", f"logbus.format={FORMAT}", f"broker.id={self.broker_id}", f"cluster.id={self.cluster_id}"]
        if self.directories:
            lines.append(f"logbus.directories={self.directories}")
        return "\n".join([*lines, ""]).encode()

    @classmethod
    def decode(cls, data: bytes, where: str) -> MetaProperties:
        """
        Read ``meta.properties``.

        :param where: the directory, for errors.
        :raises ConfigError: it is another program's, of a newer format, or damaged.
        """
        fields = {}
        for line in data.decode("utf-8", "replace").splitlines():
            name, separator, value = line.partition("=")
            if separator and not line.startswith("#"):
                fields[name.strip()] = value.strip()
        if "logbus.format" not in fields:
            raise ConfigError(
                f"{where} is a data directory of Apache Kafka, which logbus does not take over unasked; choose an "
                "empty directory by log.dirs"
            )
        try:
            layout, broker_id = int(fields["logbus.format"]), int(fields["broker.id"])
            cluster_id, directories = fields["cluster.id"], int(fields.get("logbus.directories", 0))
        except (KeyError, ValueError) as error:
            raise ConfigError(f"{where}/{META_PROPERTIES} is damaged: {error!r}") from error
        if layout > FORMAT:
            raise ConfigError(
                f"{where} was written by a newer logbus (format {layout}); this one knows up to format {FORMAT}"
            )
        return cls(broker_id, cluster_id, directories)


# -- The marker of a clean shutdown


def encode_marker_entry(directory: str, state: Mapping[str, Any]) -> str:
    """
    Encode the state of a closed log, for :func:`encode_marker`: ten thousand at once take too long.

    :param state: JSON values.
    """
    return f"{json.dumps(directory)}:{json.dumps(state, separators=(',', ':'))}"


def encode_marker(entries: Iterable[str]) -> bytes:
    """
    Encode a marker with the state of each closed log. The first line is the CRC of the second.

    :param entries: from :func:`encode_marker_entry`.
    """
    body = f'{{"version":{FORMAT},"logs":{{{",".join(entries)}}}}}'.encode()
    return b"%08x\n" % crc32c(body) + body


def decode_marker(data: bytes) -> dict[str, Any]:
    """
    Decode a marker.

    :raises ValueError: it is damaged, or of another version; the shutdown counts as unclean.
    """
    crc, _, body = data.partition(b"\n")
    if int(crc, 16) != crc32c(body):
        raise ValueError("its CRC does not match")
    marker = json.loads(body)
    if marker["version"] != FORMAT:
        raise ValueError(f"version {marker['version']} is not known")
    logs: dict[str, Any] = marker["logs"]
    return logs
