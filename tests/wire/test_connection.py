"""Requests and responses, with their headers."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import BudgetExceeded, DecodeError, ProtocolError
from logbus.records.file_slice import FileSlice, joined
from logbus.wire.codegen import ELEMENTS_PER_STEP
from logbus.wire.connection import ClientConnection, ServerConnection, api_key_of
from logbus.wire.declaration import SchemaError
from logbus.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from logbus.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from logbus.wire.messages.records import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

SERVED = {0: (3, 9), 1: (4, 12), 3: (0, 9), 18: (0, 3)}


def server() -> ServerConnection:
    return ServerConnection(SERVED)


def payload(parts: Any) -> bytes:
    """The frame without its prefix; the prefix must tell its length."""
    stream = joined(parts)
    (length,) = struct.unpack_from(">i", stream)
    assert length == len(stream) - 4, (length, len(stream))
    return stream[4:]


def produce(acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(index=3, records=b"batch")
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


class RoundTripTests(SynchronousTestCase):
    def check(self, request: Any, response: Any, version: int, client_id: str | None) -> None:
        client, ours = ClientConnection(client_id), server()
        sent, parts = client.request(request, version)
        received = ours.receive(payload(parts))
        self.assertEqual(
            (received.api_key, received.api_version, received.correlation_id, received.client_id),
            (api_key_of(request), version, sent, client_id),
        )
        self.assertEqual(received.message, request)
        self.assertEqual(client.receive(payload(ours.respond(received, response))), (sent, response))
        self.assertEqual(client.outstanding, 0)

    def test_plain_and_flexible_versions(self) -> None:
        """
        What a client asks and a server answers arrives, with every shape of header.
        """
        for client_id in (None, "", "me", "é" * 200):
            for version in (0, 1, 3):
                self.check(ApiVersionsRequest(), ApiVersionsResponse(error_code=0, api_keys=[]), version, client_id)
            for version in (1, 8, 9):
                response = MetadataResponse(brokers=[], controller_id=1, topics=[])
                self.check(MetadataRequest(topics=None), response, version, client_id)
            self.check(produce(), ProduceResponse(responses=[]), 3, client_id)
            self.check(produce(), ProduceResponse(responses=[]), 9, client_id)

    def test_the_api_versions_response_header_is_never_tagged(self) -> None:
        """
        The body of an ApiVersions response follows the correlation id at once, at every version (KIP-511).
        """
        _, parts = ClientConnection().request(ApiVersionsRequest(), 3)
        request = server().receive(payload(parts))
        response = payload(server().respond(request, ApiVersionsResponse(error_code=35, api_keys=[])))
        self.assertEqual(struct.unpack_from(">ih", response), (request.correlation_id, 35))

    def test_a_flexible_response_header_is_tagged(self) -> None:
        """
        An empty tag section follows the correlation id of a flexible response.
        """
        _, parts = ClientConnection().request(MetadataRequest(topics=None), 9)
        request = server().receive(payload(parts))
        self.assertEqual(payload(server().respond(request, b"body")), struct.pack(">ix", 0) + b"body")

    def test_a_body_encoded_before(self) -> None:
        """
        Bytes are sent as the body they are.
        """
        _, parts = ClientConnection().request(MetadataRequest(topics=None), 1)
        request = server().receive(payload(parts))
        self.assertEqual(joined(server().respond(request, b"body")), struct.pack(">ii", 8, 0) + b"body")

    def test_slices_stay_slices(self) -> None:
        """
        Records in a file are not read to be sent; the prefix counts them.
        """
        with open(__file__, "rb") as source:
            part = FileSlice(source, 0, 30)
            data = PartitionData(partition_index=0, high_watermark=9, records=part)
            response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])
            frame = struct.pack(">hhih", 1, 4, 77, -1) + struct.pack(">iiiibi", -1, 0, 0, 100, 0, 0)
            parts = server().respond(server().receive(frame), response)
            self.assertTrue(any(each is part for each in parts))
            self.assertIn(b'"""Requests', payload(parts))

    def test_records_are_views_of_the_frame(self) -> None:
        """
        The batch of a produce request is not copied, so that it can be patched in place.
        """
        _, parts = ClientConnection().request(produce(), 7)
        frame = bytearray(payload(parts))
        records = server().receive(memoryview(frame)).message.topic_data[0].partition_data[0].records
        records[0] = ord("B")
        self.assertIn(b"Batch", frame)

    def test_tagged_fields_in_the_header_are_skipped(self) -> None:
        """
        Tags that a later client puts into its header do no harm.
        """
        frame = struct.pack(">hhihB", 18, 3, 5, 0, 2) + b"\0\1x" + b"\5\2yz" + b"\2a\2b\0"
        request = server().receive(frame)
        self.assertEqual((request.client_id, request.message.client_software_version), ("", "b"))


