"""
Known mistakes of Kafka servers, each a test against a whole broker in memory. The number in a docstring is that of the
pitfall in the project's list.
"""

from __future__ import annotations

import struct

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ErrorCode
from logbus.handlers.fetch import FetchHandlers
from logbus.ilogbus import Listener
from logbus.records.batch import Record, check_crc, encode_batch, iter_batches, iter_records, read_header
from logbus.records.compression import Codec
from logbus.wire.kafka_releases import RELEASES, advertised_table, release_table
from logbus.wire.messages.api_versions import ApiVersionsRequest
from logbus.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from logbus.wire.messages.groups import FindCoordinatorRequest
from logbus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logbus.wire.messages.records import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from logbus.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from logbus.wire.messages.transactions import InitProducerIdRequest
from logbus.wire.schema import ZERO_UUID
from tests.handlers.kit import (
    NOW_MS,
    Client,
    MemoryBroker,
    a_batch,
    content,
    fetch_request,
    produce_request,
)


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def head(api_key: int, version: int, correlation_id: int = 1, client_id: bytes = b"me") -> bytes:
    return struct.pack(">hhih", api_key, version, correlation_id, len(client_id)) + client_id


class TrapCase(SynchronousTestCase):
    """A broker with a topic ``t``."""

    config: dict[str, str] = {}

    def setUp(self) -> None:
        self.server = MemoryBroker(self.config).start()
        self.addCleanup(self.server.close)
        self.server.create("t", 2)
        self.client = self.server.connect()

    def list_offsets(
        self, timestamp: int, version: int = 7, isolation: int = 0, **given: int
    ) -> tuple[int, int, int, int]:
        """Error, timestamp, offset and leader epoch of partition 0."""
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, **given)
        response = self.client.ask(
            ListOffsetsRequest(
                replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name="t", partitions=[asked])]
            ),
            version,
        )
        answer = response.topics[0].partitions[0]
        return answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch


