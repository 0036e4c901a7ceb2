"""
Measures the cost of exactly-once for a broker: idempotence, transactions, read_committed::

    python -m benchmarks.exactly_once [--rounds 6] [--seconds 1] [--only idempotent,transactions,fetch,producers]

Each load is driven by turns with the one it is held against, on one broker, and the broker's CPU (user and system) is
compared: the ratio is what counts, on a machine with other work.  The answers are read, and at the end of each load the
log must have all of it.  ``log.flush.before.ack`` is off, so that the disk has no say in it.
"""

from __future__ import annotations

import argparse
import os
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from attrs import define, field
from crc32c import crc32c

from benchmarks.compare import wire
from benchmarks.compare.process_cost import cost
from benchmarks.compare.systems import Logbus, Running, start
from benchmarks.groups import Peer, check
from logbus.interpreter import InterpreterBuild
from logbus.storage.producers.producer_snapshot import encode_snapshot
from logbus.storage.producers.producer_state_manager import BatchMetadata, ProducerStateEntry, ProducerStateManager
from logbus.wire.messages.groups import FindCoordinatorRequest
from logbus.wire.messages.partitions import NamedTopicPartitions
from logbus.wire.messages.records import FetchPartition, FetchRequest, FetchTopic
from logbus.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

IN_FLIGHT = 5
ADDING = 12
"""The version of Produce that adds partitions to transactions by itself (KIP-890)."""
TRANSACTION_RECORDS = 1000
RETRY = {14, 15, 16, 51}

_set_sequence = struct.Struct(">qhi").pack_into
_set_crc = struct.Struct(">I").pack_into
_read_length = struct.Struct(">i").unpack_from


@define(eq=False)
class Source:
    """
    Requests of one producer to one partition, each with the next sequence number.

    :ivar records: of a batch, of ``size`` bytes each.
    :ivar producer_id: −1: it is not idempotent.
    """

    topic: str
    records: int
    size: int
    acks: int
    version: int = 9
    producer_id: int = -1
    epoch: int = -1
    transactional_id: str | None = None
    sequence: int = 0
    partition: int = 0
    _frame: bytearray = field(init=False)
    _batch_at: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        batch = bytearray(wire.record_batch(self.records, self.size).data)
        if self.transactional_id is not None:
            batch[22] |= 0x10
        name, said = self.topic.encode(), (self.transactional_id or "").encode()
        body = (wire.uvarint(len(said) + 1) + said) if said else b"\0"
        body += struct.pack(">hi", self.acks, 30_000) + b"\x02" + wire.uvarint(len(name) + 1) + name
        body += b"\x02" + struct.pack(">i", self.partition) + wire.uvarint(len(batch) + 1)
        head = struct.pack(">hhih", 0, self.version, 1, 9) + b"benchmark\0"
        self._batch_at = 4 + len(head) + len(body)
        rest = head + body + batch + b"\0\0\0"
        self._frame = bytearray(struct.pack(">i", len(rest)) + rest)
        self._seal()

    def _seal(self) -> None:
        at = self._batch_at
        if self.producer_id >= 0:
            _set_sequence(self._frame, at + 43, self.producer_id, self.epoch, self.sequence)
        _set_crc(self._frame, at + 17, crc32c(memoryview(self._frame)[at + 21 : -3]))

    def frames(self, number: int) -> bytes:
        """The next so many requests."""
        out = []
        for _ in range(number):
            self._seal()
            out.append(bytes(self._frame))
            self.sequence = (self.sequence + self.records) & 0x7FFFFFFF
        return b"".join(out)


def exchange(peer: Peer, requests: bytes, number: int) -> None:
    """Send requests that are in flight at a time, and read as many answers."""
    peer.sock.sendall(requests)
    held = b""
    while number:
        held += peer.sock.recv(1 << 18)
        while number and len(held) >= 4 and len(held) >= 4 + (size := _read_length(held)[0]):
            held = held[4 + size :]
            number -= 1
    if held:
        raise SystemExit("there are more answers than requests")


Load = Callable[[], float]
"""Does some work, and says how much."""


def compare(broker: Running, loads: dict[str, Load], rounds: int, seconds: float) -> dict[str, float]:
    """Seconds of CPU for a unit of each load's work: the median of rounds in which they take turns."""
    found: dict[str, list[float]] = {name: [] for name in loads}
    turns = list(loads.items())
    for number in range(rounds + 1):
        # What one leaves behind, such as pages to be written, is for whoever comes next: not always for the same one.
        turns.append(turns.pop(0))
        for name, load in turns:
            before, begun, work = cost(broker.pid).cpu, time.monotonic(), 0.0
            while time.monotonic() - begun < (seconds if number else 0.3):
                work += load()
            if number:
                found[name].append((cost(broker.pid).cpu - before) / work)
    return {name: median(figures) for name, figures in found.items()}


