"""Invalid requests: each gets the right error or closes the connection, logs one line, and does no harm."""

from __future__ import annotations

import gc
import struct
import tracemalloc
from collections.abc import Iterator

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ErrorCode
from logbus.handlers.fetch import FetchHandlers
from logbus.records.batch import Record, encode_batch
from logbus.records.checksum import crc32c
from logbus.records.compression import Codec, compress
from logbus.records.header import HEADER, HEADER_SIZE
from logbus.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from logbus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logbus.wire.messages.records import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from logbus.wire.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.handlers.kit import NOW_MS, MemoryBroker, a_batch, content, fetch_request
from tests.hostile.log_capture import logged

HELLO = bytes.fromhex("16030100f8010000f40303") + bytes(64)


def head(api_key: int, version: int, client_id: bytes = b"me") -> bytes:
    return struct.pack(">hhih", api_key, version, 1, len(client_id)) + client_id


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def broken_streams() -> Iterator[tuple[str, bytes]]:
    """Bytes after which a stream cannot be trusted any more."""
    for length in (-1, -(2**31), 104_857_601, 2**31 - 1):
        yield f"length {length}", struct.pack(">i", length)
    for length in range(4):
        yield f"length {length}", framed(bytes(length))
    yield "TLS hello", HELLO
    yield "TLS alert", bytes.fromhex("15030100020228")
    for word in (b"GET / HTTP/1.1\r\n\r\n", b"POST /x HTTP/1.0\r\n", b"HEAD / HTTP/1.1\r\n", b"PUT / HTTP/1.1\r\n"):
        yield word.decode()[:4], word
    yield "SSH", b"SSH-2.0-OpenSSH_9.6\r\n"
    for key, version in ((99, 0), (-1, 0), (2**15 - 1, 0), (3, 32767), (3, -1), (0, 2), (1, 3)):
        yield f"API {key} version {version}", framed(head(key, version) + bytes(30))
    yield "client id longer than the frame", framed(struct.pack(">hhih", 3, 1, 1, 32767) + b"abc")
    yield "client id of a negative length", framed(struct.pack(">hhih", 3, 1, 1, -7) + bytes(9))
    yield "client id that is not UTF-8", framed(head(3, 1, b"\xff\xfe\x80") + struct.pack(">i", -1))
    yield "a count of 2^31-1", framed(head(3, 1) + struct.pack(">i", 2**31 - 1))
    yield "a count of -2", framed(head(3, 1) + struct.pack(">i", -2))
    yield "a compact count of 2^32-1", framed(head(3, 9) + b"\x00" + b"\xff\xff\xff\xff\x0f" + bytes(9))
    yield "a varint of six bytes", framed(head(3, 9) + b"\x00" + b"\xff" * 6 + bytes(9))
    yield "a tag count of 2^28", framed(head(3, 9) + b"\xff\xff\xff\x7f" + bytes(30))
    yield "descending tags", framed(head(3, 9) + b"\x02\x05\x00\x04\x00" + b"\x00\x00\x00\x00\x00")
    yield "a tag larger than the rest", framed(head(3, 9) + b"\x01\x05\x7f" + bytes(20))
    yield "nothing behind the header", framed(head(3, 1))
    yield "null where a name must be", framed(head(3, 1) + struct.pack(">ih", 1, -1))


class BrokenStreamTests(SynchronousTestCase):
    """The connection ends, and with it the trouble."""

    def test_closed_with_one_line(self) -> None:
        """Each kind closes its connection, is counted, logged in one line that names the peer, and answered nothing."""
        server = MemoryBroker().start()
        self.addCleanup(server.close)
        server.create("t")
        good = server.connect("10.0.0.99")
        for number, (what, data) in enumerate(broken_streams(), 1):
            host = f"10.1.0.{number}"
            client = server.connect(host)
            with logged() as lines:
                client.feed(data)
                # Whatever comes after it is not looked at.
                client.feed(data * 3)
            self.assertTrue(client.closed, what)
            self.assertEqual(client.frames(), [], what)
            self.assertEqual(len([line for line in lines if host in line]), 1, (what, lines))
            self.assertEqual(server.broker.kafka_server.net_metrics.broken_frames, number, what)
            self.assertEqual(good.produce().base_offset, number - 1, what)
        self.assertEqual(server.broker.kafka_server.net_metrics.failures, 0)
        self.assertEqual(server.broker.kafka_server.net_metrics.connections_open, 1)

    def test_one_line_a_second(self) -> None:
        """A peer that comes back a hundred times fills no log."""
        server = MemoryBroker().start()
        self.addCleanup(server.close)
        with logged() as lines:
            for _ in range(100):
                server.connect("10.1.1.1").feed(HELLO)
            server.reactor.advance(1)
            server.connect("10.1.1.1").feed(HELLO)
        lines = [line for line in lines if "10.1.1.1" in line]
        self.assertEqual(len(lines), 2)
        self.assertNotIn("suppressed", lines[0])
        self.assertIn(" (99 more warnings suppressed)", lines[1])
        self.assertEqual(server.broker.kafka_server.net_metrics.broken_frames, 101)

    def test_memory_does_not_grow(self) -> None:
        """Ten thousand broken connections leave nothing in memory."""
        server = MemoryBroker().start()
        self.addCleanup(server.close)

        def storm(count: int) -> None:
            # From one address, or the log's history would grow (which is a test's, not a broker's).
            for _ in range(count):
                server.connect("10.3.0.1").feed(HELLO)
            server.reactor.advance(2)

        storm(500)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        before = tracemalloc.get_traced_memory()[0]
        storm(2000)
        gc.collect()
        self.assertLess(tracemalloc.get_traced_memory()[0] - before, 200_000)


