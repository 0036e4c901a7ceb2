"""Connections between brokers."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import CancelledError

from logbus.cluster import peers
from logbus.cluster.icluster import IControllerChannel
from logbus.cluster.peers import CONNECT_SECONDS, CONTROL, FETCH, versions_of
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.znodes import LOWEST_FEATURE_LEVEL
from logbus.model import IsrChange, TopicPartition
from logbus.net.channel import Channel
from logbus.wire.messages.inter_broker import ShutDownRequest
from tests.cluster.memory_cluster import ClusterCase


class PeersTests(ClusterCase):
    """Broker 1, as broker 0 reaches it."""

    brokers = 2

    def setUp(self) -> None:
        super().setUp()
        self.peers = self.cluster[0].broker.member.peers
        self.image = self.peers.broker(1)

    def ask(self, **given: Any) -> Any:
        """A request that needs no controller to be answered: broker 1 is none."""
        return self.peers.request(self.image, ShutDownRequest(broker_epoch=1), **given)

    def refusal(self, asked: Any, seconds: float = 0.0) -> ApiError:
        """How a request failed."""
        self.cluster.settle(seconds)
        error: ApiError = self.failureResultOf(asked, ApiError).value
        return error

    def test_feature_level(self) -> None:
        """Brokers below the level of the first release are not spoken to."""
        self.assertRaises(ApiError, versions_of, LOWEST_FEATURE_LEVEL - 1)
        self.assertIn(1001, versions_of(LOWEST_FEATURE_LEVEL))

    def test_connection_per_purpose(self) -> None:
        """A connection is kept and shared by all with one purpose; another purpose has its own."""
        first = self.cluster.now(self.peers.channel(self.image, CONTROL))
        self.assertIs(self.cluster.now(self.peers.channel(self.image, CONTROL)), first)
        self.assertIsNot(self.cluster.now(self.peers.channel(self.image, FETCH)), first)

    def test_answered(self) -> None:
        """The other knows who asks, and answers as it does to a broker."""
        self.assertEqual(self.cluster.now(self.ask()).error_code, ErrorCode.NOT_CONTROLLER)

    def test_unavailable_broker(self) -> None:
        """A broker that is unknown, unreachable, or of another incarnation is an error at once."""
        self.assertEqual(self.assertRaises(ApiError, self.peers.broker, 9).code, ErrorCode.BROKER_NOT_AVAILABLE)
        self.cluster.kill(1, expire=False)
        for _ in range(3):
            self.assertEqual(self.refusal(self.ask()).code, ErrorCode.BROKER_NOT_AVAILABLE)
        old = evolve(self.image, epoch=self.image.epoch - 1)
        asked = self.peers.request(old, ShutDownRequest(broker_epoch=1))
        self.assertIn("restarted", self.refusal(asked).message)

    def test_no_answer(self) -> None:
        """Neither connecting nor asking waits for good."""
        self.cluster.cut(0, 1)
        self.assertEqual(
            self.refusal(self.ask(purpose="new"), CONNECT_SECONDS + 1).code, ErrorCode.BROKER_NOT_AVAILABLE
        )
        self.cluster.mend()
        self.cluster.settle(1)
        self.cluster.now(self.ask())
        self.cluster.cut(0, 1)
        self.assertEqual(self.refusal(self.ask(timeout=2.0), 3).code, ErrorCode.REQUEST_TIMED_OUT)
        self.cluster.mend()
        self.assertEqual(self.cluster.now(self.ask()).error_code, ErrorCode.NOT_CONTROLLER)

    def test_registration_removed(self) -> None:
        """The connection ends with the broker's registration, and so does a request under way."""
        channel = self.cluster.now(self.peers.channel(self.image, CONTROL))
        self.cluster.kill(1)
        self.cluster.settle(1)
        self.assertFalse(channel.usable)
        self.cluster.boot(1)
        self.cluster.settle(1)
        self.assertNotEqual(self.peers.broker(1).epoch, self.image.epoch)
        self.image = self.peers.broker(1)
        self.assertEqual(self.cluster.now(self.ask()).error_code, ErrorCode.NOT_CONTROLLER)

    def test_session_ended(self) -> None:
        """The connection also ends when the broker lives on, but its session has ended."""
        channel = self.cluster.now(self.peers.channel(self.image, CONTROL))
        store = self.cluster[1].broker.member.store
        store.suspend()
        store.expire()
        self.cluster.settle()
        self.assertFalse(channel.usable)
        store.resume()
        self.cluster.settle(1)
        self.image = self.peers.broker(1)
        self.assertEqual(self.cluster.now(self.ask()).error_code, ErrorCode.NOT_CONTROLLER)

    def test_attempts(self) -> None:
        """A broker that is not there is not called all the time, but soon again."""
        self.cluster.kill(1, expire=False)
        connect_to, calls = self.peers.connect_to, []

        def counted(host: str, port: int) -> Any:
            calls.append(host)
            return connect_to(host, port)

        self.peers.connect_to = counted
        for _ in range(50):
            self.refusal(self.ask(purpose="new"))
        self.assertEqual(len(calls), 1)
        self.cluster.settle(0.1)
        self.refusal(self.ask(purpose="new"))
        self.assertEqual(len(calls), 2)
        for _ in range(200):
            self.refusal(self.ask(purpose="new"), 0.05)
        self.assertLess(len(calls), 20)

    def test_receive_buffer(self) -> None:
        """What is fetched has the receive buffer of its key; the kernel sizes those of other connections."""
        sizes: list[int] = []
        self.patch(peers, "set_receive_buffer", lambda transport, size: sizes.append(size))
        self.peers.receive_buffer = 65536
        self.cluster.now(self.peers.channel(self.image, "new"))
        self.assertEqual(sizes, [])
        self.cluster.now(self.peers.channel(self.image, FETCH))
        self.assertEqual(sizes, [65536])

    def test_stopped(self) -> None:
        """Who is closed connects to nobody any more, and leaves nothing behind."""
        channel = self.cluster.now(self.peers.channel(self.image, CONTROL))
        self.peers.close()
        self.assertFalse(channel.usable)
        self.assertIn("stops", self.refusal(self.ask()).message)

    def test_login_refused(self) -> None:
        """Who cannot log in asks nothing, and says why."""

        async def log_in(channel: Channel) -> None:
            raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, "it refuses our login")

        self.peers.log_in = log_in
        self.assertIn("it refuses our login", self.refusal(self.ask(purpose="new")).message)

    def test_given_up(self) -> None:
        """One of those who wait for a connection may give up; the others get it."""
        first, second = self.peers.channel(self.image, FETCH), self.peers.channel(self.image, FETCH)
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.cluster.now(second)