def say(title: str, figures: dict[str, float], unit: str, scale: float, than: str, most: float) -> None:
    """Print each figure, and how it compares to one of them."""
    for name, figure in figures.items():
        ratio = "" if name == than else f"  {figure / figures[than]:.2f} of it (wanted: {most:g} at most)"
        print(f"{title + ', ' + name:<52} {figure * scale:8.2f} {unit}{ratio}", flush=True)


def end_of(peer: Peer, topic: str) -> int:
    """Where a topic's only partition ends."""
    from logbus.wire.messages.records import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

    asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    answer = peer.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), 5).topics[0].partitions[0]
    check(answer)
    return int(answer.offset)


def idempotent(broker: Running, rounds: int, seconds: float) -> None:
    """Records of 100 B, with and without a sequence."""
    peer = Peer(broker.port)
    for acks, depth in ((1, 1), (1, 16), (-1, 1), (-1, 16)):
        loads: dict[str, Load] = {}
        sources = {}
        for name in ("plain", "idempotent"):
            topic = f"{name}-{acks}-{depth}"
            broker.admin.create_topic(topic, 1, {})
            source = Source(topic, 1, 100, acks)
            if name != "plain":
                answer = peer.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4)
                check(answer)
                source.producer_id, source.epoch = answer.producer_id, 0
            sources[name] = [source, 0]

            def load(which: list[Any] = sources[name], depth: int = depth) -> float:
                for _ in range(20):
                    exchange(peer, which[0].frames(depth), depth)
                which[1] += 20 * depth
                return 20 * depth

            loads[name] = load
        say(f"produce 100 B, acks={acks}, {depth} in flight", compare(broker, loads, rounds, seconds), "µs", 1e6,
            "plain", 1.1)  # fmt: skip
        for source, sent in sources.values():
            if end_of(peer, source.topic) != sent:
                raise SystemExit(f"{source.topic} does not have all {sent} records")


def begin(peer: Peer, transactional_id: str, version: int = 4) -> tuple[int, int]:
    """Producer id and epoch of a transactional producer."""
    while True:
        peer.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id]), 4)
        answer = peer.ask(
            InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000), version
        )
        if answer.error_code not in RETRY:
            check(answer)
            return answer.producer_id, answer.producer_epoch
        time.sleep(0.05)


def end(peer: Peer, source: Source, committed: bool) -> None:
    """End a transaction; the source goes on with the epoch it is given."""
    new = source.version >= ADDING
    while True:
        answer = peer.ask(
            EndTxnRequest(
                transactional_id=source.transactional_id,
                producer_id=source.producer_id,
                producer_epoch=source.epoch,
                committed=committed,
            ),
            5 if new else 3,
        )
        if answer.error_code not in RETRY:
            break
    check(answer)
    if new:
        source.producer_id, source.epoch, source.sequence = answer.producer_id, answer.producer_epoch, 0


def transact(peer: Peer, source: Source, batches: int, committed: bool = True) -> None:
    """One transaction of so many batches."""
    if source.version < ADDING:
        topic = NamedTopicPartitions(name=source.topic, partitions=[0])
        while True:
            answer = peer.ask(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=source.transactional_id,
                    v3_and_below_producer_id=source.producer_id,
                    v3_and_below_producer_epoch=source.epoch,
                    v3_and_below_topics=[topic],
                ),
                3,
            )
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            if code not in RETRY:
                break
        if code:
            raise SystemExit(f"AddPartitionsToTxn: error {code}")
    send(peer, source, batches)
    end(peer, source, committed)


def send(peer: Peer, source: Source, batches: int) -> None:
    while batches:
        some = min(batches, IN_FLIGHT)
        exchange(peer, source.frames(some), some)
        batches -= some


def transactions(broker: Running, rounds: int, seconds: float) -> None:
    """Transactions of 1,000 records of 1 KB in batches of 16 KB, and the same without transactions."""
    peer = Peer(broker.port)
    batches = -(-TRANSACTION_RECORDS // 16)
    loads: dict[str, Load] = {}
    sources: dict[str, list[Any]] = {}
    for name, version in (("idempotent", 9), ("transactions", ADDING), ("transactions, older clients", 9)):
        topic = name.replace(", ", "-").replace(" ", "-")
        broker.admin.create_topic(topic, 1, {})
        if name == "idempotent":
            answer = peer.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4)
            check(answer)
            source = Source(topic, 16, 1000, -1, version, answer.producer_id, 0)
        else:
            source = Source(topic, 16, 1000, -1, version, *begin(peer, topic), transactional_id=topic)
        sources[name] = [source, 0]

        def load(which: list[Any] = sources[name]) -> float:
            if which[0].transactional_id is None:
                send(peer, which[0], batches)
                which[1] += batches * 16
            else:
                transact(peer, which[0], batches)
                which[1] += batches * 16 + 1
            return 1.0

        loads[name] = load
    say("1,000 records of 1 KB", compare(broker, loads, rounds, seconds), "ms", 1e3, "idempotent", 1.3)
    for source, sent in sources.values():
        if end_of(peer, source.topic) != sent:
            raise SystemExit(f"{source.topic} does not have all {sent} records")


