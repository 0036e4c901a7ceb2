"""Tests of the comparison with Kafka: the requests it sends, and the direction of its ratios."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest import skipUnless

import attrs
from twisted.trial.unittest import SynchronousTestCase

from benchmarks.compare import native_programs, wire
from benchmarks.compare.cells import CELLS, Cell
from benchmarks.compare.process_cost import cost, tree, tree_cost
from benchmarks.compare.report import CellResult, Report, Section, ratios
from benchmarks.compare.rounds import Figures, Round
from benchmarks.compare.systems import Running
from benchmarks.compare.workloads import Load, prepare
from logbus.records.header import batch_problem, iter_batches
from logbus.testing import Broker
from logbus.wire.headers import decode_request_header
from logbus.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from logbus.wire.messages.records import FetchRequest, ProduceRequest
from logbus.wire.schema import decoder, encode


def decoded(frame: bytes, message: type) -> object:
    """The body of a frame, which must end where the frame does."""
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    _, at = decode_request_header(frame, 4, flexible=True)
    body, end = decoder(message, struct.unpack_from(">h", frame, 6)[0])(frame, at)
    assert end == len(frame)
    return body


class RequestTests(SynchronousTestCase):
    """What :mod:`benchmarks.compare.wire` writes."""

    def test_produce(self) -> None:
        """A Produce frame holds its batches, whole and valid, with every codec."""
        for codec in ("none", "lz4", "zstd"):
            batch = wire.record_batch(50, 100, codec)
            body = decoded(wire.produce_request("t", {0: batch, 7: batch}, -1), ProduceRequest)
            assert isinstance(body, ProduceRequest)
            self.assertEqual(body.acks, -1)
            (topic,) = body.topic_data
            self.assertEqual([p.index for p in topic.partition_data], [0, 7])
            for partition in topic.partition_data:
                data = bytes(partition.records or b"")
                ((at, header),) = iter_batches(data)
                self.assertEqual(header.record_count, 50)
                self.assertIsNone(batch_problem(data, at, header))

    def test_fetch_positions(self) -> None:
        """A load that writes offsets and sessions where the frame says they lie changes these and nothing else."""
        frame = wire.fetch_request("topic", [0, 1, 2], session_epoch=0)
        data = bytearray(frame.data)
        struct.pack_into(">ii", data, frame.session_at, 77, 5)
        struct.pack_into(">q", data, frame.entries_at + 2 * wire.FETCH_ENTRY_SIZE + 8, 1234)
        body = decoded(bytes(data), FetchRequest)
        assert isinstance(body, FetchRequest)
        self.assertEqual((body.session_id, body.session_epoch), (77, 5))
        (topic,) = body.topics
        self.assertEqual([p.fetch_offset for p in topic.partitions], [0, 0, 1234])

    def test_payload_compresses_as_events_do(self) -> None:
        """Neither random bytes, which no codec shrinks, nor zeros, which all do."""
        packed = len(wire.record_batch(900, 1000, "zstd").data)
        self.assertTrue(2 < 900_000 / packed < 6, packed)


class MetadataTests(SynchronousTestCase):
    """Where :class:`benchmarks.compare.wire.Admin` finds leaders."""

    def test_leaders(self) -> None:
        """Each partition's leader is a port; a partition without a leader has none."""
        brokers = [
            MetadataResponseBroker(node_id=0, host="127.0.0.1", port=9093, rack="a rack"),
            MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9094),
        ]
        partitions = [
            MetadataResponsePartition(partition_index=p, leader_id=leader, replica_nodes=[0, 1], isr_nodes=[0])
            for p, leader in enumerate((1, 0, -1))
        ]
        response = MetadataResponse(brokers=brokers, topics=[MetadataResponseTopic(name="t", partitions=partitions)])
        self.assertEqual(
            wire.metadata_leaders(b"".join(bytes(part) for part in encode(response, 1))), {0: 9094, 1: 9093}
        )


