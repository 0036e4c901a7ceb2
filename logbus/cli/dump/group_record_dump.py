"""
Decodes records of ``__consumer_offsets`` for :mod:`logbus.cli.dump.file_dump`.

An item has the ``kind`` of the record, its key fields, and its value fields or ``tombstone``. A record that cannot be
decoded (a newer broker may have written it) stays bytes, with the reason in ``undecodable``.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from logbus.cli.output import as_text
from logbus.coordination.group_records import UnknownKey, decode_change
from logbus.errors import DecodeError
from logbus.records.record import Record
from logbus.wire.declaration import is_struct, struct_spec
from logbus.wire.member_metadata import read_assignment, read_subscription
from logbus.wire.messages.consumer_protocol import PROTOCOL_TYPE
from logbus.wire.messages.group_log import (
    ConsumerGroupCurrentMemberAssignmentValue,
    GroupMetadataValue,
    OffsetCommitValue,
    OwnedTopicPartitions,
)
from logbus.wire.messages.partitions import TopicIdPartitions

Item = dict[str, Any]

_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MEMBER_STATES: Mapping[int, str] = MappingProxyType(
    {0: "stable", 1: "unrevoked_partitions", 2: "unreleased_partitions"}
)


def decoded(record: Record) -> Item:
    """Decode a record into an item."""
    raw = {**as_text("key", record.key), **as_text("value", record.value)}
    try:
        change = decode_change(record.key, record.value)
    except DecodeError as e:
        return raw | {"undecodable": str(e)}
    if isinstance(change, UnknownKey):
        return raw | {"undecodable": f"a key of version {change.version} is not known here"}
    key, value = change
    kind = _WORDS.sub("_", type(key).__name__.removesuffix("Key")).lower()
    item: Item = {"kind": kind, **_fields(key)}
    if "group_id" in item:
        item = {"kind": kind, "group": item.pop("group_id"), **{name: item[name] for name in item if name != "kind"}}
    if value is None:
        return item | {"tombstone": True}
    if isinstance(value, OffsetCommitValue):
        return item | _offset(value)
    if isinstance(value, GroupMetadataValue):
        return item | _group(value)
    fields = _fields(value)
    if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        fields["state"] = _MEMBER_STATES.get(value.state, value.state)
        fields["assignment_epochs"] = _epochs([*value.assigned_partitions, *value.partitions_pending_revocation])
    return item | fields


def _offset(value: OffsetCommitValue) -> Item:
    # The record has an offset of its own.
    fields = _fields(value)
    return {"committed_offset": fields.pop("offset"), **fields}


def _group(value: GroupMetadataValue) -> Item:
    fields = {name: each for name, each in _fields(value).items() if name != "members"}
    return fields | {"members": [_member(each, value.protocol_type == PROTOCOL_TYPE) for each in value.members]}


def _member(member: Any, is_consumer: bool) -> Item:
    fields = _fields(member)
    if is_consumer:
        for name in ("subscription", "assignment"):
            fields.pop(f"{name}_base64")
        fields["subscription"] = list(read_subscription(member.subscription))
        fields["assignment"] = {}
        for topic, partition in read_assignment(member.assignment):
            fields["assignment"].setdefault(topic, []).append(partition)
    return fields


def _fields(message: Any) -> Item:
    item: Item = {}
    for name in struct_spec(type(message)).fields:
        value = getattr(message, name)
        if isinstance(value, (bytes, bytearray, memoryview)):
            item[f"{name}_base64"] = base64.b64encode(value).decode()
        else:
            item[name] = _json_value(value)
    return item


def _json_value(value: Any) -> Any:
    if isinstance(value, list):
        if value and isinstance(value[0], (TopicIdPartitions, OwnedTopicPartitions)):
            return _partitions(value)
        return [_json_value(each) for each in value]
    return _fields(value) if is_struct(type(value)) else value


def _partitions(topics: Iterable[TopicIdPartitions | OwnedTopicPartitions]) -> dict[str, list[int]]:
    """Partitions by topic id: the records do not contain names."""
    return {_topic_id(each): list(each.partitions) for each in topics}


def _epochs(topics: Iterable[OwnedTopicPartitions]) -> dict[str, dict[str, int]]:
    """The epochs in which the member got its partitions, as far as they are known."""
    return {
        _topic_id(each): dict(zip(map(str, each.partitions), each.assignment_epochs, strict=False))
        for each in topics
        if each.assignment_epochs is not None
    }


def _topic_id(topic: TopicIdPartitions | OwnedTopicPartitions) -> str:
    return str(uuid.UUID(bytes=bytes(topic.topic_id)))
