"""Errors by API and name, as real requests get them."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ErrorCode
from logbus.net.request_errors import NAME, RequestErrors
from logbus.net.sasl_login import SaslLogin
from logbus.records.file_slice import joined
from logbus.security.sasl.plain import PlainServer, verifier
from logbus.security.sasl.sasl_session import SaslSettings
from logbus.wire.connection import ClientConnection
from logbus.wire.messages import api_name
from logbus.wire.messages.api_versions import ApiVersionsRequest
from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from logbus.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.cluster.test_replication import ReplicationCase
from tests.handlers.group_kit import GroupCase
from tests.handlers.kit import HandlerCase, MemoryBroker, a_batch, fetch_request, produce_request
from tests.net.fakes import Client as WireClient
from tests.net.fakes import Server


def errors(server: MemoryBroker) -> dict[tuple[str, str], float]:
    """What the metrics of a broker tell, by API and name."""
    (family,) = (family for family in server.broker.env.registry.collect() if family.name == NAME)
    return {
        (dict(sample.labels)["api"], dict(sample.labels)["error"]): sample.value
        for sample in family.samples
        if sample is not None
    }


class RequestErrorTests(HandlerCase):
    """A broker with the topic ``t``."""

    def test_none(self) -> None:
        """What succeeds is not counted."""
        self.client.produce()
        self.client.fetch()
        self.client.metadata("t")
        self.assertEqual(errors(self.server), {})

    def test_unknown_topic(self) -> None:
        """One for each element that has an error, in each API; those that are right do not count."""
        self.client.produce(topic="unknown")
        self.client.metadata("unknown", "t", "else", auto_create=False)
        self.client.ask(fetch_request([("unknown", 0, 0), ("t", 0, 0), ("t", 9, 0)]), 12)
        name = "UNKNOWN_TOPIC_OR_PARTITION"
        self.assertEqual(errors(self.server), {("Fetch", name): 2, ("Metadata", name): 2, ("Produce", name): 1})

    def test_repeated_requests(self) -> None:
        """Requests that are recognized, not decoded, count as others do."""
        wire = ClientConnection("tester")
        for _ in range(3):
            self.client.fetch(7)
        self.client.produce()
        self.client.feed(b"".join(joined(wire.request(produce_request(b"damaged"), 9)[1]) for _ in range(3)))
        for _ in range(20):
            self.client.turn()
        self.assertEqual(len(self.client.frames()), 3)
        self.assertEqual(errors(self.server), {("Fetch", "OFFSET_OUT_OF_RANGE"): 3, ("Produce", "INVALID_RECORD"): 3})

    def test_a_repeated_produce_in_vain(self) -> None:
        """A batch that is refused after others of its kind were appended."""
        data = a_batch(producer_id=1, producer_epoch=0, base_sequence=0)
        late = a_batch(producer_id=1, producer_epoch=0, base_sequence=9)
        for _ in range(2):
            self.assertEqual(self.client.produce(data).error_code, 0)
        for _ in range(3):
            self.assertNotEqual(self.client.produce(late).error_code, 0)
        self.assertEqual(errors(self.server), {("Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER"): 3})

    def test_unsupported_versions(self) -> None:
        """ApiVersions says which it supports; the connection of any other request is closed. Both count."""
        _, parts = self.client.wire.request(ApiVersionsRequest(), 3)
        frame = bytearray(joined(parts))
        frame[6:8] = (99).to_bytes(2, "big")
        self.client.feed(bytes(frame))
        self.assertEqual(len(self.client.frames()), 1)
        frame[4:6] = (0).to_bytes(2, "big")
        self.client.feed(bytes(frame))
        self.assertTrue(self.client.closed)
        name = "UNSUPPORTED_VERSION"
        self.assertEqual(errors(self.server), {("ApiVersions", name): 1, ("Produce", name): 1})

    def test_very_many(self) -> None:
        """All elements of a response that is encoded in slices."""
        count = 20_000
        partitions = [OffsetCommitRequestPartition(partition_index=n, committed_offset=0) for n in range(count)]
        request = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=5,
            member_id="m",
            topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)],
        )
        self.client.send(request, 8)
        for _ in range(1000):
            self.client.turn(0.01)
            if self.client.transport.value():
                break
        found = errors(self.server)
        self.assertEqual({api for api, _ in found}, {"OffsetCommit"})
        self.assertEqual(sum(found.values()), count)

    def test_unknown_codes(self) -> None:
        """A code that has no name is shown as it is."""
        counted = RequestErrors()
        counted.count(0, 9999)
        counted.count(0, ErrorCode.UNKNOWN_SERVER_ERROR)
        counted.count(0, 9999)
        self.assertEqual(
            [(dict(each.labels)["error"], each.value) for each in counted.family(api_name).samples if each is not None],
            [("9999", 2), ("UNKNOWN_SERVER_ERROR", 1)],
        )


class GroupTests(GroupCase):
    """A group."""

    def test_another_generation(self) -> None:
        """A member that has missed a rebalance."""
        member = self.member()
        self.group_of(member)
        before = errors(self.server)
        member.heartbeat(generation_id=member.generation + 7)
        found = errors(self.server)
        self.assertEqual({key: found[key] for key in found.keys() - before}, {("Heartbeat", "ILLEGAL_GENERATION"): 1})


class LoginTests(SynchronousTestCase):
    """A listener where clients log in by SASL."""

    def test_wrong_password(self) -> None:
        """It counts, though the connection does not come to the router."""
        server, client = Server(), WireClient()
        factory = server.factory
        settings = SaslSettings({"PLAIN": lambda: PlainServer(verifier({"alice": "secret"}))})
        factory.login = SaslLogin(lambda: settings, server.clock.seconds, lambda: 0.15)
        protocol, _ = server.connect()
        token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong")
        for message, version in ((SaslHandshakeRequest(mechanism="PLAIN"), 1), (token, 2)):
            protocol.dataReceived(joined(client.wire.request(message, version)[1]))
        server.clock.advance(1)
        self.assertEqual(factory.shared.errors.counts, {(36, ErrorCode.SASL_AUTHENTICATION_FAILED): 1})


class ForwardTests(ReplicationCase):
    """Three brokers."""

    def test_forwarded(self) -> None:
        """The errors of what the controller serves for others count there, once."""
        self.create()
        self.assertRaises(AssertionError, self.create)
        found: Any = [errors(self.cluster[broker_id]) for broker_id in self.cluster.alive]
        self.assertEqual(sum(each.get(("CreateTopics", "TOPIC_ALREADY_EXISTS"), 0) for each in found), 1)