class RoutedLoadTests(SynchronousTestCase):
    """A load whose partitions several brokers lead."""

    def load(self, cell: Cell, leaders: dict[int, int]) -> Load:
        """The cell's load, routed."""
        directory = Path(self.enterContext(tempfile.TemporaryDirectory())) / "load"
        programs = native_programs.Programs(*(Path("program") for _ in range(4)))
        return prepare(cell, "t", directory, programs).routed("system", leaders)

    def test_requests_are_split(self) -> None:
        """A request for several partitions becomes one for each leader, with those it leads."""
        cell = Cell("c", "produce", 10, partitions=3, spread=True)
        load = self.load(cell, {0: 1, 1: 2, 2: 1})
        for name, message in (("produce", ProduceRequest), ("fetch", FetchRequest)):
            bodies = [decoded(frame, message) for frame in frames_of((load.directory / name).read_bytes())]
            self.assertEqual([indexes_of(body) for body in bodies], [[0, 2], [1]])
        fills = frames_of((load.directory / "fill").read_bytes())
        self.assertEqual([indexes_of(decoded(frame, ProduceRequest)) for frame in fills], [[0], [1], [2]])

    def test_ports(self) -> None:
        """A command has a port for each request, or one when there is one leader, or no leader is known."""
        broker = cast(Running, SimpleNamespace(port=9))
        for leaders, fill, fetch in (
            ({0: 1, 1: 2, 2: 1}, "1,2,1", "1,2"),
            ({0: 3, 1: 3, 2: 3}, "3", "3"),
        ):
            load = self.load(Cell("c", "fetch", 10, partitions=3), leaders)
            filling = load.fill(broker)
            assert filling is not None
            self.assertEqual((filling[2], load.run(broker, 1, 1)[2]), (fill, fetch))
            unrouted = attrs.evolve(load, leaders={})
            self.assertEqual(unrouted.run(broker, 1, 1)[2], "9")

    def test_partition_without_leader(self) -> None:
        """A cell is not run if a partition has no leader."""
        self.assertRaises(wire.BrokerRefusal, self.load, Cell("c", "tail", 10, partitions=2), {0: 1})


class CostTests(SynchronousTestCase):
    """What processes cost."""

    def test_tree(self) -> None:
        """The cost of a process with others below it is that of all."""
        inner = "import os, sys; os.write(1, b'.'); sys.stdin.read()"
        outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
        with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.read(1)
            first, child = tree(process.pid)
            self.assertEqual(first, process.pid)
            both, own, below = tree_cost(process.pid), cost(process.pid), cost(child)
            process.communicate()
        self.assertLess(abs(both.cpu - own.cpu - below.cpu), 0.1)
        self.assertTrue(0 < both.anonymous <= both.resident < own.resident + below.resident)


class CellTests(SynchronousTestCase):
    """The list of what is measured."""

    def test_names(self) -> None:
        """Names are unique and say what the cell is."""
        self.assertEqual(len({cell.name for cell in CELLS}), len(CELLS))
        for cell in CELLS:
            self.assertEqual(cell.name.split(".")[0], cell.kind)
            self.assertEqual(cell.partitions == 100, cell.name.endswith(".p100"), cell.name)
            self.assertEqual(cell.codec != "none", f".{cell.codec}" in cell.name, cell.name)

    def test_full_batches_are_taken(self) -> None:
        """A full batch is within a broker's default message.max.bytes."""
        for records, size in {(cell.records, cell.size) for cell in CELLS}:
            self.assertLess(len(wire.record_batch(records, size).data), 1_048_588, size)


def frames_of(data: bytes) -> list[bytes]:
    """The frames of a file, length prefixes included."""
    frames = []
    while data:
        size = 4 + struct.unpack_from(">i", data)[0]
        frames.append(data[:size])
        data = data[size:]
    return frames


def indexes_of(body: object) -> list[int]:
    """The partitions a request names."""
    if isinstance(body, ProduceRequest):
        return [p.index for topic in body.topic_data for p in topic.partition_data]
    assert isinstance(body, FetchRequest)
    return [p.partition for topic in body.topics for p in topic.partitions]


def figures(seconds: float, latency: float, cpu: float) -> Figures:
    """One round of 1000 requests."""
    return Figures((Round(seconds, 1000, 1e6, latency, latency, latency, cpu, 50_000_000, 0, 0, 0.0),))


class ReportTests(SynchronousTestCase):
    """Ratios and tables."""

    def test_ratios_favour_logbus_above_one(self) -> None:
        """Twice the rate, half the latency and half the cost are all a 2."""
        result = CellResult(
            Cell("produce.x", "produce", 100), {"logbus": figures(1, 10, 0.1), "kafka": figures(2, 20, 0.2)}
        )
        found = ratios(result)
        for name in ("throughput", "p50", "p99", "p999", "cpu_per_request", "cpu_per_gb"):
            self.assertAlmostEqual(found[name], 2.0, msg=name)
        self.assertEqual(found["memory"], 1.0)

    def test_markdown(self) -> None:
        """A cell below 1 is bold and counted, one that failed says why, and JSON has both."""
        slow = CellResult(
            Cell("produce.slow", "produce", 100), {"logbus": figures(2, 20, 0.2), "kafka": figures(1, 10, 0.1)}
        )
        failed = CellResult(Cell("produce.broken", "produce", 100), {}, "refused\nby the broker")
        report = Report({}, [], {}, [Section("Mode", [slow, failed])])
        text = report.markdown()
        self.assertIn("| produce.slow | **0.50** |", text)
        self.assertIn("0 of 1 cells are at 1.0 or more", text)
        self.assertIn("failed: refused by the broker", text)
        cells = json.loads(json.dumps(report.as_json()))["modes"]["Mode"]
        self.assertEqual(cells["produce.broken"]["problem"], "refused\nby the broker")
        self.assertEqual(cells["produce.slow"]["ratios"]["throughput"], 0.5)