class LinkTests(ClusterCase):
    """The controller, as brokers see it."""

    def link(self, broker_id: int) -> IControllerChannel:
        return self.cluster[broker_id].broker.replication.channel

    def test_in_sync_replicas(self) -> None:
        """The same answer whether the controller is here or elsewhere."""
        self.cluster[0].create("t", 3)
        for broker_id in self.cluster.alive:
            name = TopicPartition("t", list(self.leaders("t")).index(broker_id))
            image = self.cluster.metadata(broker_id).partition(name)
            assert image is not None
            state = image.leader_and_isr
            stale = IsrChange(name, state.leader_epoch + 7, state.version, (broker_id,))
            outcomes = self.cluster.now(self.link(broker_id).alter_partitions([stale]))
            self.assertEqual(list(outcomes), [name])
            self.assertIsInstance(outcomes[name], ApiError)

    def test_failed_replicas(self) -> None:
        """A directory that fails on any broker is told to the controller, who finds no other leader here."""
        self.cluster[0].create("t", 3)
        for broker_id in (2, 0):
            name = TopicPartition("t", list(self.leaders("t")).index(broker_id))
            self.cluster.now(self.link(broker_id).report_failed([name]))
            self.cluster.settle()
            self.assertEqual(self.leaders("t", 1)[name.partition], -1)

    def test_replaced(self) -> None:
        """Nobody waits for the answer of a controller that was replaced; what became of the request is not known."""
        self.cluster.now(self.link(1).report_failed([TopicPartition("t", 0)]))
        self.cluster.cut(0, 1)
        asked = self.link(1).report_failed([TopicPartition("t", 0)])
        self.cluster.settle(1)
        self.assertNoResult(asked)
        for controller in (2, 0):
            with self.cluster.metadata(1).changing() as metadata:
                metadata.set_controller(controller)
        self.assertEqual(self.failureResultOf(asked, ApiError).value.code, ErrorCode.NETWORK_EXCEPTION)

    def test_no_controller(self) -> None:
        """Without a reachable controller the error says that there is none."""
        self.cluster.cut(0, 1)
        asked = self.link(1).report_failed([TopicPartition("t", 0)])
        self.cluster.settle(40)
        self.assertEqual(self.failureResultOf(asked, ApiError).value.code, ErrorCode.NOT_CONTROLLER)
