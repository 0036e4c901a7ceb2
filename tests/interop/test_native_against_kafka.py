"""
Runs one list of scenarios with the client of logbus, on Twisted's reactor and on asyncio's event loop, against Apache
Kafka and against logbus.

Kafka is one KRaft node with its own defaults, but that groups begin at once; its jars come from Maven Central, once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred, gatherResults

from benchmarks.compare.jars import KAFKA_VERSION, kafka_jars
from benchmarks.compare.systems import Kafka, start
from logbus.client import AdminClient, Cluster, CommittedOffset, Consumer, NewTopic
from logbus.client.admin.config_admin import ConfigEntry, Resource, ResourceType
from logbus.client.cluster.topic_metadata import TopicMetadata
from logbus.client.producer.transaction_manager import Fenced
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.records.compression import Codec
from logbus.testing import Broker
from tests.interop.java_client import CACHE
from tests.interop.native_client import a_producer, run, run_on_asyncio, take

SECONDS = 120
T = TypeVar("T")
Scenario = Callable[[Cluster, str], Coroutine[Deferred[Any], Any, None]]


class QuickKafka(Kafka):
    """Kafka as a test wants it: small, soon there, and with groups that need not wait for more members."""

    def prepare(self, directory: Path, port: int, synced: bool | None) -> list[str]:
        command = list(super().prepare(directory, port, synced))
        with (directory / "server.properties").open("a") as properties:
            properties.write(
                "group.initial.rebalance.delay.ms=0\noffsets.topic.num.partitions=1\n"
                "transaction.state.log.num.partitions=1\ngroup.consumer.min.heartbeat.interval.ms=100\n"
                "group.consumer.heartbeat.interval.ms=100\n"
                # Records of 1970 stay: nobody looks for what is too old.
                "log.initial.task.delay.ms=3600000\nlog.retention.check.interval.ms=3600000\n"
            )
        small = ["-Xmx512m", "-Xms128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        return [command[0], *small, *command[command.index("-cp") :]]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Apache Kafka, where it is reached."""
    running = start(QuickKafka(kafka_jars(KAFKA_VERSION, CACHE), KAFKA_VERSION), tmp_path_factory.mktemp("kafka") / "1")
    try:
        yield f"127.0.0.1:{running.port}"
    finally:
        running.stop()


