"""
Paths of all znodes, and the encoding of those of brokers, topics and configs (Kafka: zk/ZkData). Pure.

The layout and the JSON are Kafka's of 0.9 and later, so tools for Kafka's tree work; our additional keys stand beside
Kafka's and are ignored by others. Each class is one kind of node, with ``path``, ``encode`` and ``decode``, without a
store. A node of a newer version than this release knows is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID

from attrs import frozen

from logbus.metastore.sanitizer import desanitize, sanitize
from logbus.metastore.znode_json import ZnodeReader, dump, uuid_from_text, uuid_text
from logbus.model import Endpoint, LeaderAndIsr, TopicPartition

FEATURE_LEVEL = 4
"""The inter-broker protocol level of this release; grows with every change of that protocol."""

LOWEST_FEATURE_LEVEL = 4
"""That of the first release: brokers with a lower one are not spoken to."""

BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
GROUP_CONFIGS = "/config/groups"
USER_CONFIGS = "/config/users"
CLIENT_CONFIGS = "/config/clients"
IP_CONFIGS = "/config/ips"
CONFIG_CHANGES = "/config/changes"
ACLS = "/kafka-acl"
PREFIXED_ACLS = "/kafka-acl-extended/prefixed"
DELEGATION_TOKENS = "/delegation_token/tokens"
DELETED_TOPICS = "/admin/delete_topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
BROKER_SECRET = "/cluster/broker_secret"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
BROKER_INCARNATIONS = "/brokers/lives"
FEATURES = "/feature_level"

DEFAULT_ENTITY = "<default>"
"""Entity name of the configuration of all brokers, and of users, client ids and addresses without their own."""

PERSISTENT_PATHS = (
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/brokers/seqid",
    "/cluster",
    "/config",
    TOPIC_CONFIGS,
    CLIENT_CONFIGS,
    USER_CONFIGS,
    IP_CONFIGS,
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    CONFIG_CHANGES,
    "/admin",
    DELETED_TOPICS,
    ACLS,
    "/kafka-acl-extended",
    PREFIXED_ACLS,
    "/delegation_token",
    DELEGATION_TOKENS,
)
"""The base nodes of a cluster, parents first."""


@frozen
class Registration:
    """
    A broker's registration.

    :ivar endpoints: addresses for clients, by listener name.
    :ivar security_protocols: by listener name (``PLAINTEXT``, ``SSL``, …).
    :ivar incarnation: a new id at every start: tells this process's node from that of an earlier one.
    :ivar timestamp: of the registration, in milliseconds since 1970.
    :ivar features: finalized feature ranges (KIP-584), by name.
    :ivar unclean_shutdown: it did not stop cleanly: its logs may lack records, even synced ones.
    :ivar unsynced_lost: the same, and its machine was restarted since: unsynced records are lost.
    :ivar logs_lost: a log directory is new: the logs of the one it replaces are lost.
    """

    broker_id: int
    endpoints: Mapping[str, Endpoint]
    incarnation: UUID
    timestamp: int
    rack: str | None = None
    security_protocols: Mapping[str, str] = MappingProxyType({})
    feature_level: int = FEATURE_LEVEL
    features: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    unsynced_lost: bool = False
    logs_lost: bool = False
    unclean_shutdown: bool = False


@frozen
class Assignment:
    """
    The replica assignment of a topic.

    :ivar partitions: replicas of each partition, the preferred leader first; indexed by partition number.
    :ivar adding: of partitions under reassignment (KIP-455): the replicas being added, by partition number;
        ``removing``: those being removed.
    """

    topic_id: UUID
    partitions: tuple[tuple[int, ...], ...]
    adding: Mapping[int, tuple[int, ...]] = MappingProxyType({})
    removing: Mapping[int, tuple[int, ...]] = MappingProxyType({})


class BrokerIdZnode:
    """``/brokers/ids/N``, ephemeral; its czxid is the broker's epoch. Version 5, as since Kafka 2.7."""

    VERSION = 5

    @staticmethod
    def path(broker_id: int) -> str:
        return f"{BROKER_IDS}/{broker_id}"

    @classmethod
    def encode(cls, registration: Registration) -> bytes:
        security = registration.security_protocols
        plain = next(
            (one for name, one in registration.endpoints.items() if security.get(name, "PLAINTEXT") == "PLAINTEXT"),
            None,
        )
        return dump(
            {
                "version": cls.VERSION,
                "host": plain.host if plain else None,
                "port": plain.port if plain else -1,
                "jmx_port": -1,
                "timestamp": str(registration.timestamp),
                "endpoints": [_url(one) for one in registration.endpoints.values()],
                "listener_security_protocol_map": {
                    name: security.get(name, "PLAINTEXT") for name in registration.endpoints
                },
                "rack": registration.rack,
                "features": {name: dict(levels) for name, levels in registration.features.items()},
                "incarnation": str(registration.incarnation),
                "feature_level": registration.feature_level,
                "unsynced_lost": registration.unsynced_lost,
                "logs_lost": registration.logs_lost,
                "unclean_shutdown": registration.unclean_shutdown,
            }
        )

    @classmethod
    def decode(cls, broker_id: int, data: bytes) -> Registration:
        with ZnodeReader(cls.path(broker_id), data, cls.VERSION) as node:
            endpoints = [_endpoint(url) for url in node["endpoints"]]
            return Registration(
                broker_id,
                {one.listener: one for one in endpoints},
                UUID(node["incarnation"]),
                int(node["timestamp"]),
                node.get("rack"),
                dict(node.get("listener_security_protocol_map", {})),
                int(node.get("feature_level", 0)),
                {name: dict(levels) for name, levels in node.get("features", {}).items()},
                bool(node.get("unsynced_lost", False)),
                bool(node.get("logs_lost", False)),
                bool(node.get("unclean_shutdown", False)),
            )


