"""
Has the broker of a checkout write data for ``golden``, before a release, or after a format has changed::

    git worktree add /tmp/earlier v0.1.0
    python -m tests.upgrade.make_data /tmp/earlier tests/upgrade/golden/0.1.0.tar.xz
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from logbus.testing.held_ports import HeldPorts

SECONDS = 60
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START_MS = 1_700_000_000_000
ORDERS = 200
"""Records of the topic ``orders``, in partitions in turn, a second apart."""

KEYS = 5
"""Keys of the compacted topic ``accounts``: of each only the last of many records counts."""


def wait_for(look: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not look():
        if time.monotonic() > deadline:
            raise TimeoutError(f"this did not happen: {what}")
        time.sleep(0.1)


def settle(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(SECONDS)


def write_orders(bootstrap: str) -> None:
    """Records in all codecs, with keys, headers and times, in several segments."""
    for number, codec in enumerate(CODECS):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True})
        for order in range(number, ORDERS, len(CODECS)):
            producer.produce(
                "orders",
                f"order {order} ".encode() * 10,
                f"customer-{order % 7}",
                partition=order % 2,
                timestamp=START_MS + order * 1000,
                headers={"codec": codec},
            )
            producer.flush(SECONDS)


def write_accounts(bootstrap: str, data: Path) -> None:
    """A topic that is compacted, and its latest records, which are not yet."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(40 * KEYS):
        producer.produce("accounts", f"balance {number} ".encode() * 10, f"account-{number % KEYS}")
        producer.flush(SECONDS)
    checkpoint = data / "cleaner-offset-checkpoint"
    wait_for(lambda: checkpoint.exists() and "accounts" in checkpoint.read_text(), "accounts is compacted")


def write_payments(bootstrap: str) -> None:
    """Transactions: one committed, with offsets of a group; one aborted; one open."""
    group = Consumer({"bootstrap.servers": bootstrap, "group.id": "ledger", "auto.offset.reset": "earliest"})
    group.subscribe(["orders"])
    wait_for(lambda: group.poll(1.0), "the group reads")
    for ending in ("committed", "aborted", "open"):
        producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": ending, "transaction.timeout.ms": 10_000}
        )
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        for number in range(5):
            producer.produce("payments", f"{ending} {number}")
        producer.flush(SECONDS)
        if ending == "committed":
            producer.send_offsets_to_transaction(
                [TopicPartition("orders", 0, 42)], group.consumer_group_metadata(), SECONDS
            )
            producer.commit_transaction(SECONDS)
        elif ending == "aborted":
            producer.abort_transaction(SECONDS)
    group.close()


def write(bootstrap: str, data: Path) -> None:
    """All that ``test_earlier_data`` looks for."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settle(
        admin.create_topics(
            [
                NewTopic("orders", 2, 1, config={"segment.bytes": "8192", "retention.ms": "-1"}),
                NewTopic(
                    "accounts",
                    1,
                    1,
                    config={
                        "cleanup.policy": "compact",
                        "segment.bytes": "4096",
                        "min.cleanable.dirty.ratio": "0.01",
                    },
                ),
                NewTopic("payments", 1, 1, config={"retention.ms": "-1"}),
            ]
        )
    )
    write_orders(bootstrap)
    write_accounts(bootstrap, data)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 17), TopicPartition("orders", 1, 18)], asynchronous=False)
    consumer.close()
    write_payments(bootstrap)


def main(checkout: Path, archive: Path) -> None:
    """Write an archive of the data directory of a broker of ``checkout``, which was stopped in order."""
    ports = HeldPorts()
    port = ports.free("127.0.0.1")
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory, "data")
        (config := Path(directory, "server.properties")).write_text(
            f"log.dirs={data}\noffsets.topic.num.partitions=2\n"
            "transaction.state.log.num.partitions=2\nlog.cleaner.backoff.ms=100\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(checkout), "LOGBUS_PURE": "1"}
        listen = (f"--listen=kafka:tcp:{port}:interface=127.0.0.1", "--listen=admin:tcp:0:interface=127.0.0.1")
        command = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
        broker = subprocess.Popen(
            [*command, "logbus", "--config", config, *listen],
            cwd=checkout,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert broker.stdout is not None
        for line in broker.stdout:
            sys.stderr.write(line)
            if " ready: " in line:
                break
        try:
            write(f"127.0.0.1:{port}", data)
        finally:
            broker.terminate()
            broker.communicate(timeout=SECONDS)
        with tarfile.open(archive, "w:xz", preset=9) as into:
            for path in sorted(data.rglob("*")):
                into.add(path, path.relative_to(data), recursive=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
