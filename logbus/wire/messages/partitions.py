"""Structs of several families: partitions of a topic, and results for them."""

from __future__ import annotations

from logbus.wire.schema import Int16, Int32, String, Uuid, struct


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic: String
    partitions: list[Int32]


@struct
class NamedTopicPartitions:
    """Partitions of one topic, where Kafka calls the topic's name ``name``."""

    name: String
    partitions: list[Int32]


@struct
class TopicPartitionIndexes:
    """Partitions of one topic, where Kafka calls the topic's name ``name`` and their numbers indexes."""

    name: String
    partition_indexes: list[Int32]


@struct
class TopicIdPartitions:
    """Partitions of one topic, given by its id."""

    topic_id: Uuid
    partitions: list[Int32]


@struct
class PartitionErrorCode:
    """The result for one partition."""

    partition_index: Int32
    error_code: Int16 = 0


@struct
class TopicErrorCodes:
    """The results for the partitions of one topic."""

    name: String
    partitions: list[PartitionErrorCode]