class SlowPeerTests(SynchronousTestCase):
    """Slow peers, on a virtual clock."""

    def setUp(self) -> None:
        self.server = MemoryBroker().start()
        self.addCleanup(self.server.close)
        self.server.create("t")

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.server.reactor.advance(1)

    def test_slow_loris(self) -> None:
        """A byte a second keeps no frame open for longer than 40 s; other clients stay."""
        loris, honest = self.server.connect("10.6.6.6"), self.server.connect()
        frame = framed(head(3, 1) + bytes(200))
        for byte in frame[:45]:
            loris.feed(bytes([byte]))
            honest.metadata()
            self.pass_time(1)
        self.assertTrue(loris.closed)
        self.assertFalse(honest.closed)
        self.assertEqual(self.server.broker.kafka_server.net_metrics.connections_expired, 1)

    def test_incomplete_frame(self) -> None:
        """An announced frame that does not come costs its connection, and reserves no memory meanwhile."""
        client = self.server.connect()
        client.feed(struct.pack(">i", 90 * 1024 * 1024))
        self.pass_time(45)
        self.assertTrue(client.closed)
        self.assertEqual(self.server.broker.kafka_server.connections.budget.used, 0)

    def test_idle(self) -> None:
        """A connection on which nothing happens for ten minutes is closed."""
        client = self.server.connect()
        self.pass_time(590)
        self.assertFalse(client.closed)
        self.pass_time(30)
        self.assertTrue(client.closed)


