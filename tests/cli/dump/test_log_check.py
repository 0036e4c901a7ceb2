"""Tests of :mod:`logbus.cli.dump.log_check`, on directories that real brokers left: transactions, compaction, kills."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from logbus.cli.dump.directory_check import Finding, check, files_of
from logbus.storage.producers.producer_snapshot import decode_snapshot, encode_snapshot
from logbus.storage.producers.producer_state_manager import BatchMetadata, ProducerStateManager
from logbus.testing import Broker

SECONDS = 120


def _fill(broker: Broker) -> None:
    """Write with idempotence, in transactions of which every second is aborted, and what is compacted."""
    client: dict[str, str | int | float | bool] = {"bootstrap.servers": broker.bootstrap}
    small = {"segment.bytes": "20000"}
    compacted = {**small, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    topics = [NewTopic("paid", 1, 1, config=small), NewTopic("state", 1, 1, config=compacted)]
    admin = AdminClient(client)
    for future in admin.create_topics(topics).values():
        future.result(SECONDS)
    for number in range(2):
        producer = Producer({**client, "transactional.id": f"till-{number}"})
        producer.init_transactions(SECONDS)
        for turn in range(12):
            producer.begin_transaction()
            for key in range(20):
                producer.produce("paid", f"{turn} {key}" * 20, f"{key}")
                producer.produce("state", f"{turn} {key}" * 20, f"{key}")
            # An abort drops what was not sent.
            assert producer.flush(SECONDS) == 0
            if turn % 2:
                producer.abort_transaction(SECONDS)
            else:
                producer.commit_transaction(SECONDS)
    idempotent = Producer({**client, "enable.idempotence": True})
    for key in range(200):
        idempotent.produce("state", "x" * 100, f"{key % 5}")
    assert idempotent.flush(SECONDS) == 0


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker left that was stopped."""
    directory = tmp_path_factory.mktemp("left") / "data"
    with Broker(
        {"log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "100"}, data_dir=directory
    ) as broker:
        _fill(broker)
    return directory


@pytest.fixture
def copied(left: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(left, tmp_path / "data"))


def findings(directory: Path) -> list[Finding]:
    return list(check(files_of(directory), lambda path, read: None))


def test_nothing_wrong(left: Path) -> None:
    """All files fit each other, those of internal topics too."""
    assert findings(left) == []
    assert list(left.glob("paid-0/*.txnindex"))
    assert list(left.glob("*/*.snapshot"))


def test_a_killed_broker(tmp_path: Path) -> None:
    """What a broker leaves that is killed fits as well."""
    with Broker(data_dir=tmp_path / "data", in_process=False) as broker:
        _fill(broker)
        broker.kill()
        assert findings(tmp_path / "data") == []


def test_an_aborted_transaction_that_is_not_indexed(copied: Path) -> None:
    """It would be read as if it were committed."""
    path = max(copied.glob("paid-0/*.txnindex"), key=lambda each: each.stat().st_size)
    path.unlink()
    found = findings(copied)
    assert {each.file for each in found} == {str(path)}
    assert all("aborted" in each.what and "committed records" in each.effect for each in found)


def test_a_snapshot_that_is_behind(copied: Path) -> None:
    """A producer's last batch is told that the snapshot should have."""
    path = max(copied.glob("state-0/*.snapshot"))
    offset = int(path.stem)
    producers = list(decode_snapshot(path.read_bytes(), offset))
    behind = next(each for each in producers if each.batches and each.batches[-1].last_sequence > 0)
    last = behind.batches[-1]
    behind.batches[-1] = BatchMetadata(0, last.last_sequence - 1, last.first_offset - 1, last.last_offset - 1, 0)
    path.write_bytes(encode_snapshot(ProducerStateManager(offset, producers)))
    found = findings(copied)
    assert [each.file for each in found] == [str(path)]
    assert f"producer {behind.producer_id} ends with offset {last.last_offset - 1}" in found[0].what