@pytest.fixture(params=["logbus", "kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Where each broker is reached in turn."""
    if request.param == "kafka":
        return str(request.getfixturevalue("kafka"))
    broker: Broker = request.getfixturevalue("broker")
    return broker.bootstrap


# What both are put through.


async def make(cluster: Cluster, topic: str, partitions: int = 1, **configs: str) -> list[TopicPartition]:
    """A topic, and its partitions."""
    new = NewTopic(topic, partitions, 1, configs)
    assert await AdminClient(cluster).create_topics([new]) == {topic: None}
    return [TopicPartition(topic, number) for number in range(partitions)]


async def fill(cluster: Cluster, topic: str, *values: bytes, partition: int = 0) -> None:
    """Some records."""
    producer = a_producer(cluster)
    await gatherResults([producer.send(topic, value, partition=partition) for value in values], consumeErrors=True)
    await producer.close()


async def becomes(ask: Callable[[], Coroutine[Deferred[Any], Any, T]], wanted: T) -> None:
    """Ask until that is the answer: Kafka's brokers hear of a change after whoever asked for it was told."""
    deadline = time.monotonic() + SECONDS
    while (found := await ask()) != wanted and time.monotonic() < deadline:
        pass
    assert found == wanted


def code_of(error: object) -> ErrorCode:
    """The error code of a failed request."""
    assert isinstance(error, ApiError), error
    return error.code


async def every_codec(cluster: Cluster, topic: str) -> None:
    """Records come back as they were, with the offsets that the producer was told."""
    (place,) = await make(cluster, topic)
    for codec in Codec:
        producer = a_producer(cluster, codec=codec)
        values = [b"%b %d " % (codec.name.encode(), number) * 50 for number in range(300)]
        sent = [
            producer.send(topic, value, b"key", timestamp=1_000 + number, headers=(("h", value[:3]), ("n", None)))
            for number, value in enumerate(values)
        ]
        told = [await each for each in sent]
        await producer.close()
        consumer = Consumer(cluster)
        consumer.assign({place: told[0].offset})
        found = await take(consumer, len(values))
        await consumer.close()
        assert [each.value for each in found] == values
        assert [(each.offset, each.timestamp) for each in found] == [(each.offset, each.timestamp) for each in told]
        assert {each.key for each in found} == {b"key"}
        assert found[-1].headers == (("h", values[-1][:3]), ("n", None))


async def acknowledgements(cluster: Cluster, topic: str) -> None:
    """Of every degree; and what is too large, or has nowhere to go, is refused with a reason."""
    await make(cluster, topic, **{"max.message.bytes": "1000"})
    for acks in (0, 1, -1):
        producer = a_producer(cluster, acks=acks)
        told = await producer.send(topic, b"acks %d" % acks)
        assert (told.offset < 0) == (acks == 0)
        await producer.close()
    producer = a_producer(cluster)
    for value, partition, code in (
        (b"x" * 2000, 0, ErrorCode.MESSAGE_TOO_LARGE),
        (b"x", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        with pytest.raises(ApiError) as refused:
            await producer.send(topic, value, partition=partition)
        assert refused.value.code is code
    with pytest.raises(ApiError) as refused:
        await producer.send(f"{topic}-nowhere", b"x")
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await producer.send(topic, b"after all")).offset == 3
    await producer.close()


async def places_in_a_log(cluster: Cluster, topic: str) -> None:
    """Ends, times, seeking, and a reader without a group that begins where it is told."""
    place, empty = await make(cluster, topic, 2)
    producer = a_producer(cluster)
    for number in range(10):
        await producer.send(topic, b"%d" % number, partition=0, timestamp=1_000_000 + number * 1_000)
    await producer.close()
    consumer = Consumer(cluster, auto_offset_reset="earliest")
    assert await consumer.beginning_offsets([place, empty]) == {place: 0, empty: 0}
    assert await consumer.end_offsets([place, empty]) == {place: 10, empty: 0}
    times = await consumer.offsets_for_times({place: 1_004_500, empty: 0})
    at = times[place]
    assert at is not None and (at.offset, at.timestamp, times[empty]) == (5, 1_005_000, None)
    consumer.assign([place, empty])
    assert [each.value for each in await take(consumer, 10)] == [b"%d" % number for number in range(10)]
    consumer.seek(place, 7)
    assert [each.offset for each in await take(consumer, 3)] == [7, 8, 9]
    consumer.seek(place, 4711)
    assert (await take(consumer, 1))[0].offset == 0
    await consumer.close()


async def group(cluster: Cluster, topic: str, **options: Any) -> None:
    """Two members share a topic; one leaves, the other takes over; who comes next begins where they left off."""
    places = frozenset(await make(cluster, topic, 4))
    for place in places:
        await fill(cluster, topic, b"a", b"b", partition=place.partition)
    name = f"group-{topic}"

    def member() -> Consumer:
        consumer = Consumer(cluster, name, auto_offset_reset="earliest", **options)
        consumer.subscribe([topic])
        return consumer

    one, two = member(), member()
    found: list[Any] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < 8 or {len(one.assignment), len(two.assignment)} != {2}:
        assert time.monotonic() < deadline, f"{len(found)} records; {one.assignment} and {two.assignment}"
        for consumer in (one, two):
            for records in (await consumer.poll(0.05)).values():
                found += records
    assert one.assignment | two.assignment == places
    # Exactly once each: nobody read on where another one had not committed.
    assert sorted((each.partition, each.value) for each in found) == [(n, v) for n in range(4) for v in (b"a", b"b")]
    admin = AdminClient(cluster)
    described = (await admin.describe_groups([name]))[name]
    assert not isinstance(described, ApiError)
    assert described.state == "Stable"
    assert sorted(each for member in described.members for each in member.assignment) == sorted(places)
    # What was handed out last is done, and so committed at the end, when more is asked for.
    for consumer in (one, two):
        assert await consumer.poll(0.05) == {}
    await two.close()
    while one.assignment != places:
        assert time.monotonic() < deadline + SECONDS, f"only {one.assignment}"
        assert await one.poll(0.05) == {}
    await one.commit({place: CommittedOffset(1, metadata="half") for place in places})
    committed = await one.committed(places)
    assert {(each.offset, each.metadata) for each in committed.values() if each} == {(1, "half")}
    # The end of a consumer that commits by itself commits where it is.
    await one.close()
    offsets = (await admin.list_group_offsets([name]))[name]
    assert not isinstance(offsets, ApiError)
    assert {
        place: each.offset for place, each in offsets.items() if isinstance(each, CommittedOffset)
    } == dict.fromkeys(places, 2)
    assert await admin.alter_group_offsets(name, dict.fromkeys(places, CommittedOffset(1))) == dict.fromkeys(places)
    three = member()
    assert {(each.offset, each.value) for each in await take(three, 4)} == {(1, b"b")}
    await three.close()
    listed = {each.group_id: each for each in await admin.list_groups()}
    assert listed[name].type == options["group_protocol"]
    # With the consumer protocol, too, the last one has left before it has hung up.
    assert (await admin.describe_groups([name]))[name].state == "Empty"  # type: ignore[union-attr]
    assert await admin.delete_groups([name]) == {name: None}
    assert code_of((await admin.delete_groups([name]))[name]) is ErrorCode.GROUP_ID_NOT_FOUND


async def classic_group(cluster: Cluster, topic: str) -> None:
    """By the classic protocol, everything given up in a rebalance."""
    await group(cluster, topic, group_protocol="classic", assignors=("range",), heartbeat_interval=0.1)


async def cooperative_group(cluster: Cluster, topic: str) -> None:
    """By the classic protocol, where members keep what they can."""
    await group(cluster, topic, group_protocol="classic", assignors=("cooperative-sticky",), heartbeat_interval=0.1)


async def consumer_group(cluster: Cluster, topic: str) -> None:
    """By the protocol of KIP-848."""
    await group(cluster, topic, group_protocol="consumer")


async def transactions(cluster: Cluster, topic: str) -> None:
    """Records and the offsets of a group appear together, or neither do; an older producer of the name is fenced."""
    places = await make(cluster, topic, 2)
    name = f"group-{topic}"
    producer = a_producer(cluster, transactional_id=f"id-{topic}")
    # Kafka says that a transaction is committed a moment before others see it; who reads committed records waits.
    member = Consumer(cluster, name, isolation_level="read_committed")
    for number, outcome in enumerate([True, False, True]):
        try:
            async with producer.transaction() as transaction:
                for place in places:
                    await producer.send(topic, b"%d" % number, partition=place.partition)
                await transaction.send_offsets({places[0]: number + 1}, name)
                if not outcome:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            assert not outcome
        committed = (await member.committed(places))[places[0]]
        assert committed is not None
        assert committed.offset == (number + 1 if outcome else number)
    await member.close()
    consumer = Consumer(cluster, isolation_level="read_committed")
    consumer.assign(dict.fromkeys(places, 0))
    found = await take(consumer, 4)
    assert await consumer.poll(0.2) == {}
    assert sorted((each.partition, each.value) for each in found) == [(n, v) for n in range(2) for v in (b"0", b"2")]
    await consumer.close()
    after = a_producer(cluster, transactional_id=f"id-{topic}")
    async with after.transaction():
        await after.send(topic, b"after", partition=0)
    with pytest.raises(Fenced):
        async with producer.transaction():
            await producer.send(topic, b"before", partition=0)
    await producer.close()
    await after.close()


async def administration(cluster: Cluster, topic: str) -> None:
    """Topics, their settings and records: made, described, changed, deleted; and the refusals."""
    admin = AdminClient(cluster)
    cluster_now = await admin.describe_cluster()
    assert cluster_now.cluster_id
    # Workers have ports of their own besides the one that all of them answer.
    assert [(each.host, each.port) for each in cluster_now.nodes] == list(cluster.bootstrap) or len(
        cluster_now.nodes
    ) > 1
    (place,) = await make(cluster, topic, **{"retention.ms": "7200000"})
    again = await admin.create_topics([NewTopic(topic, 1, 1), NewTopic("not/a topic", 1, 1)])
    assert code_of(again[topic]) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert code_of(again["not/a topic"]) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await admin.create_partitions({topic: 3}) == {topic: None}
    assert code_of((await admin.create_partitions({topic: 2}))[topic]) is ErrorCode.INVALID_PARTITIONS

    async def partitions() -> list[int]:
        cluster.forget(topic)
        described = (await admin.describe_topics([topic]))[topic]
        return list(described.partitions) if isinstance(described, TopicMetadata) else []

    await becomes(partitions, [0, 1, 2])
    assert topic in [each.name for each in await admin.list_topics()]
    resource = Resource(ResourceType.TOPIC, topic)
    assert await admin.alter_configs({resource: {"segment.bytes": "1048576", "retention.ms": None}}) == {resource: None}
    wrong = await admin.alter_configs({resource: {"retention.ms": "soon"}})
    assert code_of(wrong[resource]) is ErrorCode.INVALID_CONFIG

    async def configs() -> list[tuple[str | None, str]]:
        entries = (await admin.describe_configs([resource]))[resource]
        assert not isinstance(entries, ApiError)
        by_name: dict[str, ConfigEntry] = {each.name: each for each in entries}
        return [(by_name[name].value, by_name[name].source.name) for name in ("segment.bytes", "retention.ms")]

    await becomes(configs, [("1048576", "TOPIC"), ("604800000", "DEFAULT")])
    await fill(cluster, topic, *[b"%d" % number for number in range(5)])
    assert await admin.delete_records({place: 3}) == {place: 3}
    consumer = Consumer(cluster)
    assert await consumer.beginning_offsets([place]) == {place: 3}
    await consumer.close()
    assert await admin.delete_topics([topic]) == {topic: None}
    assert code_of((await admin.delete_topics([topic]))[topic]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


SCENARIOS: tuple[Scenario, ...] = (
    every_codec, acknowledgements, places_in_a_log, classic_group, cooperative_group, consumer_group, transactions,
    administration,
)  # fmt: skip


@pytest.mark.parametrize("on", [run, run_on_asyncio], ids=["twisted", "asyncio"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_scenario(bootstrap: str, topic: str, scenario: Scenario, on: Callable[..., None]) -> None:
    """Everything in it holds with this broker, on either event loop."""
    on(bootstrap, lambda cluster: scenario(cluster, topic), seconds=60)