def fetch(broker: Running, rounds: int, seconds: float) -> None:
    """A log of transactions of which each tenth was aborted, read as it is and as far as it is committed."""
    peer = Peer(broker.port)
    broker.admin.create_topic("fetched", 1, {})
    source = Source("fetched", 16, 1000, 1, ADDING, *begin(peer, "fetched"), transactional_id="fetched")
    for number in range(200):
        transact(peer, source, 63, committed=number % 10 != 5)
    most = end_of(peer, "fetched")

    def reading(isolation_level: int) -> Load:
        offsets = {"at": 0}

        def load() -> float:
            size = 0
            for _ in range(50):
                asked = FetchPartition(partition=0, fetch_offset=offsets["at"], partition_max_bytes=1 << 20)
                request = FetchRequest(
                    max_wait_ms=500, min_bytes=1, max_bytes=1 << 24, isolation_level=isolation_level,
                    session_epoch=-1, topics=[FetchTopic(topic="fetched", partitions=[asked])],
                )  # fmt: skip
                (answer,) = peer.ask(request, 12).responses[0].partitions
                check(answer)
                data = answer.records
                if not data:
                    raise SystemExit(f"nothing at offset {offsets['at']} of {most}")
                size += len(data)
                at = 0
                while at < len(data):
                    base, length = struct.unpack_from(">qi", data, at)
                    delta = struct.unpack_from(">i", data, at + 23)[0]
                    at += 12 + length
                offsets["at"] = base + delta + 1
                if offsets["at"] >= most:
                    offsets["at"] = 0
            return size

        return load

    loads = {"read_uncommitted": reading(0), "read_committed": reading(1)}
    figures = compare(broker, loads, rounds, seconds)
    say("fetch of 1 MB", figures, "s/GB", 1e9, "read_uncommitted", 1.1)


def producers(broker: Running) -> None:
    """Measures many producer ids: memory on one partition and on many, and a snapshot."""
    peer = Peer(broker.port)
    broker.admin.create_topic("many", 100, {})
    ids = count(10**6)

    def write(partitions: Iterator[int], number: int) -> None:
        sources = {}
        for _ in range(number // 50):
            out = []
            for _ in range(50):
                partition = next(partitions)
                source = sources.get(partition)
                if source is None:
                    source = sources[partition] = Source("many", 1, 10, 1, partition=partition)
                source.producer_id, source.epoch, source.sequence = next(ids), 0, 0
                out.append(source.frames(1))
            exchange(peer, b"".join(out), 50)

    write(iter(range(100)), 100)
    for partitions, number in ((1, 10_000), (100, 100_000)):
        before = cost(broker.pid)
        write((n % partitions for n in count()), number)
        after = cost(broker.pid)
        print(
            f"{number:,} producer ids on {partitions} partitions: {(after.anonymous - before.anonymous) / 1e6:.1f} MB, "
            f"{(after.cpu - before.cpu) / number * 1e6:.1f} µs CPU for the first batch of each",
            flush=True,
        )
    known = ProducerStateManager(1, [
        ProducerStateEntry(n, 0, [BatchMetadata(0, 0, n, n, 0)], last_timestamp=n) for n in range(10_000)
    ])  # fmt: skip
    times = []
    for _ in range(20):
        begun = time.process_time()
        size = len(encode_snapshot(known))
        times.append(time.process_time() - begun)
    print(f"a snapshot of 10,000 producer ids: {size / 1e6:.2f} MB, {median(times) * 1e3:.1f} ms CPU")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a round")
    parser.add_argument("--only", default="idempotent,transactions,fetch,producers")
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    wanted = options.only.split(",")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR"), prefix="logbus-once-") as name:
        broker = start(Logbus(), Path(name) / "broker", synced=False)
        try:
            for part in (idempotent, transactions, fetch):
                if part.__name__ in wanted:
                    part(broker, options.rounds, options.seconds)
            if "producers" in wanted:
                producers(broker)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
