"""A common interface to the admin clients of four libraries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from attrs import frozen

from tests.interop.clients import SECONDS
from tests.interop.java_client import Java

#: Replicas of each partition, the preferred leader first.
Replicas = Sequence[Sequence[int]]


@frozen
class Partition:
    """The description of a partition; the ISR is sorted."""

    leader: int
    replicas: list[int]
    isr: list[int]


class Administrator(Protocol):
    """An administrator that knows one broker, and learns of the others from it."""

    def brokers(self) -> tuple[int, dict[int, str]]:
        """The controller, and ``HOST:PORT`` of each broker."""
        ...

    def create(self, topic: str, replicas: Replicas) -> None: ...
    def create_spread(self, topic: str, partitions: int, factor: int) -> None: ...
    def describe(self, topic: str) -> list[Partition]: ...
    def grow(self, topic: str, partitions: int) -> None: ...
    def alter(self, topic: str, name: str, value: str) -> None: ...
    def setting(self, topic: str, name: str) -> str: ...
    def delete_records(self, topic: str, partition: int, before: int) -> int: ...
    def delete(self, topic: str) -> None: ...
    def close(self) -> None: ...


class JavaAdministrator:
    """Kafka's own."""

    def __init__(self, java: Java, bootstrap: str) -> None:
        self._java = java
        self._bootstrap = bootstrap

    def _run(self, command: str, *arguments: object) -> list[list[str]]:
        return self._java.run(command, self._bootstrap, *arguments)

    def brokers(self) -> tuple[int, dict[int, str]]:
        [cluster, *nodes] = self._run("cluster")
        return int(cluster[2]), {int(words[1]): words[2] for words in nodes}

    def create(self, topic: str, replicas: Replicas) -> None:
        self._run("create", topic, ";".join(",".join(map(str, each)) for each in replicas))

    def create_spread(self, topic: str, partitions: int, factor: int) -> None:
        assert self._run("create", topic, f"{partitions}x{factor}") == [["made", str(partitions), str(factor)]]

    def describe(self, topic: str) -> list[Partition]:
        def ids(text: str) -> list[int]:
            return [int(each) for each in text.split(",")]

        return [Partition(int(w[2]), ids(w[3]), sorted(ids(w[4]))) for w in self._run("topic", topic)]

    def grow(self, topic: str, partitions: int) -> None:
        self._run("grow", topic, partitions)

    def alter(self, topic: str, name: str, value: str) -> None:
        self._run("alter", "TOPIC", topic, name, value)

    def setting(self, topic: str, name: str) -> str:
        return self._run("config", "TOPIC", topic, name)[0][1]

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        return int(self._run("truncate", topic, partition, before)[0][1])

    def delete(self, topic: str) -> None:
        self._run("drop", topic)

    def close(self) -> None:
        """Each command has a client of its own."""


class ConfluentAdministrator:
    """confluent-kafka's."""

    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka.admin import AdminClient

        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    @staticmethod
    def _done(futures: Mapping[Any, Future[Any]]) -> Any:
        [future] = futures.values()
        return future.result(SECONDS)

    def brokers(self) -> tuple[int, dict[int, str]]:
        found = self._admin.describe_cluster().result(SECONDS)
        return found.controller.id, {node.id: f"{node.host}:{node.port}" for node in found.nodes}

    def create(self, topic: str, replicas: Replicas) -> None:
        from confluent_kafka.admin import NewTopic

        wanted = NewTopic(topic, len(replicas), replica_assignment=[list(each) for each in replicas])
        self._done(self._admin.create_topics([wanted]))

    def create_spread(self, topic: str, partitions: int, factor: int) -> None:
        from confluent_kafka.admin import NewTopic

        self._done(self._admin.create_topics([NewTopic(topic, partitions, factor)]))

    def describe(self, topic: str) -> list[Partition]:
        from confluent_kafka import TopicCollection

        found = self._done(self._admin.describe_topics(TopicCollection([topic])))
        return [
            Partition(p.leader.id if p.leader else -1, [r.id for r in p.replicas], sorted(r.id for r in p.isr))
            for p in found.partitions
        ]

    def grow(self, topic: str, partitions: int) -> None:
        from confluent_kafka.admin import NewPartitions

        self._done(self._admin.create_partitions([NewPartitions(topic, partitions)]))

    def alter(self, topic: str, name: str, value: str) -> None:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self._done(self._admin.incremental_alter_configs([resource]))

    def setting(self, topic: str, name: str) -> str:
        from confluent_kafka.admin import ConfigResource, ResourceType

        found = self._done(self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
        return str(found[name].value)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        from confluent_kafka import TopicPartition

        return int(self._done(self._admin.delete_records([TopicPartition(topic, partition, before)])).low_watermark)

    def delete(self, topic: str) -> None:
        self._done(self._admin.delete_topics([topic]))

    def close(self) -> None:
        """The library does that when nobody has it any more."""


class KafkaPythonAdministrator:
    """kafka-python's."""

    def __init__(self, bootstrap: str) -> None:
        from kafka import KafkaAdminClient

        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def brokers(self) -> tuple[int, dict[int, str]]:
        found = self._admin.describe_cluster()
        return found["controller_id"], {
            each["broker_id"]: f"{each['host']}:{each['port']}" for each in found["brokers"]
        }

    def create(self, topic: str, replicas: Replicas) -> None:
        self._admin.create_topics({topic: {"assignments": {n: list(each) for n, each in enumerate(replicas)}}})

    def create_spread(self, topic: str, partitions: int, factor: int) -> None:
        self._admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": factor}})

    def describe(self, topic: str) -> list[Partition]:
        [found] = self._admin.describe_topics([topic])
        return [
            Partition(p["leader_id"], p["replica_nodes"], sorted(p["isr_nodes"]))
            for p in sorted(found["partitions"], key=lambda each: int(each["partition_index"]))
        ]

    def grow(self, topic: str, partitions: int) -> None:
        self._admin.create_partitions({topic: partitions})

    def alter(self, topic: str, name: str, value: str) -> None:
        from kafka.admin import ConfigResource, ConfigResourceType

        self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})])

    def setting(self, topic: str, name: str) -> str:
        from kafka.admin import ConfigResource, ConfigResourceType

        found = self._admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        return str(found["topic"][topic][name]["value"])

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        from kafka import TopicPartition

        place = TopicPartition(topic, partition)
        return int(self._admin.delete_records({place: before})[place]["low_watermark"])

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def close(self) -> None:
        self._admin.close()

    # What this library and Java's have, and the others do not.

    def reassign(self, topic: str, partition: int, replicas: Sequence[int] | None) -> None:
        """Move a partition to other replicas; None: stop moving it."""
        from kafka import TopicPartition

        place = TopicPartition(topic, partition)
        failed = self._admin.alter_partition_reassignments({place: replicas})[place]
        if failed is not None:
            raise failed

    def reassignments(self, topic: str) -> dict[int, tuple[list[int], list[int], list[int]]]:
        """Of each partition that moves: all its replicas, those that come and those that go."""
        found = self._admin.list_partition_reassignments()
        return {
            place.partition: (moves["replicas"], moves["adding_replicas"], moves["removing_replicas"])
            for place, moves in found.items()
            if place.topic == topic
        }


