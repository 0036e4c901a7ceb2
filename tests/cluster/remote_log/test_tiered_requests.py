"""Requests of all versions about records that only remote storage has."""

from __future__ import annotations

import shutil
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from logbus.records.batch import iter_batches, iter_records
from logbus.records.file_slice import joined
from logbus.testing.broker import Broker
from logbus.testing.temporary import temporary_directory
from logbus.testing.waiting import wait_until
from logbus.wire.connection import ClientConnection
from logbus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logbus.wire.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

pytest.importorskip("fsspec")

SECONDS = 120


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with a topic whose first segments are in the store only; its first transaction was aborted."""
    store = Path(temporary_directory("logbus-store-"))
    config = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.uri": f"file://{store}",
        "remote.log.manager.task.interval.ms": "100",
        "remote.log.metadata.topic.num.partitions": "1",
        "log.retention.check.interval.ms": "100",
        "log.flush.offset.checkpoint.interval.ms": "100",
    }
    with Broker(config) as running:
        tiered = {"remote.storage.enable": "true", "segment.bytes": "2048", "local.retention.bytes": "1"}
        running.admin.create_topic("t", 1, 1, **tiered)
        producer = Producer(
            {"bootstrap.servers": running.bootstrap, "log_level": 0, "transactional.id": "t", "batch.size": 500}
        )
        producer.init_transactions(SECONDS)
        for end in (producer.abort_transaction, producer.commit_transaction, producer.commit_transaction):
            producer.begin_transaction()
            for i in range(10):
                producer.produce("t", f"{i}" + "x" * 400)
            assert producer.flush(SECONDS) == 0
            end(SECONDS)
        logs = Path(running.data_dir) / "t-0"
        # All but the last: the first local offset changes no more.
        wait_until(lambda: len(list(logs.glob("*.log"))) == 1, "local segments to go", SECONDS)
        yield running
    shutil.rmtree(store)


def ask(broker: Broker, message: Any, version: int) -> Any:
    """The answer to a request."""
    client = ClientConnection("test")
    with socket.create_connection(("127.0.0.1", broker.kafka_port)) as sock, sock.makefile("rb") as stream:
        sock.sendall(joined(client.request(message, version)[1]))
        (size,) = struct.unpack(">i", stream.read(4))
        return client.receive(stream.read(size))[1]


def test_fetches(broker: Broker) -> None:
    """Every version gets the records, and, if it reads committed ones, the aborted transactions."""
    metadata = ask(broker, MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
    topic_id = metadata.topics[0].topic_id
    for version in range(4, 19):
        for isolation in (0, 1):
            offset, seen, aborted = 0, list[int](), set[tuple[int, int]]()
            while offset < 21:
                wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=3000)
                named = {"topic_id": topic_id} if version >= 13 else {"topic": "t"}
                request = FetchRequest(
                    max_wait_ms=1000, min_bytes=1, isolation_level=isolation,
                    topics=[FetchTopic(partitions=[wanted], **named)],
                )  # fmt: skip
                found = ask(broker, request, version).responses[0].partitions[0]
                assert not found.error_code
                for one in found.aborted_transactions or ():
                    aborted.add((one.producer_id, one.first_offset))
                seen += [record.offset for record in iter_records(found.records) if record.offset >= offset]
                offset = max((header.next_offset for _, header in iter_batches(found.records)), default=offset)
            # Offset 10 has the first transaction's marker.
            assert seen[:20] == [*range(10), *range(11, 21)]
            assert [first for _, first in aborted] == [0] * isolation


def test_offsets(broker: Broker) -> None:
    """The special timestamps of tiered storage, and a search by time that ends in the store."""
    found = {}
    for timestamp, version in ((-1, 9), (-2, 9), (-4, 8), (-5, 9), (-6, 11), (0, 7), (-2, 1)):
        wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[wanted])])
        answer = ask(broker, request, version).topics[0].partitions[0]
        assert not answer.error_code
        found[timestamp] = answer.offset
    local = min(int(path.stem) for path in (Path(broker.data_dir) / "t-0").glob("*.log"))
    assert found == {-1: 33, -2: 0, -4: local, -5: local - 1, -6: local, 0: 0}