@functools.cache
def compiled() -> native_programs.Programs:
    """The programs, compiled once for all tests."""
    directory = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, directory)
    return native_programs.build(Path(directory))


@skipUnless(shutil.which("cc"), "no C compiler")
class LoadTests(SynchronousTestCase):
    """The C programs, against a broker."""

    def setUp(self) -> None:
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.programs = compiled()
        self.broker = self.enterContext(Broker())
        self.port = int(self.broker.bootstrap.rpartition(":")[2])
        self.admin = wire.Admin(self.port)

    def load(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run the raw load program."""
        command = [str(self.programs.load), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def test_acknowledged_requests_are_stored(self) -> None:
        """Exactly the requests asked for are acknowledged, and come back as they were sent."""
        self.admin.create_topic("t", 2, {})
        batch = wire.record_batch(5, 100)
        frames, fetch = self.directory / "produce", self.directory / "fetch"
        frames.write_bytes(b"".join(wire.produce_request("t", {p: batch}, 1) for p in (0, 1)))
        done = json.loads(self.load("produce", self.port, 1, 4, 30, 1e9, 20, frames).stdout)
        self.assertEqual(done["requests"], 20)
        self.assertEqual(self.admin.first_batch("t"), batch.data[8:12] + batch.data[16:])
        frame = wire.fetch_request("t", [0, 1])
        fetch.write_bytes(frame.data)
        size = len(batch.data)
        read = self.load("fetch", self.port, 3, 0.2, 1e9, fetch, frame.entries_at, size, batch.records, 50)
        found = json.loads(read.stdout)
        self.assertEqual(found["bytes_in"] % size, 0)
        self.assertGreater(found["requests"], 0)

    def test_tail(self) -> None:
        """Every record reaches every consumer, with and without a fetch session."""
        produce, polls = self.directory / "produce", self.directory / "fetch"
        for partitions, session in ((1, False), (3, True)):
            topic = f"tail-{partitions}"
            self.admin.create_topic(topic, partitions, {})
            batch = wire.record_batch(1, 100)
            indexes = list(range(partitions))
            produce.write_bytes(b"".join(wire.produce_request(topic, {p: batch}, 1) for p in indexes))
            frame = wire.fetch_request(topic, indexes, session_epoch=0 if session else -1)
            again = wire.fetch_request(topic, [0], session_epoch=1)
            polls.write_bytes(frame.data + (again.data if session else b""))
            positions = (frame.entries_at, again.entries_at, again.session_at)
            done = self.load("tail", self.port, 4, 0.3, 200, produce, polls, *positions)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = json.loads(done.stdout)
            self.assertEqual(found["samples"] % 4, 0)

    def test_leaders_of_partitions(self) -> None:
        """What is for a partition goes to its leader alone, and all of it is read from there."""
        other = wire.Admin(int(self.enterContext(Broker()).bootstrap.rpartition(":")[2]))
        cell = Cell("c", "fetch", 100, partitions=3, connections=4)
        leaders = {0: self.port, 1: other.port, 2: self.port}
        load = prepare(cell, "t", self.directory / "load", self.programs).routed("both", leaders)
        load = attrs.evolve(load, preload=10)
        running = cast(Running, SimpleNamespace(port=0))
        for admin in (self.admin, other):
            admin.create_topic("t", 3, {})
            self.assertEqual(admin.leaders("t"), dict.fromkeys(range(3), admin.port))

        def ran(command: list[str] | None) -> dict[str, float]:
            assert command is not None
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            result: dict[str, float] = json.loads(done.stdout)
            return result

        self.assertEqual(ran(load.fill(running))["requests"], 30)
        self.assertEqual([self.admin.ends("t"), other.ends("t")], [{0: 10, 1: 0, 2: 10}, {0: 0, 1: 10, 2: 0}])
        self.assertEqual(ran(load.run(running, 0.2, 1e9))["bytes_in"] % len(load.batch.data), 0)
        tail = attrs.evolve(cell, kind="tail")
        load = prepare(tail, "t", self.directory / "tail", self.programs).routed("both", leaders)
        found = ran(load.run(running, 0.3, 1e9))
        self.assertEqual(found["samples"] % 4, 0)
        self.assertEqual(sum(self.admin.ends("t").values()) + sum(other.ends("t").values()), 33 + found["samples"] / 4)

    def test_refusal_is_an_error(self) -> None:
        """A broker that refuses what is sent ends the load with the error's number."""
        frames = self.directory / "produce"
        frames.write_bytes(wire.produce_request("absent", {9: wire.record_batch(1, 10)}, 1))
        done = self.load("produce", self.port, 1, 1, 5, 1e9, 0, frames)
        self.assertEqual(done.returncode, 1)
        self.assertIn("failed with error 3", done.stderr)
