"""
Every node that we keep: where it is, what it holds, and how that is spelled.

The layout and the JSON are Kafka's of 0.9 and later, so that tools which know Kafka's tree find their way; keys that
are ours come beside Kafka's and are ignored by others. Each class stands for one kind of node: ``path``, ``encode`` and
``decode``, without a store. A node of a newer version than we know is refused.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID

from attrs import frozen

from logbus.metastore.operations import MetastoreError
from logbus.model import Endpoint, LeaderAndIsr, TopicPartition

FEATURE_LEVEL = 1
"""What brokers of this release can do among themselves; grows with every change of the inter-broker protocol."""

BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
DELETED_TOPICS = "/admin/delete_topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
LIVES = "/brokers/lives"
FEATURES = "/feature_level"

DEFAULT_ENTITY = "<default>"
"""Name of the configuration that holds for all brokers."""

PERSISTENT_PATHS = (
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/brokers/seqid",
    "/cluster",
    "/config",
    TOPIC_CONFIGS,
    "/config/clients",
    "/config/users",
    BROKER_CONFIGS,
    "/config/changes",
    "/admin",
    DELETED_TOPICS,
)
"""What must be there before anything else, parents first."""


class BadZnode(MetastoreError):
    """A node holds something that we cannot read; the message names it."""


@frozen
class Registration:
    """
    What a broker says of itself while it lives.

    :ivar endpoints: where clients reach it, by listener name.
    :ivar security_protocols: by listener name (``PLAINTEXT``, ``SSL``, …).
    :ivar incarnation: made anew at every start: tells our own node from one of a former life.
    :ivar timestamp: of the registration, in milliseconds since 1970.
    :ivar features: finalized feature ranges (KIP-584), by name.
    :ivar unsynced_lost: it did not stop cleanly, and its machine was started since: what was not synced is gone.
    :ivar logs_lost: a log directory is new: what another in its place may have held is gone, synced or not.
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


@frozen
class Assignment:
    """
    Which brokers hold a topic.

    :ivar partitions: replicas of each partition, the preferred leader first; indexed by partition number.
    :ivar adding: of the partitions that are reassigned (KIP-455): which of their replicas are added, by number;
        ``removing``: which are taken away.
    """

    topic_id: UUID
    partitions: tuple[tuple[int, ...], ...]
    adding: Mapping[int, tuple[int, ...]] = MappingProxyType({})
    removing: Mapping[int, tuple[int, ...]] = MappingProxyType({})


@frozen
class Life:
    """One life of a broker: the epoch of its registration, and the incarnation of its process."""

    epoch: int
    incarnation: UUID | None


@frozen
class ControllerNode:
    """Who the controller is: the broker's id, its incarnation, and the controller epoch that it won."""

    broker_id: int
    incarnation: UUID
    epoch: int
    timestamp: int


