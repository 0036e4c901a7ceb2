"""
The file format of ``logbus metadata export``: JSON with every persistent node and its data. Pure.

A loaded file is checked: it has our format, is complete, and each node can be decoded.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from logbus.errors import LogbusError
from logbus.metastore.cluster_znodes import (
    BrokerSecretZnode,
    ClusterIdZnode,
    ControllerEpochZnode,
    FeatureLevelZnode,
    ProducerIdBlockZnode,
)
from logbus.metastore.operations import BadPath
from logbus.metastore.security_znodes import AclZnode, EntityZnode
from logbus.metastore.tree import check_path
from logbus.metastore.znode_json import BadZnode
from logbus.metastore.znodes import (
    ACLS,
    BROKER_IDS,
    BROKER_SECRET,
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    FEATURES,
    PREFIXED_ACLS,
    PRODUCER_ID_BLOCK,
    TOPICS,
    ConfigZnode,
    StateZnode,
    TopicZnode,
)

FORMAT = "logbus-metadata"
VERSION = 1
ROOTS = frozenset(
    {
        "admin",
        "brokers",
        "cluster",
        "config",
        "consumers",
        "delegation_token",
        CONTROLLER_EPOCH.strip("/"),
        FEATURES.strip("/"),
        "isr_change_notification",
        "kafka-acl",
        "kafka-acl-changes",
        "kafka-acl-extended",
        "kafka-acl-extended-changes",
        PRODUCER_ID_BLOCK.strip("/"),
        "log_dir_event_notification",
    }
)
"""The nodes allowed at the root."""


class BadMetadataFile(LogbusError):
    """A file is not what ``logbus metadata export`` writes, or it is inconsistent."""


@frozen
class Metadata:
    """
    :ivar nodes: the data of each persistent node, by path.
    """

    nodes: Mapping[str, bytes]

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""
        return ClusterIdZnode.decode(self.nodes[CLUSTER_ID])

    @property
    def topics(self) -> int:
        """The number of topics."""
        return sum(path.startswith(f"{TOPICS}/") and path.count("/") == 3 for path in self.nodes)


def dump(metadata: Metadata) -> str:
    """The text of a file, a line for each node."""
    nodes = ",\n".join(
        f"  {json.dumps(path)}: {json.dumps(_written(data))}" for path, data in sorted(metadata.nodes.items())
    )
    head = {"format": FORMAT, "version": VERSION, "cluster_id": metadata.cluster_id}
    return f'{json.dumps(head)[:-1]}, "nodes": {{\n{nodes}\n}}}}\n'


def load(text: str) -> Metadata:
    """
    Parse and check a file.

    :raise BadMetadataFile: it has another format, is of a newer release, incomplete, or a node cannot be decoded.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise BadMetadataFile(f"not a file of 'logbus metadata export': not JSON ({e})") from None
    if not isinstance(given, dict) or given.get("format") != FORMAT:
        raise BadMetadataFile(f'not a file of \'logbus metadata export\': there is no "format": "{FORMAT}"')
    if given.get("version") != VERSION:
        raise BadMetadataFile(f"the file has version {given.get('version')!r}; this release reads {VERSION}")
    nodes = given.get("nodes")
    if not isinstance(nodes, dict):
        raise BadMetadataFile('the file has no "nodes"')
    metadata = Metadata({path: _read(path, value) for path, value in nodes.items()})
    check(metadata)
    if given.get("cluster_id") != metadata.cluster_id:
        raise BadMetadataFile(f'"cluster_id" is {given.get("cluster_id")!r}, and {CLUSTER_ID} another')
    return metadata