class Versions(TrapCase):
    """Versions and headers."""

    def test_api_versions_has_the_oldest_header(self) -> None:
        """Trap 1: no tag byte in the header of an ApiVersions response, not even where its body is flexible."""
        name = b"\x05test\x041.0\x00"
        self.client.feed(framed(head(18, 3) + b"\x00" + name))
        (frame,) = self.client.frames()
        # Correlation id, error 0, then at once the compact count of APIs.
        self.assertEqual(frame[:6], b"\x00\x00\x00\x01\x00\x00")
        # The others are between brokers.
        told = self.server.broker.kafka_server.router.served.keys() & release_table(RELEASES[-1]).keys()
        self.assertEqual(frame[6], len(told) + 1)

    def test_api_versions_of_the_future(self) -> None:
        """Trap 2: an unknown version of ApiVersions gets version 0 with our own range; the connection lives."""
        self.client.feed(framed(head(18, 99) + b"\xff\xff whatever this version says"))
        (frame,) = self.client.frames()
        self.assertEqual(frame, struct.pack(">ihihhh", 1, 35, 1, 18, 0, 4))
        self.assertEqual(self.client.metadata().topics[0].name, "t")

    def test_unknown_apis_and_versions_close(self) -> None:
        """Trap 3: any other unsupported request closes its connection, unanswered, and no other."""
        for key, version in ((99, 0), (-1, 0), (3, 14), (3, -1), (0, 2), (55, 0), (4, 0)):
            client = self.server.connect()
            client.feed(framed(head(key, version) + bytes(20)))
            self.assertTrue(client.closed, (key, version))
            self.assertEqual(client.frames(), [])
        self.assertEqual(self.client.metadata().topics[0].name, "t")
        self.assertEqual(self.server.broker.kafka_server.net_metrics.broken_frames, 7)

    def test_only_served_versions_are_advertised(self) -> None:
        """Traps 3 and 7: for any release, only Produce 0 to 2 is advertised and not served."""
        served = self.server.broker.kafka_server.router.served
        for release in (None, *RELEASES):
            for key, (low, high) in advertised_table(release, served).items():
                first, last = served[key]
                self.assertLessEqual(high, last)
                self.assertTrue(low >= first or (key == 0 and low == 0), (release, key))

    def test_all_versions_of_the_newest_release(self) -> None:
        """Traps 3 and 40: all versions of the newest release are advertised, with the features they need."""
        response = self.client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="b"), 4)
        newest = release_table(RELEASES[-1])
        told = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        self.assertEqual(told, {key: tuple(newest[key]) for key in told})
        levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
        groups = dict.fromkeys(("group.version", "share.version", "streams.version"), 1)
        self.assertEqual(levels, {**groups, "transaction.version": 2})

    def test_produce_from_zero(self) -> None:
        """Trap 7: Produce is advertised from version 0 on, or old librdkafka takes us for unable to decompress."""
        response = self.client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="b"), 3)
        ranges = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        self.assertEqual(ranges[0][0], 0)

    def test_client_id_is_never_compact(self) -> None:
        """Trap 4: in the flexible request header the client id keeps its two bytes of length."""
        self.client.feed(framed(head(3, 9, 7, b"caller") + b"\x00" + b"\x00" + b"\x00\x00\x00" + b"\x00"))
        (frame,) = self.client.frames()
        # Response header 1: correlation id and a tag byte.
        self.assertEqual(frame[:5], b"\x00\x00\x00\x07\x00")
        self.assertEqual(self.client.protocol.context.client_id, "caller")

    def test_unknown_tagged_fields(self) -> None:
        """Trap 5: unknown tagged fields, in the header and in the body, are skipped."""
        tags = b"\x02\x05\x03abc\x99\x01\x00"
        self.client.feed(framed(head(3, 9) + tags + b"\x00" + b"\x00\x00\x00" + tags))
        (frame,) = self.client.frames()
        self.assertEqual(frame[:5], b"\x00\x00\x00\x01\x00")

    def test_software_names(self) -> None:
        """Trap 42: a client's name and version are kept; an invalid name is refused, and never reaches a log."""
        for name, version in (("", "1"), ("a b", "1"), ("x", "1\n"), ("-x", "1"), ("x", "\x1b[31m"), ("x" * 129, "1")):
            request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
            self.assertEqual(self.client.ask(request, 3).error_code, ErrorCode.INVALID_REQUEST, (name, version))
        self.assertEqual(self.client.protocol.context.software_name, "unknown")
        request = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="3.9.0")
        self.assertEqual(self.client.ask(request, 3).error_code, 0)
        context = self.client.protocol.context
        self.assertEqual((context.software_name, context.software_version), ("apache-kafka-java", "3.9.0"))

    def test_foreign_protocols(self) -> None:
        """Trap 37: TLS and HTTP on a Kafka port are closed, and the log says what they are."""
        from tests.hostile.log_capture import logged

        for first, words in ((b"\x16\x03\x01\x02\x00\x01", "TLS"), (b"GET / HTTP/1.1\r\n\r\n", "HTTP")):
            with logged() as lines:
                client = self.server.connect(f"10.9.9.{first[0]}")
                client.feed(first)
            self.assertTrue(client.closed)
            self.assertEqual(len([line for line in lines if words in line]), 1, lines)


