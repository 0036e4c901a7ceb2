"""
The znodes of the cluster as a whole: its id, the secret of its brokers, controller, broker incarnations, feature level
and producer id blocks. Pure.

Encoded like those in :mod:`.znodes`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import ClassVar
from uuid import UUID

from attrs import frozen

from logbus.metastore.znode_json import BadZnode, ZnodeReader, dump
from logbus.metastore.znodes import (
    BROKER_INCARNATIONS,
    BROKER_SECRET,
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    FEATURES,
    PRODUCER_ID_BLOCK,
)


@frozen
class BrokerIncarnation:
    """One registration of a broker: its epoch, and the incarnation of the broker's process."""

    epoch: int
    incarnation: UUID | None


@frozen
class ControllerNode:
    """The controller: its broker id, its incarnation, and the controller epoch that it won."""

    broker_id: int
    incarnation: UUID
    epoch: int
    timestamp: int


@frozen
class ProducerIdBlock:
    """The last allocated block of producer ids: ``first`` to ``last``, both included, for one broker."""

    broker_id: int
    first: int
    last: int


class ControllerZnode:
    """``/controller``, ephemeral."""

    VERSION = 1

    @classmethod
    def encode(cls, controller: ControllerNode) -> bytes:
        return dump(
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
        with ZnodeReader(CONTROLLER, data, cls.VERSION) as node:
            return ControllerNode(
                int(node["brokerid"]),
                UUID(node["incarnation"]),
                int(node["controller_epoch"]),
                int(node["timestamp"]),
            )


class _NumberZnode:
    """A node that holds a number in ASCII."""

    PATH: ClassVar[str]

    @staticmethod
    def encode(number: int) -> bytes:
        return str(number).encode("ascii")

    @classmethod
    def decode(cls, data: bytes) -> int:
        if not re.fullmatch(rb"\d{1,10}", data):
            raise BadZnode(f"{cls.PATH} holds {data[:40]!r}, not a number")
        return int(data)


class ControllerEpochZnode(_NumberZnode):
    """``/controller_epoch``: the node's version is the token that fences controllers."""

    PATH = CONTROLLER_EPOCH


class ClusterIdZnode:
    """``/cluster/id``: 22 characters of URL-safe base64."""

    VERSION = 1

    @classmethod
    def encode(cls, cluster_id: str) -> bytes:
        return dump({"version": str(cls.VERSION), "id": cluster_id})

    @classmethod
    def decode(cls, data: bytes) -> str:
        with ZnodeReader(CLUSTER_ID, data, cls.VERSION) as node:
            if not isinstance(node["id"], str) or not node["id"]:
                raise ValueError("the id is empty")
            return str(node["id"])


class BrokerSecretZnode:
    """
    ``/cluster/broker_secret``: what the brokers of a cluster know, and nobody else, in base64.

    Not in Kafka. With it brokers prove to each other that they are brokers.
    """

    VERSION = 1

    @classmethod
    def encode(cls, secret: bytes) -> bytes:
        return dump({"version": cls.VERSION, "secret": base64.b64encode(secret).decode()})

    @classmethod
    def decode(cls, data: bytes) -> bytes:
        with ZnodeReader(BROKER_SECRET, data, cls.VERSION) as node:
            secret = base64.b64decode(node["secret"], validate=True)
            if len(secret) < 16:
                raise ValueError("the secret is shorter than 16 bytes")
            return secret


class BrokerIncarnationsZnode:
    """
    ``/brokers/lives``: the registrations that a controller has noted, by broker id.

    Not in Kafka: a new controller finds in it the brokers that restarted while there was no controller.
    """

    VERSION = 1

    @classmethod
    def encode(cls, lives: Mapping[int, BrokerIncarnation]) -> bytes:
        return dump(
            {
                "version": cls.VERSION,
                "lives": {
                    str(number): {"epoch": life.epoch, "incarnation": str(life.incarnation or UUID(int=0))}
                    for number, life in lives.items()
                },
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> dict[int, BrokerIncarnation]:
        with ZnodeReader(BROKER_INCARNATIONS, data, cls.VERSION) as node:
            return {
                int(number): BrokerIncarnation(int(life["epoch"]), UUID(life["incarnation"]))
                for number, life in node["lives"].items()
            }


class FeatureLevelZnode(_NumberZnode):
    """``/feature_level``, not in Kafka: the level that all brokers support; it never falls."""

    PATH = FEATURES


class ProducerIdBlockZnode:
    """``/latest_producer_id_block``: the last allocated block (its numbers are strings, as in Kafka)."""

    VERSION = 1

    @classmethod
    def encode(cls, block: ProducerIdBlock) -> bytes:
        return dump(
            {
                "version": cls.VERSION,
                "broker": block.broker_id,
                "block_start": str(block.first),
                "block_end": str(block.last),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> ProducerIdBlock:
        with ZnodeReader(PRODUCER_ID_BLOCK, data, cls.VERSION) as node:
            return ProducerIdBlock(int(node["broker"]), int(node["block_start"]), int(node["block_end"]))