@frozen
class ProducerIdBlock:
    """The producer ids that were handed out last: ``first`` to ``last``, both included, to one broker."""

    broker_id: int
    first: int
    last: int


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
        return _dump(
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
            }
        )

    @classmethod
    def decode(cls, broker_id: int, data: bytes) -> Registration:
        with _Reading(cls.path(broker_id), data, cls.VERSION) as node:
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
        return _dump(
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
        with _Reading(cls.path(topic), data, cls.VERSION) as node:
            given = _replicas(node["partitions"])
            return Assignment(
                uuid_from_text(node["topic_id"]),
                tuple(given[number] for number in range(len(given))),
                _replicas(node.get("adding_replicas", {})),
                _replicas(node.get("removing_replicas", {})),
            )


class PartitionZnode:
    """``/brokers/topics/T/partitions/P``: nothing but the parent of the partition's state."""

    @staticmethod
    def path(topic: str, partition: int) -> str:
        return f"{TOPICS}/{topic}/partitions/{partition}"


class StateZnode:
    """``/brokers/topics/T/partitions/P/state``: who leads, and who is in sync."""

    VERSION = 1

    @staticmethod
    def path(topic: str, partition: int) -> str:
        return f"{TOPICS}/{topic}/partitions/{partition}/state"

    @classmethod
    def encode(cls, state: LeaderAndIsr) -> bytes:
        # Written ten thousand at a time: spelled out, not collected in a dictionary first.
        return (
            f'{{"controller_epoch":{state.controller_epoch},"leader":{state.leader},"version":{cls.VERSION},'
            f'"leader_epoch":{state.leader_epoch},"isr":[{",".join(map(str, state.isr))}],'
            f'"eligible":[{",".join(map(str, state.eligible))}],"unclean_epoch":{state.unclean_epoch}}}'
        ).encode("ascii")

    @classmethod
    def decode(cls, topic: str, partition: int, data: bytes, version: int) -> LeaderAndIsr:
        """
        :param version: of the node: the token for the next change.
        """
        with _Reading(cls.path(topic, partition), data, cls.VERSION) as node:
            return LeaderAndIsr(
                int(node["leader"]),
                int(node["leader_epoch"]),
                tuple(map(int, node["isr"])),
                int(node["controller_epoch"]),
                version,
                tuple(map(int, node.get("eligible", ()))),
                int(node.get("unclean_epoch", -1)),
            )


class ControllerZnode:
    """``/controller``, ephemeral."""

    VERSION = 1

    @classmethod
    def encode(cls, controller: ControllerNode) -> bytes:
        return _dump(
            {
                "version": cls.VERSION,
                "brokerid": controller.broker_id,
                "timestamp": str(controller.timestamp),
                "incarnation": str(controller.incarnation),
                "controller_epoch": controller.epoch,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> ControllerNode:
        with _Reading(CONTROLLER, data, cls.VERSION) as node:
            return ControllerNode(
                int(node["brokerid"]),
                UUID(node["incarnation"]),
                int(node["controller_epoch"]),
                int(node["timestamp"]),
            )


class ControllerEpochZnode:
    """``/controller_epoch``: a number in ASCII; the node's version is the token that fences controllers."""

    @staticmethod
    def encode(epoch: int) -> bytes:
        return str(epoch).encode("ascii")

    @staticmethod
    def decode(data: bytes) -> int:
        if not re.fullmatch(rb"\d{1,10}", data):
            raise BadZnode(f"{CONTROLLER_EPOCH} holds {data[:40]!r}, not a number")
        return int(data)


class ClusterIdZnode:
    """``/cluster/id``: 22 characters of URL-safe base64."""

    VERSION = 1

    @classmethod
    def encode(cls, cluster_id: str) -> bytes:
        return _dump({"version": str(cls.VERSION), "id": cluster_id})

    @classmethod
    def decode(cls, data: bytes) -> str:
        with _Reading(CLUSTER_ID, data, cls.VERSION) as node:
            if not isinstance(node["id"], str) or not node["id"]:
                raise ValueError("the id is empty")
            return str(node["id"])


class ConfigZnode:
    """``/config/topics/T``, ``/config/brokers/N``: overrides, as strings by name."""

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

    @classmethod
    def encode(cls, overrides: Mapping[str, str]) -> bytes:
        return _dump({"version": cls.VERSION, "config": dict(overrides)})

    @classmethod
    def decode(cls, path: str, data: bytes) -> dict[str, str]:
        with _Reading(path, data, cls.VERSION) as node:
            return {str(name): str(value) for name, value in node["config"].items()}


class DeletedTopicZnode:
    """``/admin/delete_topics/T``: the controller is to delete T, and goes on with it after a restart."""

    @staticmethod
    def path(topic: str) -> str:
        return f"{DELETED_TOPICS}/{topic}"


class ProducerIdBlockZnode:
    """``/latest_producer_id_block``: what was handed out last (KIP-360's numbers are strings)."""

    VERSION = 1

    @classmethod
    def encode(cls, block: ProducerIdBlock) -> bytes:
        return _dump(
            {
                "version": cls.VERSION,
                "broker": block.broker_id,
                "block_start": str(block.first),
                "block_end": str(block.last),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> ProducerIdBlock:
        with _Reading(PRODUCER_ID_BLOCK, data, cls.VERSION) as node:
            return ProducerIdBlock(int(node["broker"]), int(node["block_start"]), int(node["block_end"]))


class ReassignmentsZnode:
    """``/admin/reassign_partitions``: what an operator's tool asks for; the controller takes it, and removes it."""

    VERSION = 1

    @classmethod
    def encode(cls, wanted: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
        return _dump(
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
        with _Reading(REASSIGN_PARTITIONS, data, cls.VERSION) as node:
            return {
                TopicPartition(str(one["topic"]), int(one["partition"])): tuple(map(int, one["replicas"]))
                for one in node["partitions"]
            }


class LivesZnode:
    """
    ``/brokers/lives``: which lives of brokers the controllers have taken note of, by broker id.

    Ours: it lets a controller tell who has restarted while there was none.
    """

    VERSION = 1

    @classmethod
    def encode(cls, lives: Mapping[int, Life]) -> bytes:
        return _dump(
            {
                "version": cls.VERSION,
                "lives": {
                    str(number): {"epoch": life.epoch, "incarnation": str(life.incarnation or UUID(int=0))}
                    for number, life in lives.items()
                },
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> dict[int, Life]:
        with _Reading(LIVES, data, cls.VERSION) as node:
            return {
                int(number): Life(int(life["epoch"]), UUID(life["incarnation"]))
                for number, life in node["lives"].items()
            }


class FeatureLevelZnode:
    """``/feature_level``: ours: what all brokers of the cluster can do; a number in ASCII that never falls."""

    @staticmethod
    def encode(level: int) -> bytes:
        return str(level).encode("ascii")

    @staticmethod
    def decode(data: bytes) -> int:
        if not re.fullmatch(rb"\d{1,9}", data):
            raise BadZnode(f"{FEATURES} holds {data[:40]!r}, not a number")
        return int(data)


def uuid_text(value: UUID) -> str:
    """A topic or cluster id as Kafka writes it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> UUID:
    """
    The opposite.

    :raise ValueError: it is none.
    """
    return UUID(bytes=base64.b64decode(text + "==", b"-_", validate=True))


def _dump(node: Mapping[str, Any]) -> bytes:
    return json.dumps(node, separators=(",", ":")).encode("ascii")


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


class _Reading:
    """
    Reads one node's JSON object: any surprise inside the block becomes a :class:`BadZnode` that names the node.
    """

    def __init__(self, path: str, data: bytes, known: int) -> None:
        self._path = path
        self._data = data
        self._known = known

    def __enter__(self) -> Mapping[str, Any]:
        try:
            node = json.loads(self._data)
            version = int(node["version"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise BadZnode(f"{self._path} holds {self._data[:80]!r}, not a versioned JSON object") from error
        if version > self._known:
            raise BadZnode(f"{self._path} has version {version}, of a newer release; this one knows {self._known}")
        found: Mapping[str, Any] = node
        return found

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, KeyError):
            raise BadZnode(f"{self._path} lacks {error}") from error
        if isinstance(error, ValueError | TypeError | AttributeError | IndexError):
            raise BadZnode(f"{self._path} cannot be read: {error}") from error
