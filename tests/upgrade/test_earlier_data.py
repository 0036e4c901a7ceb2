"""A broker opens what earlier versions wrote, whether they were stopped or killed, and goes on with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from logbus.cli.commands.verify import verify
from logbus.testing import Broker
from tests.tar_archives import unpack
from tests.upgrade.make_data import CODECS, KEYS, ORDERS, SECONDS, START_MS, wait_for

ARCHIVES = sorted((Path(__file__).parent / "golden").glob("*.tar.xz"))
CONFIG = {
    # The data grow older: nothing of it may expire.
    "offsets.retention.minutes": 2**31 - 1,
    "log.retention.ms": -1,
    # What was left open is aborted soon.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
}


def unpacked(archive: Path, where: Path) -> Path:
    unpack(archive, where)
    return where


def read(broker: Broker, topic: str, partition: int = 0, isolation: str = "read_committed") -> list[Message]:
    """All records, or all that are committed; there must be an end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found = []
    while True:
        message = consumer.poll(SECONDS)
        assert message is not None, f"{topic} has no end"
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            consumer.close()
            return found
        found.append(message)


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.name.partition(".tar")[0])
def archive(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture(scope="module", params=["stopped", "killed"])
def broker(archive: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One of this version on the data; without the marker of a clean stop it recovers the logs by scanning them."""
    data = unpacked(archive, tmp_path_factory.mktemp("earlier"))
    if request.param == "killed":
        for lost in (".logbus_cleanshutdown", "recovery-point-offset-checkpoint", "*-*/*.*index"):
            for path in data.glob(lost):
                path.unlink()
    with Broker(CONFIG, data_dir=data) as broker:
        yield broker


def test_verify(archive: Path, tmp_path: Path) -> None:
    """``logbus verify`` knows the formats, and finds nothing."""
    done = CliRunner().invoke(verify, [str(unpacked(archive, tmp_path))])
    assert (done.exit_code, "no findings" in done.output) == (0, True), done.output


def test_records(broker: Broker) -> None:
    """All records, in all codecs, with their keys, headers and times."""
    found = [message for partition in (0, 1) for message in read(broker, "orders", partition)]
    assert len(found) == ORDERS
    for message in found:
        number = int(bytes(message.value()).split()[1])
        assert message.partition() == number % 2
        assert message.key() == f"customer-{number % 7}".encode()
        assert message.headers() == [("codec", CODECS[number % len(CODECS)].encode())]
        assert message.timestamp()[1] == START_MS + number * 1000


def test_offsets_by_time(broker: Broker) -> None:
    """Found by the indexes, or by those made anew: written in another order than their times, the first is meant."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader"})
    at = START_MS + 150_000
    [found] = consumer.offsets_for_times([TopicPartition("orders", 0, at)], SECONDS)
    consumer.close()
    times = [message.timestamp()[1] for message in read(broker, "orders")]
    assert found.offset == next(offset for offset, time in enumerate(times) if time >= at)


def test_compacted(broker: Broker) -> None:
    """The last record of each key is there, and not all that came before."""
    found = read(broker, "accounts")
    assert len(found) < 40 * KEYS
    assert {message.key(): bytes(message.value()).split()[1] for message in found} == {
        f"account-{key}".encode(): b"%d" % (39 * KEYS + key) for key in range(KEYS)
    }


def test_groups(broker: Broker) -> None:
    """Offsets that were committed by consumers, and in a transaction."""
    for group, offsets in (("billing", [17, 18]), ("ledger", [42])):
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
        asked = [TopicPartition("orders", partition) for partition in range(len(offsets))]
        assert [found.offset for found in consumer.committed(asked, SECONDS)] == offsets
        consumer.close()


def test_settings(broker: Broker) -> None:
    """Topics have theirs."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    [described] = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "accounts")]).values()
    settings = described.result(SECONDS)
    assert (settings["cleanup.policy"].value, settings["segment.bytes"].value) == ("compact", "4096")


def go_on(broker: Broker) -> None:
    """Go on as the transactional producer of that time."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "committed"})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce("payments", "new")
    producer.commit_transaction(SECONDS)


def test_transactions(broker: Broker) -> None:
    """What was aborted is not seen; what was open is aborted, so that readers get past it. A restart keeps that."""
    before = [b"committed %d" % number for number in range(5)]
    assert [bytes(message.value()) for message in read(broker, "payments")] == before
    assert len(read(broker, "payments", isolation="read_uncommitted")) == 15
    go_on(broker)
    broker.stop()
    broker.start()
    # Until its markers are written, whoever reads committed records comes to an end before it.
    wait_for(lambda: len(read(broker, "payments")) > len(before), "the new record is seen")
    assert [bytes(message.value()) for message in read(broker, "payments")] == [*before, b"new"]