def check(metadata: Metadata) -> None:
    """
    Check that a broker could work with it.

    :raise BadMetadataFile: names the node that is missing, unexpected, or cannot be decoded.
    """
    nodes = metadata.nodes
    for path in (CLUSTER_ID, CONTROLLER_EPOCH):
        if path not in nodes:
            raise BadMetadataFile(f"{path} is missing: these are not the metadata of a cluster that was ever started")
    for path, data in nodes.items():
        _check_place(path, nodes)
        try:
            for pattern, decode in _KINDS:
                found = pattern.fullmatch(path)
                if found is not None:
                    decode(path, data, *found.groups())
        except BadZnode as e:
            raise BadMetadataFile(str(e)) from None
    _check_partitions(nodes)


def _check_place(path: str, nodes: Mapping[str, bytes]) -> None:
    try:
        check_path(path)
    except BadPath as e:
        raise BadMetadataFile(str(e)) from None
    parent, _, _ = path.rpartition("/")
    if path.split("/")[1] not in ROOTS or path == CONTROLLER or path.startswith(f"{BROKER_IDS}/"):
        raise BadMetadataFile(f"{path} is not a node that outlives brokers")
    if parent and parent not in nodes:
        raise BadMetadataFile(f"{path} has no parent")


def _check_partitions(nodes: Mapping[str, bytes]) -> None:
    """Check that each state belongs to an assigned partition, and that each leader is one of its replicas."""
    # A topic's node has all its partitions: decoded for each of them, ten thousand take minutes.
    assignments: dict[str, tuple[tuple[int, ...], ...]] = {}
    for path in nodes:
        found = _STATE.fullmatch(path)
        if found is None:
            continue
        topic, number = found[1], int(found[2])
        if topic not in assignments:
            assignments[topic] = TopicZnode.decode(topic, nodes[TopicZnode.path(topic)]).partitions
        assigned = assignments[topic]
        if number >= len(assigned):
            raise BadMetadataFile(f"{path}: the topic has {len(assigned)} partitions")
        state = StateZnode.decode(topic, number, nodes[path], 0)
        foreign = {*state.isr, *({state.leader} - {-1})} - set(assigned[number])
        if foreign:
            raise BadMetadataFile(f"{path} names brokers that have no replica: {sorted(foreign)}")


_STATE = re.compile(f"{TOPICS}/([^/]+)/partitions/([0-9]{{1,9}})/state")
_KINDS: tuple[tuple[re.Pattern[str], Callable[..., Any]], ...] = (
    (re.compile(CLUSTER_ID), lambda path, data: ClusterIdZnode.decode(data)),
    (re.compile(BROKER_SECRET), lambda path, data: BrokerSecretZnode.decode(data)),
    (re.compile(CONTROLLER_EPOCH), lambda path, data: ControllerEpochZnode.decode(data)),
    (re.compile(PRODUCER_ID_BLOCK), lambda path, data: ProducerIdBlockZnode.decode(data)),
    (re.compile(FEATURES), lambda path, data: FeatureLevelZnode.decode(data)),
    (re.compile(f"{TOPICS}/([^/]+)"), lambda path, data, topic: TopicZnode.decode(topic, data)),
    (_STATE, lambda path, data, topic, number: StateZnode.decode(topic, int(number), data, 0)),
    (
        re.compile("/config/(?:topics|brokers|groups)/([^/]+)"),
        lambda path, data, name: ConfigZnode.decode(path, data),
    ),
    (
        re.compile("/config/(?:users/[^/]+(?:/clients/[^/]+)?|clients/[^/]+|ips/[^/]+)"),
        lambda path, data: (EntityZnode.entity(path), EntityZnode.decode(path, data)),
    ),
    (re.compile(f"(?:{ACLS}|{PREFIXED_ACLS})/[^/]+/[^/]+"), AclZnode.decode),
)


def _written(data: bytes) -> str | dict[str, str]:
    """Encode data: text as it is, other bytes in base64."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _read(path: str, value: Any) -> bytes:
    try:
        if isinstance(value, str):
            return value.encode()
        return base64.b64decode(value["base64"], validate=True)
    except (ValueError, TypeError, KeyError):
        raise BadMetadataFile(f"{path} holds neither text nor base64") from None
