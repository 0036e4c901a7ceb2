"""Tests of the comparison with Kafka: the requests it sends, and the direction of its ratios."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from unittest import skipUnless

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.compare import native_programs, wire
from benchmarks.compare.cells import CELLS, Cell
from benchmarks.compare.report import CellResult, Report, Section, ratios
from benchmarks.compare.rounds import Figures, Round
from logbus.records.header import batch_problem, iter_batches
from logbus.testing import Broker
from logbus.wire.headers import decode_request_header
from logbus.wire.messages.records import FetchRequest, ProduceRequest
from logbus.wire.schema import decoder


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
        read = self.load("fetch", self.port, 3, 0.2, 1e9, fetch, frame.entries_at, 2, size, batch.records, 50)
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

    def test_refusal_is_an_error(self) -> None:
        """A broker that refuses what is sent ends the load with the error's number."""
        frames = self.directory / "produce"
        frames.write_bytes(wire.produce_request("absent", {9: wire.record_batch(1, 10)}, 1))
        done = self.load("produce", self.port, 1, 1, 5, 1e9, 0, frames)
        self.assertEqual(done.returncode, 1)
        self.assertIn("failed with error 3", done.stderr)