class RecordTests(SynchronousTestCase):
    """Batches that are not what they say."""

    def setUp(self) -> None:
        self.server = MemoryBroker().start()
        self.addCleanup(self.server.close)
        self.server.create("t")
        self.server.create("compacted", cleanup_policy="compact")
        self.server.create("gzipped", compression_type="gzip")
        self.client = self.server.connect()

    def patched(self, at: int, form: str, value: int, crc: bool = True) -> bytes:
        data = bytearray(a_batch(b"v" * 20, b"w"))
        struct.pack_into(form, data, at, value)
        if crc:
            struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
        return bytes(data)

    def test_headers(self) -> None:
        """Each wrong field is refused with Kafka's error for it; nothing is written; the connection lives."""
        corrupt, record = ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD
        for what, data, code in (
            ("crc", self.patched(17, ">I", 1, crc=False), corrupt),
            ("magic 3", self.patched(16, ">b", 3), corrupt),
            ("magic 0", self.patched(16, ">b", 0), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
            ("length 48", self.patched(8, ">i", 48), corrupt),
            ("length -1", self.patched(8, ">i", -1), corrupt),
            ("length 2^31-1", self.patched(8, ">i", 2**31 - 1), record),
            ("count 0", self.patched(57, ">i", 0), record),
            ("count -1", self.patched(57, ">i", -1), record),
            ("count 2^31-1", self.patched(57, ">i", 2**31 - 1), record),
            ("delta", self.patched(23, ">i", 5), record),
            ("codec 5", self.patched(21, ">h", 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
            ("control", self.patched(21, ">h", 0x20), record),
            ("reserved bits", self.patched(21, ">h", 0x4000), record),
            ("delete horizon", self.patched(21, ">h", 0x40), record),
            (
                "transactional in a request that is not",
                self.patched(21, ">h", 0x10),
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ),
            ("log append time", self.patched(21, ">h", 0x08), ErrorCode.INVALID_TIMESTAMP),
            ("timestamp -2^63", self.patched(27, ">q", -(2**63)), ErrorCode.INVALID_TIMESTAMP),
            ("timestamp 2^63-1", self.patched(35, ">q", 2**63 - 1), ErrorCode.INVALID_TIMESTAMP),
            ("producer id -2", self.patched(43, ">q", -2), record),
            ("producer without sequence", self.patched(43, ">q", 9), record),
            ("cut in the header", a_batch()[:40], record),
            ("one byte", b"\x00", record),
        ):
            answer = self.client.produce(data)
            self.assertEqual((answer.error_code, answer.base_offset), (code, -1), what)
            self.assertTrue(answer.error_message, what)
        self.assertEqual(self.client.produce().base_offset, 0)
        self.assertEqual(self.server.broker.kafka_server.produce_appender.refused, 22)

    def test_too_large(self) -> None:
        """A batch above max.message.bytes is refused by its size alone."""
        answer = self.client.produce(bytes(1_048_589))
        self.assertEqual(answer.error_code, ErrorCode.MESSAGE_TOO_LARGE)

    def bomb(self, codec: Codec, size: int) -> bytes:
        body = compress(codec, bytes(size))
        header = bytearray(
            HEADER.pack(0, HEADER_SIZE - 12 + len(body), -1, 2, 0, codec, 0, NOW_MS, NOW_MS, -1, -1, -1, 1)
        )
        struct.pack_into(">I", header, 17, crc32c(body, crc32c(memoryview(header)[21:])))
        return bytes(header) + body

    def test_bombs(self) -> None:
        """Where batches are opened, one that becomes 200 MB is refused, and costs no more than the limit of 64 MB."""
        for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
            data = self.bomb(codec, 200 << 20)
            for topic in ("compacted", "gzipped"):
                if topic == "gzipped" and codec is Codec.GZIP:
                    continue
                tracemalloc.start()
                answer = self.client.produce(data, topic)
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                self.assertEqual(answer.error_code, ErrorCode.MESSAGE_TOO_LARGE, (codec, topic))
                self.assertLess(peak, 150 << 20)
            self.assertEqual(self.client.produce(data).error_code, 0, "kept as it is, it harms nobody here")

    def test_damaged_where_opened(self) -> None:
        """Records that cannot be read are CORRUPT_MESSAGE where they are read."""
        batch = bytearray(encode_batch([Record(0, NOW_MS, b"k", b"v" * 50)], codec=Codec.ZSTD))
        batch[70] ^= 0xFF
        struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
        for topic in ("compacted", "gzipped"):
            self.assertEqual(self.client.produce(bytes(batch), topic).error_code, ErrorCode.CORRUPT_MESSAGE)

    def test_a_million_records_without_keys(self) -> None:
        """The answer to a small batch of very many bad records is small too."""
        for count, code, errors in (
            (50_000, ErrorCode.INVALID_RECORD, 1000),
            (60_000, ErrorCode.MESSAGE_TOO_LARGE, 0),  # More than are looked at.
        ):
            batch = encode_batch([Record(0, NOW_MS, None, b"")] * count, codec=Codec.ZSTD)
            answer = self.client.produce(batch, "compacted")
            self.assertEqual((answer.error_code, len(answer.record_errors)), (code, errors))

    def test_many_records_of_a_wrong_time(self) -> None:
        """Of a batch of a wrong time, no more records are read or named; one that cannot be read is refused, too."""
        late = [Record(0, NOW_MS + 10**9, b"k", b"")]
        damaged = bytearray(encode_batch(late, codec=Codec.ZSTD))
        damaged[62] ^= 0xFF
        struct.pack_into(">I", damaged, 17, crc32c(memoryview(damaged)[21:]))
        for batch, errors in (
            (encode_batch(late * 50_000, codec=Codec.ZSTD), 1000),
            (encode_batch(late * 60_000, codec=Codec.ZSTD), 0),
            (bytes(damaged), 0),
        ):
            answer = self.client.produce(batch)
            self.assertEqual((answer.error_code, len(answer.record_errors)), (ErrorCode.INVALID_TIMESTAMP, errors))


class NameTests(SynchronousTestCase):
    """Names that are paths, escapes and worse."""

    BAD = (
        "",
        ".",
        "..",
        "x" * 250,
        "a/b",
        "../../etc/passwd",
        "a b",
        "nul\0",
        "a\nb",
        "\x1b[31m",
        "\N{CYRILLIC SMALL LETTER A}",
    )

    def test_topics(self) -> None:
        """No API takes a topic name that is not one; each refuses with the error that is due, and makes nothing."""
        server = MemoryBroker().start()
        self.addCleanup(server.close)
        client = server.connect()
        client.produce(topic="t")
        for name in self.BAD:
            created = client.create(name).topics[0]
            self.assertEqual(created.error_code, ErrorCode.INVALID_TOPIC_EXCEPTION, name)
            described = client.metadata(name, auto_create=True).topics[0]
            self.assertEqual(described.error_code, ErrorCode.INVALID_TOPIC_EXCEPTION, name)
            self.assertEqual(client.produce(topic=name).error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
            self.assertEqual(client.fetch(topic=name).error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
            state = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1)
            self.assertEqual(client.ask(state, 6).responses[0].error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        self.assertEqual(server.broker.plugin_services.topics(), {})
        logs = [name for name in server.disks[0].names("") if "-" in name and "." not in name]
        self.assertEqual(logs, ["controller-epoch"])  # And no log.
        self.assertEqual(client.create("x" * 249).topics[0].error_code, 0)

    def test_unknown_ids(self) -> None:
        """Topic ids of no topic."""
        server = MemoryBroker().start()
        self.addCleanup(server.close)
        client = server.connect()
        request = fetch_request([("", 0, 0)])
        for topic_id in (bytes(16), b"\xff" * 16):
            request.topics[0].topic_id = topic_id
            answer = client.ask(request, 13).responses[0].partitions[0]
            self.assertEqual(answer.error_code, ErrorCode.UNKNOWN_TOPIC_ID)
        described = client.ask(MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"\xff" * 16, name=None)]), 12)
        self.assertEqual(described.topics[0].error_code, ErrorCode.UNKNOWN_TOPIC_ID)
        state = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=b"\xff" * 16)], timeout_ms=1)
        self.assertEqual(client.ask(state, 6).responses[0].error_code, ErrorCode.UNKNOWN_TOPIC_ID)