class TopicZnode:
    """``/brokers/topics/T``. Version 3, with the topic's id (KIP-516)."""

    VERSION = 3

    @staticmethod
    def path(topic: str) -> str:
        return f"{TOPICS}/{topic}"

    @staticmethod
    def partitions_path(topic: str) -> str:
        """The parent of the topic's partitions."""
        return f"{TOPICS}/{topic}/partitions"

    @classmethod
    def encode(cls, assignment: Assignment) -> bytes:
        return dump(
            {
                "version": cls.VERSION,
                "topic_id": uuid_text(assignment.topic_id),
                "partitions": {str(number): replicas for number, replicas in enumerate(assignment.partitions)},
                "adding_replicas": {str(number): replicas for number, replicas in assignment.adding.items()},
                "removing_replicas": {str(number): replicas for number, replicas in assignment.removing.items()},
            }
        )

    @classmethod
    def decode(cls, topic: str, data: bytes) -> Assignment:
        with ZnodeReader(cls.path(topic), data, cls.VERSION) as node:
            given = _replicas(node["partitions"])
            return Assignment(
                uuid_from_text(node["topic_id"]),
                tuple(given[number] for number in range(len(given))),
                _replicas(node.get("adding_replicas", {})),
                _replicas(node.get("removing_replicas", {})),
            )


class PartitionZnode:
    """``/brokers/topics/T/partitions/P``: only the parent of the partition's state."""

    @staticmethod
    def path(topic: str, partition: int) -> str:
        return f"{TOPICS}/{topic}/partitions/{partition}"