class AiokafkaAdministrator:
    """aiokafka's."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _run(self, what: Callable[[Any], Awaitable[Any]]) -> Any:
        from aiokafka.admin import AIOKafkaAdminClient

        async def run() -> Any:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await admin.start()
            try:
                return await what(admin)
            finally:
                await admin.close()

        return asyncio.run(run())

    def brokers(self) -> tuple[int, dict[int, str]]:
        found = self._run(lambda admin: admin.describe_cluster())
        return found["controller_id"], {each["node_id"]: f"{each['host']}:{each['port']}" for each in found["brokers"]}

    def create(self, topic: str, replicas: Replicas) -> None:
        from aiokafka.admin import NewTopic

        given = {partition: list(each) for partition, each in enumerate(replicas)}
        self._created(self._run(lambda admin: admin.create_topics([NewTopic(topic, -1, -1, given)])))

    def create_spread(self, topic: str, partitions: int, factor: int) -> None:
        from aiokafka.admin import NewTopic

        self._created(self._run(lambda admin: admin.create_topics([NewTopic(topic, partitions, factor)])))

    @staticmethod
    def _created(answer: Any) -> None:
        # It raises nothing: errors are in the answer.
        [(_, code, *text)] = answer.topic_errors
        assert code == 0, (code, text)

    def describe(self, topic: str) -> list[Partition]:
        [found] = self._run(lambda admin: admin.describe_topics([topic]))
        return [
            Partition(p["leader"], p["replicas"], sorted(p["isr"]))
            for p in sorted(found["partitions"], key=lambda each: int(each["partition"]))
        ]

    def grow(self, topic: str, partitions: int) -> None:
        from aiokafka.admin import NewPartitions

        self._run(lambda admin: admin.create_partitions({topic: NewPartitions(partitions)}))

    def alter(self, topic: str, name: str, value: str) -> None:
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        self._run(lambda admin: admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})]))

    def setting(self, topic: str, name: str) -> str:
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        wanted = [ConfigResource(ConfigResourceType.TOPIC, topic)]
        [answer] = self._run(lambda admin: admin.describe_configs(wanted))
        [(*_, entries)] = answer.resources
        return next(str(entry[1]) for entry in entries if entry[0] == name)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        from aiokafka import TopicPartition
        from aiokafka.admin import RecordsToDelete

        place = TopicPartition(topic, partition)
        return int(self._run(lambda admin: admin.delete_records({place: RecordsToDelete(before)}))[place])

    def delete(self, topic: str) -> None:
        self._run(lambda admin: admin.delete_topics([topic]))

    def close(self) -> None:
        """Each call has a client of its own."""


#: How each library's administrator is made.
ADMINISTRATORS: dict[str, Callable[[Java, str], Administrator]] = {
    "java": JavaAdministrator,
    "confluent": lambda _, bootstrap: ConfluentAdministrator(bootstrap),
    "kafka-python": lambda _, bootstrap: KafkaPythonAdministrator(bootstrap),
    "aiokafka": lambda _, bootstrap: AiokafkaAdministrator(bootstrap),
}
