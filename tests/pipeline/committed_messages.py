"""Reads the committed messages of a topic with another client, once no transaction is open."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from logbus.model import TopicPartition
from logbus.pipeline.blocking import EARLIEST, LATEST, Brokers, ConnectionSettings
from logbus.pipeline.blocking.list_offsets import list_offsets


def client(bootstrap: str, **settings: Any) -> Brokers:
    """The pipeline's own client of a broker."""
    host, _, port = bootstrap.partition(":")
    return Brokers(ConnectionSettings(((host, int(port)),), **settings))


def create_topic(bootstrap: str, name: str, partitions: int, **config: str) -> None:
    """Dots in names of settings are spelled as underscores."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(120)


def committed_messages(bootstrap: str, topic: str, seconds: float = 60.0) -> list[Any]:
    """
    Everything in a topic that confluent-kafka reads at ``read_committed``, in the order of each partition.

    :raises AssertionError: a transaction stays open.
    """
    deadline = time.monotonic() + seconds
    brokers = client(bootstrap)
    try:
        partitions = [TopicPartition(topic, index) for index in brokers.topic(topic).partitions]
        wanted = dict.fromkeys(partitions, LATEST)
        while (ends := list_offsets(brokers, wanted)) != list_offsets(brokers, wanted, committed=True):
            assert time.monotonic() < deadline, f"a transaction in {topic} stays open"
            time.sleep(0.01)
        starts = list_offsets(brokers, dict.fromkeys(partitions, EARLIEST))
    finally:
        brokers.close()
    left = {each.partition for each in partitions if ends[each].offset > starts[each].offset}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reading",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,  # The end is told after a look that found nothing.
        }
    )
    found = []
    try:
        # From a number: to find out where the beginning is, this client waits for half a second.
        consumer.assign([Place(topic, index, starts[TopicPartition(topic, index)].offset) for index in left])
        while left:
            assert time.monotonic() < deadline, f"{topic} cannot be read to its end"
            for message in consumer.consume(1000, 0.02):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
    finally:
        consumer.close()
    return found