class StateZnode:
    """``/brokers/topics/T/partitions/P/state``: leader and ISR."""

    VERSION = 1

    @staticmethod
    def path(topic: str, partition: int) -> str:
        return f"{TOPICS}/{topic}/partitions/{partition}/state"

    @classmethod
    def encode(cls, state: LeaderAndIsr) -> bytes:
        # Written ten thousand at a time: formatted directly, not collected in a dictionary first.
        unproven = f',"unproven":[{",".join(map(str, state.unproven))}]' if state.unproven else ""
        return (
            f'{{"controller_epoch":{state.controller_epoch},"leader":{state.leader},"version":{cls.VERSION},'
            f'"leader_epoch":{state.leader_epoch},"isr":[{",".join(map(str, state.isr))}],'
            f'"eligible":[{",".join(map(str, state.eligible))}],"unclean_epoch":{state.unclean_epoch}'
            f"{unproven}}}"
        ).encode("ascii")

    @classmethod
    def decode(cls, topic: str, partition: int, data: bytes, version: int) -> LeaderAndIsr:
        """
        :param version: of the node: the token for the next change.
        """
        with ZnodeReader(cls.path(topic, partition), data, cls.VERSION) as node:
            return LeaderAndIsr(
                int(node["leader"]),
                int(node["leader_epoch"]),
                tuple(map(int, node["isr"])),
                int(node["controller_epoch"]),
                version,
                tuple(map(int, node.get("eligible", ()))),
                int(node.get("unclean_epoch", -1)),
                tuple(map(int, node.get("unproven", ()))),
            )


class ConfigZnode:
    """``/config/topics/T``, ``/config/brokers/N``, ``/config/groups/G``: overrides, as strings by name."""

    VERSION = 1

    @staticmethod
    def topic_path(topic: str) -> str:
        return f"{TOPIC_CONFIGS}/{topic}"

    @staticmethod
    def broker_path(entity: str) -> str:
        """
        :param entity: a broker's id, or :data:`DEFAULT_ENTITY` for all brokers.
        """
        return f"{BROKER_CONFIGS}/{entity}"

    @staticmethod
    def group_path(group_id: str) -> str:
        """
        :param group_id: any text.
        """
        return f"{GROUP_CONFIGS}/{sanitize(group_id)}"

    @staticmethod
    def group_of(name: str) -> str:
        """
        The group id of a child of ``/config/groups``.

        :raise BadZnode: it is not an encoded group id.
        """
        return desanitize(GROUP_CONFIGS, name)

    @classmethod
    def encode(cls, overrides: Mapping[str, str]) -> bytes:
        return dump({"version": cls.VERSION, "config": dict(overrides)})

    @classmethod
    def decode(cls, path: str, data: bytes) -> dict[str, str]:
        with ZnodeReader(path, data, cls.VERSION) as node:
            return {str(name): str(value) for name, value in node["config"].items()}


class DeletedTopicZnode:
    """``/admin/delete_topics/T``: marks T for deletion, until the controller has finished it."""

    @staticmethod
    def path(topic: str) -> str:
        return f"{DELETED_TOPICS}/{topic}"


class ReassignmentsZnode:
    """``/admin/reassign_partitions``: reassignments from an operator's tool; the controller begins and removes it."""

    VERSION = 1

    @classmethod
    def encode(cls, wanted: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
        return dump(
            {
                "version": cls.VERSION,
                "partitions": [
                    {"topic": name.topic, "partition": name.partition, "replicas": replicas}
                    for name, replicas in wanted.items()
                ],
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
        with ZnodeReader(REASSIGN_PARTITIONS, data, cls.VERSION) as node:
            return {
                TopicPartition(str(one["topic"]), int(one["partition"])): tuple(map(int, one["replicas"]))
                for one in node["partitions"]
            }


def _replicas(given: Mapping[str, Any]) -> dict[int, tuple[int, ...]]:
    return {int(number): tuple(map(int, replicas)) for number, replicas in given.items()}


def _url(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


_ENDPOINT = re.compile(r"(?P<listener>[^:/]+)://(?:\[(?P<v6>[^\]]*)\]|(?P<host>[^:]*)):(?P<port>\d{1,5})")


def _endpoint(url: str) -> Endpoint:
    found = _ENDPOINT.fullmatch(url)
    if found is None:
        raise ValueError(f"the endpoint {url!r} is not NAME://HOST:PORT")
    return Endpoint(found["listener"], found["v6"] or found["host"] or "", int(found["port"]))