class ExcessTests(SynchronousTestCase):
    """Small requests for large things."""

    def setUp(self) -> None:
        self.server = MemoryBroker().start()
        self.addCleanup(self.server.close)
        self.server.create("t", 5)
        self.client = self.server.connect()

    def test_fetch_limits(self) -> None:
        """Offsets, times and sizes at the ends of their types; a wait of 24 days ends with its connection."""
        self.client.produce()
        for given in ({"min_bytes": 2**31 - 1, "max_wait_ms": 0}, {"max_bytes": -1}, {"partition_max_bytes": -(2**31)}):
            self.assertEqual(len(content(self.client.fetch(0, **given))), len(a_batch()), given)
        self.client.send(fetch_request([("t", 0, 1)], max_wait_ms=2**31 - 1, min_bytes=2**31 - 1), 12)
        self.client.turn(1000)
        self.client.transport.loseConnection()
        self.assertEqual((len(self.server.broker.replication.purgatory), self.server.watchers), (0, 0))

    def test_partitions_by_the_million(self) -> None:
        """More partitions than a request may make are a POLICY_VIOLATION, at once."""
        for count in (10_001, 1_000_000, 2**31 - 1):
            topic = CreatableTopic(name="big", num_partitions=count, replication_factor=1, assignments=[], configs=[])
            answer = self.client.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0]
            self.assertEqual(answer.error_code, ErrorCode.POLICY_VIOLATION)

    def test_records_deleted_beyond_the_end(self) -> None:
        """DeleteRecords does not go beyond the high watermark, nor below zero."""
        self.client.produce()
        for offset in (2, 2**63 - 1, -2, -(2**63)):
            asked = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
            answer = self.client.ask(DeleteRecordsRequest(topics=[asked], timeout_ms=10), 2)
            self.assertEqual(answer.topics[0].partitions[0].error_code, ErrorCode.OFFSET_OUT_OF_RANGE)
        self.assertEqual(self.client.fetch(0).log_start_offset, 0)

    def test_repeated_names(self) -> None:
        """A topic named 20,000 times is described once; a partition asked for twice is refused."""
        self.server.create("orders", 5)
        request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")] * 20_000)
        self.assertEqual(len(self.client.ask(request, 9).topics), 1)
        asked = [ListOffsetsPartition(partition_index=0, timestamp=-1)] * 2
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)])
        answers = self.client.ask(request, 7).topics[0].partitions
        self.assertEqual({answer.error_code for answer in answers}, {ErrorCode.INVALID_REQUEST})

    def test_many_configs(self) -> None:
        """Changing 20,000 settings at once is an error that takes no quadratic time."""
        configs = [IncrementalAlterableConfig(name=f"x{n}", config_operation=0, value="1") for n in range(20_000)]
        resource = IncrementalAlterConfigsResource(resource_type=2, resource_name="t", configs=configs)
        answer = self.client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0]
        self.assertEqual(answer.error_code, ErrorCode.INVALID_CONFIG)

    def test_sessions_by_the_thousand(self) -> None:
        """A client that opens a fetch session with each poll gets so many, and goes on without."""
        request = fetch_request([("t", 0, 0)], session_id=0, session_epoch=0)
        sessions = self.server.broker.kafka_server.router.find(FetchHandlers).sessions
        for _ in range(sessions.slots + 200):
            self.assertEqual(self.client.ask(request, 12).error_code, 0)
        self.assertEqual(len(sessions), sessions.slots)
        self.assertLessEqual(self.server.watchers, sessions.slots)