class Producing(TrapCase):
    """Produce."""

    def test_one_batch_of_magic_2(self) -> None:
        """Trap 6: old formats, two batches and none are refused, each with its own error; nothing is written."""
        old = bytearray(a_batch())
        old[16] = 1
        for records, code in (
            (bytes(old), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
            (a_batch() + a_batch(), ErrorCode.INVALID_RECORD),
            (b"", ErrorCode.INVALID_RECORD),
            (a_batch()[:-1], ErrorCode.INVALID_RECORD),
        ):
            answer = self.client.produce(records)
            self.assertEqual((answer.error_code, answer.base_offset), (code, -1))
        self.assertEqual(self.list_offsets(-1)[2], 0)

    def test_null_records(self) -> None:
        """Trap 6: null instead of a batch is refused as well."""
        response = self.client.ask(produce_request(None), 9)
        self.assertEqual(response.responses[0].partition_responses[0].error_code, ErrorCode.INVALID_RECORD)

    def test_zstd_by_version(self) -> None:
        """Trap 6: zstd takes Produce 7 to write, and Fetch 10 to read where the topic itself chose it."""
        batch = a_batch(codec=Codec.ZSTD)
        self.assertEqual(self.client.produce(batch, version=6).error_code, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        self.assertEqual(self.client.produce(batch, version=7).error_code, 0)
        self.server.create("z", compression_type="zstd")
        self.assertEqual(self.client.produce(a_batch(b"v"), "z").error_code, 0)
        self.assertEqual(self.client.fetch(0, "z", version=9).error_code, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        self.assertEqual(read_header(content(self.client.fetch(0, "z", version=10))).codec, Codec.ZSTD)

    def test_the_checksum_begins_behind_offset_and_epoch(self) -> None:
        """Trap 6: the broker's offset and epoch leave the checksum as it was; its time makes a new one."""
        sent = a_batch(b"v")
        self.client.produce()
        self.client.produce(sent)
        stored = content(self.client.fetch(1))
        header = read_header(stored)
        self.assertEqual((header.base_offset, header.leader_epoch), (1, 0))
        self.assertEqual(header.crc, read_header(sent).crc)
        self.server.create("stamped", message_timestamp_type="LogAppendTime")
        self.client.produce(sent, "stamped")
        stamped = content(self.client.fetch(0, "stamped"))
        self.assertNotEqual(read_header(stamped).crc, header.crc)
        self.assertTrue(check_crc(stamped, 0, read_header(stamped)))

    def test_acks_0_is_silent(self) -> None:
        """Trap 8: acks=0 is never answered, and the answers around it keep their order."""
        self.client.send(produce_request(a_batch(b"a"), acks=1), 9)
        self.client.send(produce_request(a_batch(b"b"), acks=0), 9, expects_response=False)
        self.client.send(produce_request(a_batch(b"c"), acks=-1), 9)
        answers = self.client.answers()
        offsets = [answer.responses[0].partition_responses[0].base_offset for answer in answers]
        self.assertEqual(offsets, [0, 2])

    def test_failing_acks_0_closes(self) -> None:
        """Trap 8: errors of a request without a response close the connection; earlier requests are answered."""
        self.client.send(produce_request(a_batch()), 9)
        self.client.send(produce_request(a_batch(), "nosuch", acks=0), 9, expects_response=False)
        self.assertEqual(len(self.client.answers()), 1)
        self.assertTrue(self.client.closed)

    def test_other_acks(self) -> None:
        """Acks are 0, 1 or -1: 2 was a number of replicas once."""
        for acks in (2, -2, 32767):
            self.assertEqual(self.client.produce(acks=acks).error_code, ErrorCode.INVALID_REQUIRED_ACKS)
        self.assertEqual(self.list_offsets(-1)[2], 0)

    def test_idempotence(self) -> None:
        """Trap 26: unknown producers begin anywhere, retries are recognised, gaps and old epochs are not taken."""

        def send(sequence: int, epoch: int = 0, pid: int = 7) -> tuple[int, int]:
            batch = a_batch(b"v", producer_id=pid, producer_epoch=epoch, base_sequence=sequence)
            answer = self.client.produce(batch)
            return answer.error_code, answer.base_offset

        self.assertEqual(send(41), (0, 0))
        self.assertEqual(send(42), (0, 1))
        self.assertEqual(send(41), (0, 0), "a retry")
        self.assertEqual(send(44)[0], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self.assertEqual(send(5, epoch=1)[0], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a new epoch begins at 0")
        self.assertEqual(send(0, epoch=1), (0, 2))
        self.assertEqual(send(43, epoch=0)[0], ErrorCode.INVALID_PRODUCER_EPOCH)
        self.assertEqual(send(0, pid=8), (0, 3))

    def test_fenced_producers_hear_the_code_of_produce(self) -> None:
        """Trap 27: Produce says INVALID_PRODUCER_EPOCH, not PRODUCER_FENCED, at any version."""
        self.client.produce(a_batch(producer_id=1, producer_epoch=3, base_sequence=0))
        for version in (3, 9, 11):
            answer = self.client.produce(a_batch(producer_id=1, producer_epoch=2, base_sequence=1), version=version)
            self.assertEqual(answer.error_code, ErrorCode.INVALID_PRODUCER_EPOCH)

    def test_control_batches_are_the_brokers(self) -> None:
        """Trap 31: clients cannot write markers, transactional or not."""
        for transactional, code in (
            (False, ErrorCode.INVALID_RECORD),
            (True, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ):
            marker = encode_batch(
                [Record(0, NOW_MS, b"\0\0\0\1", b"\0" * 6)],
                control=True,
                transactional=transactional,
                producer_id=1,
                producer_epoch=0,
                base_sequence=-1,
            )
            self.assertEqual(self.client.produce(marker).error_code, code)

    def test_transactional_ids_have_a_coordinator(self) -> None:
        """Trap 28: InitProducerId with a transactional id is for its coordinator, and bounds the timeout."""
        request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
        self.assertEqual(self.client.ask(request, 4).error_code, ErrorCode.NOT_COORDINATOR)
        self.client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]), 4)
        response = self.client.ask(request, 4)
        self.assertEqual((response.error_code, response.producer_epoch), (0, 0))
        request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=900_001)
        self.assertEqual(self.client.ask(request, 4).error_code, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        response = self.client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
        self.assertEqual((response.error_code, response.producer_epoch), (0, 0))

    def test_compacted_topics_need_keys(self) -> None:
        """Traps 32 and 34: a record without a key is refused on a compacted topic, and named from Produce 8 on."""
        self.server.create("compacted", cleanup_policy="compact")
        batch = encode_batch([Record(0, NOW_MS, key, b"v") for key in (b"k", None, b"", None)])
        answer = self.client.produce(batch, "compacted", version=8)
        self.assertEqual(answer.error_code, ErrorCode.INVALID_RECORD)
        self.assertEqual([error.batch_index for error in answer.record_errors], [1, 3])
        self.assertIn("no key", answer.record_errors[0].batch_index_error_message)
        self.assertIn("no key", answer.error_message)
        old = self.client.produce(batch, "compacted", version=7)
        self.assertEqual((old.error_code, old.record_errors), (ErrorCode.INVALID_RECORD, []))
        for codec in Codec:
            refused = self.client.produce(a_batch(key=None, codec=codec), "compacted")
            self.assertEqual(refused.error_code, ErrorCode.INVALID_RECORD)
        self.assertEqual(self.client.produce(a_batch(key=b""), "compacted").base_offset, 0)

    def test_timestamps(self) -> None:
        """Trap 33: CreateTime returns -1; LogAppendTime returns the broker's; times out of bounds are refused."""
        self.assertEqual(self.client.produce(a_batch(timestamp=5)).log_append_time_ms, -1)
        self.server.create("stamped", message_timestamp_type="LogAppendTime")
        answer = self.client.produce(a_batch(timestamp=5), "stamped")
        self.assertEqual(answer.log_append_time_ms // 1000, NOW_MS // 1000)
        stored = content(self.client.fetch(0, "stamped"))
        self.assertTrue(read_header(stored).log_append_time)
        self.assertEqual([r.timestamp for r in iter_records(stored)], [answer.log_append_time_ms])
        self.server.create("recent", message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000")
        for timestamp in (NOW_MS - 60_000, NOW_MS + 60_000):
            refused = self.client.produce(a_batch(timestamp=timestamp), "recent")
            self.assertEqual(refused.error_code, ErrorCode.INVALID_TIMESTAMP)

    def test_records_of_wrong_times_are_named(self) -> None:
        """Trap 34: the producer gives up only those records of the batch whose times are not allowed (KIP-467)."""
        self.server.create("recent", message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000")
        times = (NOW_MS, NOW_MS + 60_000, -1, NOW_MS - 500, NOW_MS + 70_000)
        for codec in Codec:
            batch = encode_batch([Record(0, time, b"k", b"v") for time in times], codec=codec)
            refused = self.client.produce(batch, "recent")
            self.assertEqual(refused.error_code, ErrorCode.INVALID_TIMESTAMP)
            self.assertEqual([error.batch_index for error in refused.record_errors], [1, 4])
            self.assertIn(f"{NOW_MS + 70_000} is more than", refused.record_errors[1].batch_index_error_message)
            self.assertEqual(refused.error_message, refused.record_errors[0].batch_index_error_message)

    def test_internal_topics(self) -> None:
        """Clients do not write to the topics of the broker itself, whether these exist or not."""
        for name in ("__consumer_offsets", "__transaction_state"):
            self.assertEqual(self.client.produce(topic=name).error_code, ErrorCode.INVALID_TOPIC_EXCEPTION)


class Fetching(TrapCase):
    """Fetch."""

    def test_inside_a_batch(self) -> None:
        """Trap 9: the whole batch that has the offset, as it was compressed; the client drops what is before."""
        for codec in (Codec.NONE, Codec.GZIP):
            self.client.produce(a_batch(*(b"%d" % i for i in range(10)), codec=codec))
        for offset in (0, 1, 9, 10, 13, 19):
            stored = content(self.client.fetch(offset, partition_max_bytes=1))
            headers = [header for _, header in iter_batches(stored)]
            self.assertEqual(
                [(h.base_offset, h.last_offset) for h in headers], [(offset // 10 * 10, offset // 10 * 10 + 9)]
            )

    def test_the_first_batch_fits_always(self) -> None:
        """Trap 10: the first batch of the first partition that has one, however large; the others keep the limit."""
        self.client.produce(a_batch(bytes(5000)), partition=1)
        self.client.produce(a_batch(bytes(5000)), partition=1)
        request = fetch_request([("t", 0, 0), ("t", 1, 0)], max_bytes=10, partition_max_bytes=10)
        first, second = self.client.ask(request, 12).responses[0].partitions
        self.assertEqual(content(first), b"")
        self.assertEqual(len(list(iter_batches(content(second)))), 1)
        self.client.produce(a_batch(b"v"), partition=0)
        first, second = self.client.ask(request, 12).responses[0].partitions
        self.assertEqual(len(list(iter_batches(content(first)))), 1)
        self.assertEqual(content(second), b"", "the answer is full")
        self.assertEqual(second.high_watermark, 2)

    def test_nothing_is_empty_not_null(self) -> None:
        """Trap 11: no records are zero bytes."""
        answer = self.client.fetch(0)
        self.assertIsNotNone(answer.records)
        self.assertEqual(content(answer), b"")

    def test_the_end_is_no_error(self) -> None:
        """Trap 12: the log's end waits for more; beyond it, and before its start, is out of range."""
        self.client.produce()
        end = self.client.fetch(1)
        self.assertEqual((end.error_code, content(end), end.high_watermark), (0, b"", 1))
        for offset in (2, -1, -2, 2**63 - 1, -(2**63)):
            answer = self.client.fetch(offset)
            self.assertEqual(answer.error_code, ErrorCode.OFFSET_OUT_OF_RANGE, offset)
            self.assertEqual(content(answer), b"")
        self.client.send(fetch_request([("t", 0, 1)], max_wait_ms=1000), 12)
        self.assertEqual(self.client.frames(), [], "it waits")
        self.client.turn(1)
        self.assertEqual(len(self.client.answers()), 1)

    def test_fetch_sessions_by_id_and_epoch(self) -> None:
        """Trap 13: (0, -1) has no session and opens none; (0, 0) opens one; (id, -1) closes it."""
        request = fetch_request([("t", 0, 0)], session_id=0, session_epoch=-1)
        self.assertEqual(self.client.ask(request, 12).session_id, 0)
        self.assertEqual(len(self.server.broker.kafka_server.router.find(FetchHandlers).sessions), 0)
        request.session_epoch = 0
        session_id = self.client.ask(request, 12).session_id
        self.assertGreater(session_id, 0)
        self.assertEqual(len(self.server.broker.kafka_server.router.find(FetchHandlers).sessions), 1)
        request.session_id, request.session_epoch = session_id, -1
        self.assertEqual(self.client.ask(request, 12).session_id, 0)
        self.assertEqual(len(self.server.broker.kafka_server.router.find(FetchHandlers).sessions), 0)

    def test_followers_fetch_elsewhere(self) -> None:
        """A client that pretends to be a replica moves no watermark (CVE-2018-1288)."""
        request = fetch_request([("t", 0, 0)], replica_id=1)
        response = self.client.ask(request, 12)
        self.assertEqual((response.error_code, response.responses), (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, []))
        self.assertEqual(self.server.watchers, 0)

    def test_leader_epochs(self) -> None:
        """Trap 15: -1 is not checked, an older epoch is fenced, a newer one unknown; wherever epochs are sent."""
        self.client.produce()
        expected = ((-1, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH))
        for epoch, code in expected:
            self.assertEqual(self.client.fetch(0, current_leader_epoch=epoch).error_code, code)
            self.assertEqual(self.list_offsets(-1, current_leader_epoch=epoch)[0], code)
            self.assertEqual(self.end_of_epoch(0, current=epoch)[0], code)
        replica = self.server.broker.replication.replicas.get("t", 0)
        replica.partition.leader_epoch = 4
        replica.log.become_leader(4)
        self.assertEqual(self.client.fetch(0, current_leader_epoch=3).error_code, ErrorCode.FENCED_LEADER_EPOCH)
        self.assertEqual(self.list_offsets(-1, current_leader_epoch=3)[0], ErrorCode.FENCED_LEADER_EPOCH)
        self.client.produce()
        self.assertEqual(self.end_of_epoch(0), (0, 0, 1))
        self.assertEqual(self.end_of_epoch(4), (0, 4, 2))
        self.assertEqual(self.end_of_epoch(2), (0, 0, 1), "the largest epoch below")
        self.assertEqual(self.end_of_epoch(9), (0, -1, -1))

    def test_diverging_epochs(self) -> None:
        """Trap 15: a consumer whose last record is of an epoch that ended earlier gets that epoch's end (Fetch 12)."""
        self.client.produce(a_batch(b"a", b"b"))
        replica = self.server.broker.replication.replicas.get("t", 0)
        replica.partition.leader_epoch = 4
        replica.log.become_leader(4)
        self.client.produce(a_batch(b"c"))
        answer = self.client.fetch(3, last_fetched_epoch=2)
        self.assertEqual((answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset), (0, 2))
        self.assertEqual(content(answer), b"")
        self.assertIsNotNone(content(self.client.fetch(2, last_fetched_epoch=0)))

    def end_of_epoch(self, epoch: int, current: int = -1) -> tuple[int, int, int]:
        asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])])
        answer = self.client.ask(request, 4).topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    def test_topic_ids(self) -> None:
        """Trap 14: ids are real from Metadata 10 on, stay, and are new for a topic made again."""
        before = self.client.metadata("t", version=10).topics[0].topic_id
        self.assertNotEqual(before, ZERO_UUID)
        self.assertEqual(self.client.metadata(version=12).topics[0].topic_id, before)
        self.client.produce()
        self.assertNotEqual(content(self.client.fetch(0, version=13)), b"")
        by_old_id = fetch_request([("t", 0, 0)], self.server)
        self.server.now(self.server.broker.control.topic_admin.delete_topics(["t"]))
        self.server.create("t", 2)
        after = self.client.metadata("t", version=10).topics[0].topic_id
        self.assertNotEqual(after, before)
        answer = self.client.ask(by_old_id, 13).responses[0].partitions[0]
        self.assertEqual(answer.error_code, ErrorCode.UNKNOWN_TOPIC_ID)
        self.assertEqual(self.list_offsets(-1)[2], 0, "the new topic is empty")

    def test_timestamps_are_found(self) -> None:
        """Trap 19: the first record at or after a time, (-1, -1) if there is none; special times; the last by time."""
        for at in (100, 300, 200):
            self.client.produce(a_batch(timestamp=NOW_MS + at))
        self.assertEqual(self.list_offsets(NOW_MS + 150), (0, NOW_MS + 300, 1, 0))
        self.assertEqual(self.list_offsets(NOW_MS), (0, NOW_MS + 100, 0, 0))
        self.assertEqual(self.list_offsets(NOW_MS + 301), (0, -1, -1, -1))
        for isolation in (0, 1):
            self.assertEqual(self.list_offsets(-1, isolation=isolation), (0, -1, 3, 0))
        self.assertEqual(self.list_offsets(-2), (0, -1, 0, 0))
        self.assertEqual(self.list_offsets(-3), (0, NOW_MS + 300, 1, 0))


class Topics(TrapCase):
    """Metadata, and topics made and described."""

    def test_all_or_none(self) -> None:
        """Trap 16: null is all topics; an empty list is all in version 0 and none from version 1 on."""
        for version in (1, 4, 9, 12):
            self.assertEqual([t.name for t in self.client.ask(MetadataRequest(topics=None), version).topics], ["t"])
            self.assertEqual(self.client.ask(MetadataRequest(topics=[]), version).topics, [])
        self.assertEqual([t.name for t in self.client.ask(MetadataRequest(topics=[]), 0).topics], ["t"])
        response = self.client.metadata()
        self.assertEqual((response.controller_id, len(response.cluster_id)), (0, 22))

    def test_named_twice(self) -> None:
        """A topic that is named a thousand times is described once, so that no request costs more than it weighs."""
        for ids in (False, True):
            one = (
                MetadataRequestTopic(topic_id=self.server.topic_id(), name=None)
                if ids
                else MetadataRequestTopic(name="t")
            )
            response = self.client.ask(MetadataRequest(topics=[one] * 1000), 12)
            self.assertEqual([topic.name for topic in response.topics], ["t"])

    def test_each_listener_has_its_address(self) -> None:
        """Trap 16: clients get the address of the listener they are connected to."""
        inside = Listener("inside", "kafka", "tcp:9092", ("10.0.0.5", 9092))
        outside = Listener("outside", "kafka", "tcp:9093", ("logs.example.org", 443))
        server = MemoryBroker(listeners=[inside, outside]).start()
        self.addCleanup(server.close)
        for listener in (inside, outside):
            client = server.connect(listener=listener.name)
            brokers = client.metadata().brokers
            self.assertEqual([(b.host, b.port) for b in brokers], [listener.advertised])

    def test_creation_on_first_use(self) -> None:
        """Trap 17: created only if broker and client both want it, and then answered when it can be written to."""
        unknown = self.client.metadata("new", auto_create=False).topics[0]
        self.assertEqual(unknown.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        made = self.client.metadata("new", "bad/name", auto_create=True).topics
        self.assertEqual(
            [(t.name, t.error_code) for t in made], [("new", 0), ("bad/name", ErrorCode.INVALID_TOPIC_EXCEPTION)]
        )
        self.assertEqual([p.leader_id for p in made[0].partitions], [0])
        self.assertEqual(self.client.produce(topic="new").error_code, 0)
        self.assertEqual(sorted(self.server.broker.plugin_services.topics()), ["new", "t"])

    def test_no_creation_where_it_is_off(self) -> None:
        """Trap 17: auto.create.topics.enable=false wins over what the client would like."""
        server = MemoryBroker({"auto.create.topics.enable": "false"}).start()
        self.addCleanup(server.close)
        topic = server.connect().metadata("new", auto_create=True).topics[0]
        self.assertEqual(topic.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.assertEqual(server.broker.plugin_services.topics(), {})

    def test_created_means_usable(self) -> None:
        """Trap 18: after the answer the topic takes records; errors are each topic's own; settings come back."""
        response = self.client.create("ok", "bad name", "t", partitions=3, retention_ms="1234")
        codes = [topic.error_code for topic in response.topics]
        self.assertEqual(codes, [0, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_ALREADY_EXISTS])
        made = response.topics[0]
        self.assertEqual((made.num_partitions, made.replication_factor), (3, 1))
        self.assertEqual({c.name: c.value for c in made.configs}["retention.ms"], "1234")
        for partition in range(3):
            self.assertEqual(self.client.produce(topic="ok", partition=partition).error_code, 0)

    def test_only_validated(self) -> None:
        """Trap 18: validate_only says what would be, with the broker's defaults for -1, and makes nothing."""
        topics = [CreatableTopic(name="maybe", num_partitions=-1, replication_factor=-1, assignments=[], configs=[])]
        response = self.client.ask(CreateTopicsRequest(topics=topics, validate_only=True), 5)
        answer = response.topics[0]
        self.assertEqual((answer.error_code, answer.num_partitions, answer.replication_factor), (0, 1, 1))
        self.assertNotIn("maybe", self.server.broker.plugin_services.topics())

    def test_all_settings_are_described(self) -> None:
        """Trap 39: DescribeConfigs lists every setting with its source, whether it was set or not."""
        resource = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
        response = self.client.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)
        entries = {entry.name: entry for entry in response.results[0].configs}
        for name in ("retention.ms", "cleanup.policy", "segment.bytes", "min.insync.replicas", "compression.type"):
            self.assertIn(name, entries)
        self.assertEqual(entries["retention.ms"].config_source, 5)
        self.assertEqual(entries["retention.ms"].value, "604800000")
        self.assertTrue(all(entry.value is not None or entry.is_sensitive for entry in entries.values()))


class Clients(TrapCase):
    """What one client does is nothing to the others."""

    def test_answers_keep_their_order(self) -> None:
        """Trap 8: a fetch that waits holds back what comes after it on its connection, and on no other."""
        self.client.send(fetch_request([("t", 0, 0)], max_wait_ms=5000), 12)
        self.client.send(MetadataRequest(topics=None), 9)
        self.assertEqual(self.client.frames(), [])
        other: Client = self.server.connect()
        other.produce()
        self.client.turn()
        self.client.turn()
        fetched, described = self.client.answers()
        self.assertEqual(fetched.responses[0].partitions[0].high_watermark, 1)
        self.assertEqual(described.topics[0].name, "t")
