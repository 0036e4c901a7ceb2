"""Tests of the inter-broker APIs, with authenticated brokers and with clients that claim to be brokers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone
from twisted.logger import capturedLogs
from twisted.python.failure import Failure

from logbus.cluster.metadata_update import MetadataUpdate
from logbus.cluster.plugin_calls import MAX_BODY_BYTES
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.cluster_znodes import BrokerSecretZnode
from logbus.metastore.znodes import BROKER_SECRET, FEATURE_LEVEL, BrokerIdZnode, Registration
from logbus.model import Endpoint
from logbus.records.file_slice import joined
from logbus.security.broker_challenge import BrokerChallenge
from logbus.wire.messages.api_versions import ApiVersionsRequest
from logbus.wire.messages.inter_broker import (
    AskPluginRequest,
    ForwardRequest,
    IntroduceRequest,
    IntroduceResponse,
    ProveIdentityRequest,
    ShutDownRequest,
)
from logbus.wire.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from logbus.wire.schema import decode, encode
from tests.cluster.encoded_updates import update_request
from tests.handlers.kit import Client, HandlerCase
from tests.hostile.inter_broker_requests import broker_requests

INCARNATION = UUID(int=77)
NONCE = bytes(range(32))


class PeerCase(HandlerCase):
    """Broker 0, which is the controller, and broker 1, which is only registered."""

    # The controller that some tests pretend to be would not answer.
    config = {"controlled.shutdown.enable": "false"}

    def setUp(self) -> None:
        super().setUp()
        self.store = self.server.ensemble.client()
        self.now(self.store.open())
        endpoints = {"kafka": Endpoint("kafka", "192.0.2.1", 9092)}
        registration = Registration(1, endpoints, INCARNATION, 0)
        self.now(self.store.create(BrokerIdZnode.path(1), BrokerIdZnode.encode(registration), ephemeral=True))
        self.epoch = self.now(self.store.get(BrokerIdZnode.path(1)))[1].czxid

    def now(self, answer: Any) -> Any:
        return self.server.now(answer)

    def introduction(self, **changes: Any) -> IntroduceRequest:
        """As broker 1 would say it."""
        given: dict[str, Any] = {
            "cluster_id": self.server.broker.plugin_services.cluster_id,
            "broker_id": 1,
            "broker_epoch": self.epoch,
            "receiver_id": 0,
            "feature_level": 1,
            "nonce": NONCE,
        }
        return IntroduceRequest(**{**given, **changes})

    @property
    def secret(self) -> bytes:
        """The secret in the metadata store."""
        return BrokerSecretZnode.decode(self.server.ensemble.tree.get(BROKER_SECRET)[0])

    def challenge(self, request: IntroduceRequest, answer: IntroduceResponse) -> BrokerChallenge:
        """What both sides have said."""
        return BrokerChallenge(
            request.cluster_id,
            request.broker_id,
            request.broker_epoch,
            request.feature_level,
            request.nonce,
            request.receiver_id,
            answer.feature_level,
            answer.nonce,
            b"",
        )

    def introduced(self, client: Client | None = None) -> Client:
        """A connection of broker 1."""
        client = client or self.client
        request = self.introduction()
        answer = client.ask(request, 1)
        self.assertEqual((answer.error_code, answer.feature_level), (0, FEATURE_LEVEL))
        challenge = self.challenge(request, answer)
        self.assertEqual(answer.proof, challenge.proof_of_receiver(self.secret))
        proved = client.ask(ProveIdentityRequest(proof=challenge.proof_of_sender(self.secret)), 0)
        self.assertEqual((proved.error_code, proved.error_message), (0, None))
        return client

    def assertNoBroker(self, client: Client) -> None:
        """The connection is a client's."""
        refused = client.ask(ShutDownRequest(broker_epoch=1), 0)
        self.assertEqual(refused.error_code, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class IntroductionTests(PeerCase):
    """Introduce and ProveIdentity: accepted and refused brokers."""

    def test_not_advertised(self) -> None:
        """Inter-broker APIs are not advertised."""
        answer = self.client.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
        self.assertEqual([one.api_key for one in answer.api_keys if one.api_key >= 1000], [])

    def test_unidentified_connection(self) -> None:
        """A connection that has not identified itself gets no response, and one line in the log."""
        for request in broker_requests()[2:]:
            client = self.server.connect()
            self.server.reactor.advance(2)
            with capturedLogs() as log:
                answer = client.ask(request, 0)
            self.assertEqual(answer.error_code, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, request)
            self.assertEqual(len([one for one in log if "no broker" in str(one.get("sentence"))]), 1, request)
        self.assertEqual(sorted(self.server.broker.member.metadata.topics), ["t"])

    def test_forged(self) -> None:
        """A wrong broker, registration or cluster, and this broker's own id, are refused with an explanation."""
        for changes, code, words in (
            ({"broker_epoch": 1}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not registered with that epoch"),
            ({"broker_id": 2}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not registered with that epoch"),
            ({"broker_id": -1}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not registered with that epoch"),
            ({"broker_id": 0}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "itself"),
            ({"nonce": b"short"}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "nonce"),
            ({"receiver_id": 5}, ErrorCode.BROKER_NOT_AVAILABLE, "this is broker 0, not 5"),
            ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID, "not another"),
        ):
            client = self.server.connect()
            self.server.reactor.advance(2)
            with capturedLogs() as log:
                answer = client.ask(self.introduction(**changes), 1)
            self.assertEqual(answer.error_code, code)
            self.assertIn(words, answer.error_message)
            self.assertEqual(len([one for one in log if words in str(one.get("sentence"))]), 1)
            self.assertNoBroker(client)
            self.assertEqual(
                client.ask(ProveIdentityRequest(proof=bytes(32)), 0).error_code, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            )

    def test_wrong_proofs(self) -> None:
        """With another secret, replayed, reflected, for another broker or in another role, a proof is refused."""
        first = self.introduction()
        heard = self.challenge(first, self.client.ask(first, 1)).proof_of_sender(self.secret)
        for make in (
            lambda challenge, answer: challenge.proof_of_sender(bytes(32)),
            lambda challenge, answer: heard,
            lambda challenge, answer: answer.proof,
            lambda challenge, answer: evolve(challenge, sender_id=2).proof_of_sender(self.secret),
            lambda challenge, answer: evolve(challenge, channel=b"another").proof_of_sender(self.secret),
            lambda challenge, answer: b"",
        ):
            client = self.server.connect()
            request = self.introduction()
            answer = client.ask(request, 1)
            proof = make(self.challenge(request, answer), answer)
            proved = client.ask(ProveIdentityRequest(proof=proof), 0)
            self.assertEqual(proved.error_code, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            self.assertIn("does not prove that it is broker 1", proved.error_message)
            self.assertNoBroker(client)
            # Nor is the same challenge good for another try.
            right = self.challenge(request, answer).proof_of_sender(self.secret)
            again = client.ask(ProveIdentityRequest(proof=right), 0)
            self.assertIn("introduction comes first", again.error_message)
            self.assertNoBroker(client)

    def test_changed_secret(self) -> None:
        """A secret that was changed is read when a proof does not fit."""
        request = self.introduction()
        answer = self.client.ask(request, 1)
        self.now(self.store.set(BROKER_SECRET, BrokerSecretZnode.encode(b"another secret, as long"), -1))
        proof = self.challenge(request, answer).proof_of_sender(self.secret)
        self.assertEqual(self.client.ask(ProveIdentityRequest(proof=proof), 0).error_code, 0)

    def test_cannot_be_checked(self) -> None:
        """Without the metadata store unknown brokers get a retriable error."""
        self.server.broker.member.store.suspend()
        answer = self.client.ask(self.introduction(broker_epoch=1), 1)
        self.assertEqual(answer.error_code, ErrorCode.BROKER_NOT_AVAILABLE)
        self.assertIn("metadata store", answer.error_message)

    def test_known_broker(self) -> None:
        """A broker from the metadata is accepted even if the store is unreachable."""
        self.server.broker.member.store.suspend()
        request = self.introduction()
        answer = self.client.ask(request, 1)
        self.server.broker.member.store.resume()
        proof = self.challenge(request, answer).proof_of_sender(self.secret)
        self.assertEqual(self.client.ask(ProveIdentityRequest(proof=proof), 0).error_code, 0)


class MetadataUpdateTests(PeerCase):
    """MetadataUpdate, from the controller and from others."""

    def test_in_another_name(self) -> None:
        """A broker sends updates in its own name only."""
        request = update_request(MetadataUpdate(0, 99, 99, full=True))
        answer = self.introduced().ask(request, 0)
        self.assertEqual(answer.error_code, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        self.assertIn("t", self.server.broker.member.metadata.topics)

    def test_of_the_past(self) -> None:
        """A replaced controller gets an error."""
        answer = self.introduced().ask(update_request(MetadataUpdate(1, 0, 99, full=True)), 0)
        self.assertEqual(answer.error_code, ErrorCode.STALE_CONTROLLER_EPOCH)
        self.assertIn("t", self.server.broker.member.metadata.topics)

    def test_applied(self) -> None:
        """The epoch is remembered on disk before anything is done."""
        answer = self.introduced().ask(update_request(MetadataUpdate(1, 7, 99, full=True)), 0)
        self.assertEqual((answer.error_code, answer.failed), (0, []))
        self.assertEqual(self.server.broker.member.metadata.topics, {})
        self.assertEqual(self.disk.read("controller-epoch"), b"7\n")

    @settings(max_examples=30)
    @given(st.data())
    def test_damaged(self, data: Any) -> None:
        """A body that cannot be read ends the connection, and changes nothing."""
        request = update_request(MetadataUpdate(1, 7, 99, full=True))
        request.body = request.body[: data.draw(st.integers(0, len(request.body) - 1))] + data.draw(
            st.sampled_from([b"", b"\xff\xff\xff\xff\x0f"])
        )
        client = self.server.connect()
        self.introduced(client)
        client.send(request, 0)
        for _ in range(5):
            client.turn()
        self.assertTrue(client.closed)
        self.assertIn("t", self.server.broker.member.metadata.topics)


class ForwardTests(PeerCase):
    """Forward: requests of clients, from the broker that received them."""

    def forwarded(self, message: Any, version: int, **changes: Any) -> Any:
        """Forward it."""
        request = ForwardRequest(
            api_key=19,
            api_version=version,
            principal="User:x",
            client_id="c",
            host="h",
            body=joined(encode(message, version)),
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return self.introduced().ask(request, 0)

    def test_served(self) -> None:
        """The answer is what the client is to get, in its version."""
        for version in (2, 5, 7):
            answer = self.forwarded(CreateTopicsRequest(topics=[]), version)
            self.assertEqual(answer.error_code, 0)
            self.assertEqual(decode(CreateTopicsResponse, version, answer.body)[0].topics, [])

    def test_other_requests_are_not_forwarded(self) -> None:
        """Only requests that need the controller are forwarded, not those that brokers may send and clients may not."""
        for key in (0, 1, 3, 1000, 1005, 9999, 45 + 1000):
            answer = self.forwarded(CreateTopicsRequest(topics=[]), 7, api_key=key)
            self.assertEqual(answer.error_code, ErrorCode.INVALID_REQUEST)

    def test_damaged(self) -> None:
        """An undecodable request closes the connection, as for any API."""
        for changes in ({"body": b"\xff"}, {"api_version": 99}):
            client = self.client = self.server.connect()
            self.introduced()
            request = ForwardRequest(api_key=19, api_version=7, principal="User:x", host="h", body=b"\x01\0\0\0\0\0\0")
            for name, value in changes.items():
                setattr(request, name, value)
            client.send(request, 0)
            client.turn()
            self.assertTrue(client.closed, changes)


class PluginCallTests(PeerCase):
    """AskPlugin."""

    def asked(self, plugin: str, body: bytes = b"") -> Any:
        """Ask it."""
        return self.introduced().ask(AskPluginRequest(plugin=plugin, body=body), 0)

    def test_answered(self) -> None:
        """The plugin gets the bytes, and its own go back."""
        self.server.broker.plugin_services.answer_plugin("echo", lambda body: succeed(body * 2))
        self.assertEqual(self.asked("echo", b"ab").body, b"abab")

    def test_missing_plugin(self) -> None:
        """The error names the plugin."""
        answer = self.asked("nobody")
        self.assertEqual(answer.error_code, ErrorCode.UNSUPPORTED_VERSION)
        self.assertIn("'nobody'", answer.error_message)

    def test_errors_of_a_plugin(self) -> None:
        """A plugin's ApiError is returned; other exceptions are logged. The connection stays open."""
        refusal = ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "not here")
        self.server.broker.plugin_services.answer_plugin("strict", lambda body: fail(refusal))
        self.server.broker.plugin_services.answer_plugin("broken", lambda body: fail(KeyError("hunter2")))
        answer = self.asked("strict")
        self.assertEqual((answer.error_code, answer.error_message), (ErrorCode.NOT_LEADER_OR_FOLLOWER, "not here"))
        answer = self.asked("broken")
        self.assertEqual((answer.error_code, answer.error_message), (ErrorCode.UNKNOWN_SERVER_ERROR, None))
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    def test_nobody_waits(self) -> None:
        """When the other broker hangs up the plugin's work is cancelled, and nothing is logged."""
        cancelled: list[Deferred[bytes]] = []
        work: Deferred[bytes] = Deferred(cancelled.append)
        self.server.broker.plugin_services.answer_plugin("slow", lambda body: work)
        client = self.introduced()
        client.send(AskPluginRequest(plugin="slow", body=b""), 0)
        client.turn()
        client.protocol.connectionLost(Failure(ConnectionDone()))
        client.turn()
        self.assertEqual(cancelled, [work])
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_response_too_long(self) -> None:
        """A response that is too long is refused, not sent."""
        self.server.broker.plugin_services.answer_plugin("long", lambda body: succeed(bytes(MAX_BODY_BYTES + 1)))
        self.assertEqual(self.asked("long").error_code, ErrorCode.MESSAGE_TOO_LARGE)

    def test_duplicate_plugin_names(self) -> None:
        """Two plugins with one name are an error."""
        self.server.broker.plugin_services.answer_plugin("one", succeed)
        self.assertRaises(ValueError, self.server.broker.plugin_services.answer_plugin, "one", succeed)
