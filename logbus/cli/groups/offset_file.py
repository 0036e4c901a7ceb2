"""
A file of committed offsets, in JSON: to keep, edit, and import into the same or another cluster.

::

    {"format": "logbus-group-offsets", "version": 1, "cluster_id": "…", "exported_at": "2026-01-31T12:00:00Z",
     "groups": [{"group": "billing",
                 "offsets": [{"topic": "orders", "partition": 0, "offset": 42, "metadata": ""}]}]}

``offset`` is that of the next record to read. ``cluster_id``, ``exported_at`` and ``metadata`` are optional.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import frozen

from logbus.admin import strict_json
from logbus.admin.json_schema import array, integer, object_schema, schema_errors, string
from logbus.cli.groups.offset_target import MAX_OFFSET
from logbus.cli.terminal_escapes import json_line
from logbus.errors import LogbusError
from logbus.model import TopicPartition

FORMAT = "logbus-group-offsets"
VERSION = 1
_MAX_FAULTS = 3

_OFFSET = object_schema(
    "An offset.",
    topic=string("Name of a topic.", minLength=1, maxLength=249),
    partition=integer("Number of a partition.", minimum=0, maximum=2**31 - 1),
    offset=integer("Of the next record to read.", minimum=0, maximum=MAX_OFFSET),
    metadata=string("What the consumer noted.", maxLength=32_767),
    optional=("metadata",),
)
_GROUP = object_schema("A group.", group=string("Its id.", minLength=1), offsets=array("What it committed.", _OFFSET))
_FILE = object_schema(
    "The file.",
    format=string("What this is.", enum=[FORMAT]),
    version=integer("Of the format.", enum=[VERSION]),
    cluster_id=string("Where it comes from."),
    exported_at=string("When."),
    groups=array("The groups.", _GROUP),
    optional=("cluster_id", "exported_at"),
)


@frozen
class SavedOffset:
    """An offset in a file."""

    offset: int
    metadata: str = ""


Saved = Mapping[str, Mapping[TopicPartition, SavedOffset]]


def write_offsets(groups: Saved, cluster_id: str | None, at_ms: int) -> str:
    """
    Return the text of a file.

    :param at_ms: the current time.
    """
    told: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    if cluster_id is not None:
        told["cluster_id"] = cluster_id
    told["exported_at"] = datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    # One line per offset, for editors and diff.
    lines = [json_line(told)[:-1] + ', "groups": [']
    lines.append(",\n".join(_group_text(group_id, offsets) for group_id, offsets in groups.items()))
    lines.append("]}")
    return "\n".join(line for line in lines if line) + "\n"


def _group_text(group_id: str, offsets: Mapping[TopicPartition, SavedOffset]) -> str:
    rows_ = [
        "  "
        + json_line({"topic": at.topic, "partition": at.partition, "offset": saved.offset, "metadata": saved.metadata})
        for at, saved in offsets.items()
    ]
    head = f' {{"group": {json_line(group_id)}, "offsets": ['
    return head + ("\n" + ",\n".join(rows_) if rows_ else "") + "]}"


def read_offsets(data: bytes, name: str) -> dict[str, dict[TopicPartition, SavedOffset]]:
    """
    Parse a file.

    :param name: the file's name, for errors.
    :raise LogbusError: the file is invalid; says where, and what is expected.
    """
    try:
        value = strict_json.loads(data)
    except ValueError as e:
        raise LogbusError(f"{name}: {str(e).replace('the body', 'it')}") from None
    if isinstance(value, dict) and value.get("format") == FORMAT and value.get("version") != VERSION:
        raise LogbusError(f"{name}: version {value.get('version')!r} of the format is not known; {VERSION} is")
    wrong = [fault for fault, _ in zip(schema_errors(_FILE, value, "$"), range(_MAX_FAULTS), strict=False)]
    if wrong:
        raise LogbusError(f"{name}: {'; '.join(wrong)}")
    found: dict[str, dict[TopicPartition, SavedOffset]] = {}
    for number, group in enumerate(value["groups"]):
        if group["group"] in found:
            raise LogbusError(f"{name}: $.groups[{number}].group is {group['group']!r}, which is there already")
        found[group["group"]] = _read_group(group["offsets"], f"{name}: $.groups[{number}].offsets")
    return found


def _read_group(offsets: Sequence[Mapping[str, Any]], where: str) -> dict[TopicPartition, SavedOffset]:
    found: dict[TopicPartition, SavedOffset] = {}
    for number, each in enumerate(offsets):
        partition = TopicPartition(each["topic"], each["partition"])
        if partition in found:
            raise LogbusError(f"{where}[{number}] is for {partition}, which is there already")
        found[partition] = SavedOffset(each["offset"], each.get("metadata", ""))
    return found
