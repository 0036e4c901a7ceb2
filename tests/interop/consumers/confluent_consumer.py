"""The consumer of confluent-kafka (librdkafka)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.interop.consumers.interface import MOST, SECONDS, Committed, Listener, Place, Record, Settings


class Confluent:
    """
    librdkafka.

    :param strategy: ``partition.assignment.strategy``; with the consumer protocol ``group.remote.assignor``.
    """

    def __init__(self, protocol: str, strategy: str, settings: Settings, heard: Listener) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": settings.bootstrap,
            "group.id": settings.group_id,
            "client.id": settings.client_id,
            "group.protocol": protocol,
            "enable.auto.commit": settings.auto_commit,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
            "reconnect.backoff.max.ms": 200,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
        if protocol == "classic":
            config |= {
                "partition.assignment.strategy": strategy,
                "session.timeout.ms": settings.session_timeout_ms,
                "heartbeat.interval.ms": settings.heartbeat_interval_ms,
            }
        else:
            config["group.remote.assignor"] = strategy
        if settings.instance_id is not None:
            config["group.instance.id"] = settings.instance_id
        self._consumer = Consumer(config)

        def hear(word: str, partitions: list[Any]) -> None:
            heard(word, frozenset((each.topic, each.partition) for each in partitions))

        if settings.topics:
            self._consumer.subscribe(
                list(settings.topics),
                on_assign=lambda _, partitions: hear("assigned", partitions),
                on_revoke=lambda _, partitions: hear("revoked", partitions),
                on_lost=lambda _, partitions: hear("revoked", partitions),
            )

    def poll(self, seconds: float) -> list[Record]:
        found = []
        for message in self._consumer.consume(MOST, seconds):
            error = message.error()
            # A topic that was deleted; it is given up soon.
            if error and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                continue
            if error:
                raise KafkaException(error)
            found.append(Record((message.topic(), message.partition()), message.offset(), message.value()))
        return found

    def assign(self, places: Iterable[Place]) -> None:
        self._consumer.assign([TopicPartition(*place) for place in places])

    def seek(self, place: Place, offset: int) -> None:
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                self._consumer.seek(TopicPartition(*place, offset))
                return
            except KafkaException as e:
                # It has the partition, and is still to hear where its group is.
                if e.args[0].code() != KafkaError._STATE or time.monotonic() > deadline:
                    raise
            time.sleep(0.02)

    def position(self, place: Place) -> int:
        [found] = self._consumer.position([TopicPartition(*place)])
        return int(found.offset)

    def commit(self, offsets: Mapping[Place, Committed] | None = None) -> None:
        if offsets is None:
            self._consumer.commit(asynchronous=False)
            return
        wanted = [TopicPartition(*place, offset, metadata=note) for place, (offset, note) in offsets.items()]
        for answer in self._consumer.commit(offsets=wanted, asynchronous=False):
            if answer.error:
                raise KafkaException(answer.error)

    def committed(self, place: Place) -> Committed | None:
        [found] = self._consumer.committed([TopicPartition(*place)], SECONDS)
        if found.error:
            raise KafkaException(found.error)
        return None if found.offset < 0 else (found.offset, found.metadata or "")

    def close(self) -> None:
        self._consumer.close()