class IncrementalTests(SynchronousTestCase):
    """Requests with more elements than are decoded at once, and their responses."""

    def setUp(self) -> None:
        self.client = ClientConnection("tester")
        self.server = ServerConnection({3: (0, 13)}, max_elements=5000, max_elements_at_once=1000)

    def frame(self, count: int) -> bytes:
        topics = [MetadataRequestTopic(name=f"topic-{number}") for number in range(count)]
        return joined(self.client.request(MetadataRequest(topics=topics), 9)[1])[4:]

    def test_few_elements_are_decoded_at_once(self) -> None:
        """
        A request within the bound is complete when it is received.
        """
        request = self.server.receive(self.frame(1000))
        self.assertIsNone(request.decoding)
        self.assertEqual(len(request.message.topics), 1000)

    def test_many_elements_are_decoded_in_steps(self) -> None:
        """
        A request with more is decoded bit by bit, and is then what it would have been.
        """
        frame = self.frame(4000)
        request = self.server.receive(frame)
        assert request.decoding is not None
        self.assertIsNone(request.message)
        steps = sum(1 for _ in request.decoding)
        self.assertGreaterEqual(steps, 4000 // ELEMENTS_PER_STEP)
        self.assertIsNone(request.decoding)
        whole = ServerConnection({3: (0, 13)}).receive(frame)
        self.assertEqual(request.message, whole.message)
        self.assertEqual((request.size, request.client_id), (whole.size, whole.client_id))

    def test_too_many_elements(self) -> None:
        """
        The bound on a whole request holds however it is decoded.
        """
        request = self.server.receive(self.frame(5001))
        assert request.decoding is not None
        with self.assertRaisesRegex(BudgetExceeded, "announces 5001 elements"):
            list(request.decoding)
        with self.assertRaises(BudgetExceeded):
            ServerConnection({3: (0, 13)}, max_elements=1000, max_elements_at_once=1000).receive(self.frame(1001))

    def test_a_response_in_steps(self) -> None:
        """
        A response encoded bit by bit has the same bytes.
        """
        request = self.server.receive(self.frame(1))
        topics = [MetadataResponseTopic(name=f"topic-{number}", partitions=[]) for number in range(1000)]
        response = MetadataResponse(brokers=[], topics=topics)
        encoding = self.server.respond_in_steps(request, response)
        steps = 0
        while True:
            try:
                next(encoding)
                steps += 1
            except StopIteration as done:
                parts = done.value
                break
        self.assertGreaterEqual(steps, 1000 // ELEMENTS_PER_STEP)
        self.assertEqual(joined(parts), joined(self.server.respond(request, response)))


class RefusalTests(SynchronousTestCase):
    def test_an_unknown_version_of_api_versions_is_answered(self) -> None:
        """
        A newer client's ApiVersions reaches the router marked, to be answered at version 0, whatever follows its head.
        """
        for version in (4, 32767, -1):
            request = server().receive(struct.pack(">hhih", 18, version, 42, 3) + b"\xff\xff")
            self.assertTrue(request.unsupported)
            self.assertEqual((request.api_version, request.message), (0, ApiVersionsRequest()))
            response = payload(server().respond(request, ApiVersionsResponse(error_code=35, api_keys=[])))
            self.assertEqual(response, struct.pack(">ihi", 42, 35, 0))

    def test_unsupported_apis_and_versions(self) -> None:
        """
        Unknown keys and versions end the connection, with words that name them.
        """
        for key, version, words in ((99, 0, "99"), (-1, 0, "-1"), (3, 10, "Metadata"), (3, -1, "-1"), (0, 2, "3 to 9")):
            with self.assertRaises(ProtocolError) as caught:
                server().receive(struct.pack(">hhih", key, version, 1, -1) + bytes(100))
            self.assertIn(words, str(caught.exception))

    def test_client_of_unsupported_versions(self) -> None:
        """
        Who looks after the broker is told which client that is, whatever its id has in it; a client may have none.
        """
        for client_id, shown in (
            (b"Telegraf", "; its client id is 'Telegraf'"),
            (b"a\n\x1b[31m\xff" + b"b" * 200, "; its client id is 'a\\n\\x1b[31m\ufffd" + "b" * 92 + "'"),
            (b"", ""),
            (None, ""),
        ):
            length = -1 if client_id is None else len(client_id)
            head = struct.pack(">hhih", 1, 99, 7, length) + (client_id or b"")
            for frame in (head, memoryview(head + b"rest")):
                with self.assertRaises(ProtocolError) as caught:
                    ServerConnection({1: (4, 18)}).receive(frame)
                said = f"a Fetch request of version 99; served are versions 4 to 18{shown}"
                self.assertEqual(str(caught.exception), said)

    def test_trailing_bytes(self) -> None:
        """
        What follows a request is ignored, as Kafka does.
        """
        _, parts = ClientConnection("me").request(produce(), 3)
        request = server().receive(payload(parts) + b"\0")
        self.assertEqual(request.message, server().receive(payload(parts)).message)

    def test_all_topics_as_librdkafka_asks(self) -> None:
        """
        librdkafka 2.x writes the null array of a flexible Metadata request as four zero bytes instead of one.
        """
        frame = bytes.fromhex("0003000c000000030007") + b"rdkafka" + bytes.fromhex("0000000000010000")
        request = ServerConnection({3: (0, 12)}).receive(frame)
        self.assertIsNone(request.message.topics)

    def test_bad_client_ids(self) -> None:
        """
        A client id that is no text, too long or of negative length is refused.
        """
        for length, name in ((2, b"\xff\xfe"), (500, b"x"), (-2, b"")):
            with self.assertRaises(DecodeError):
                server().receive(struct.pack(">hhih", 18, 0, 1, length) + name)

    def test_short_frames(self) -> None:
        """
        Frames shorter than a header are refused.
        """
        for size in range(10):
            with self.assertRaises(ProtocolError):
                server().receive(bytes(size))

    def test_every_truncation(self) -> None:
        """
        No prefix of a request passes for a request, in plain and in flexible versions.
        """
        for version in (3, 9):
            _, parts = ClientConnection("me").request(produce(), version)
            frame = payload(parts)
            for size in range(len(frame)):
                with self.assertRaises(DecodeError):
                    server().receive(memoryview(frame)[:size])

    @settings(max_examples=300)
    @given(st.sampled_from([0, 1, 3, 18]), st.integers(0, 12), st.binary(max_size=60))
    def test_garbage(self, key: int, version: int, rest: bytes) -> None:
        """
        Whatever follows the first bytes, it is a request or a ProtocolError.
        """
        try:
            server().receive(struct.pack(">hhi", key, version, 1) + rest)
        except ProtocolError:
            pass


class ClientTests(SynchronousTestCase):
    def test_an_answer_out_of_order(self) -> None:
        """
        A response that skips an earlier request breaks the connection.
        """
        client = ClientConnection()
        client.request(ApiVersionsRequest(), 0)
        client.request(ApiVersionsRequest(), 0)
        with self.assertRaises(ProtocolError) as caught:
            client.receive(struct.pack(">ihi", 1, 0, 0))
        self.assertIn("the next is to 0", str(caught.exception))

    def test_response_without_a_request(self) -> None:
        """
        A response without a request closes the connection; so does one without a header.
        """
        self.assertRaises(ProtocolError, ClientConnection().receive, bytes(8))
        self.assertRaises(DecodeError, ClientConnection().receive, b"\0\0\0")

    def test_no_answer_expected(self) -> None:
        """
        A produce request with acks=0 is not waited for.
        """
        client = ClientConnection()
        client.request(produce(acks=0), 3, expects_response=False)
        self.assertEqual(client.outstanding, 0)
        second, _ = client.request(ApiVersionsRequest(), 0)
        self.assertEqual(client.receive(struct.pack(">ihi", second, 0, 0))[0], second)

    def test_a_refused_version_of_api_versions(self) -> None:
        """
        Error 35 is understood in any version: its response is always encoded in version 0 (KIP-511).
        """
        client = ClientConnection()
        client.request(ApiVersionsRequest(), 4)
        _, response = client.receive(struct.pack(">ihihhh", 0, 35, 1, 18, 0, 3))
        self.assertEqual((response.error_code, response.api_keys[0].max_version), (35, 3))

    def test_trailing_bytes_in_a_response(self) -> None:
        """
        A response with more than it says is not trusted.
        """
        client = ClientConnection()
        client.request(ApiVersionsRequest(), 0)
        self.assertRaises(DecodeError, client.receive, struct.pack(">ihi", 0, 0, 0) + b"\0")

    def test_a_struct_is_no_request(self) -> None:
        """
        Only messages of an API can be sent.
        """
        self.assertRaises(SchemaError, api_key_of, TopicProduceData(name="t", partition_data=[]))
