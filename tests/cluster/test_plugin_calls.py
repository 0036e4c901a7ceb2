"""Tests of :mod:`logbus.cluster.plugin_calls`: over which connections plugins ask each other."""

from __future__ import annotations

from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.images import BrokerImage
from logbus.cluster.plugin_calls import MAX_LANES, PluginCalls
from logbus.errors import ApiError, ErrorCode
from logbus.wire.messages.inter_broker import AskPluginResponse


@define(eq=False)
class MadeUpPeers:
    """
    Connections on which answers come when a test says so.

    :ivar asked: purpose and answer of each request.
    """

    asked: list[tuple[str, Deferred[Any]]] = field(factory=list)
    forgotten: list[str] = field(factory=list)

    def broker(self, broker_id: int) -> BrokerImage:
        return BrokerImage(broker_id, {})

    def request(self, broker: BrokerImage, message: Any, purpose: str, seconds: float) -> Deferred[Any]:
        answer: Deferred[Any] = Deferred()
        self.asked.append((purpose, answer))
        return answer

    def forget(self, broker: BrokerImage, purpose: str) -> None:
        self.forgotten.append(purpose)


class LaneTests(SynchronousTestCase):
    """Requests do not wait for each other."""

    def setUp(self) -> None:
        self.peers = MadeUpPeers()
        self.calls = PluginCalls(cast(Any, self.peers))

    def ask(self, broker_id: int = 1, plugin: str = "http") -> Deferred[bytes]:
        return Deferred.fromCoroutine(self.calls.ask(broker_id, plugin, b"?", 10.0))

    def purposes(self) -> list[str]:
        return [purpose for purpose, _ in self.peers.asked]

    def answer(self, number: int) -> None:
        self.peers.asked[number][1].callback(AskPluginResponse(body=b"!"))

    def test_one_after_the_other(self) -> None:
        """Requests that do not overlap share one connection."""
        for number in range(3):
            asked = self.ask()
            self.answer(number)
            self.assertEqual(self.successResultOf(asked), b"!")
        self.assertEqual(self.purposes(), ["plugin-http"] * 3)

    def test_at_the_same_time(self) -> None:
        """A request does not go behind one that is not answered yet, and the first connection that is free is used."""
        for _ in range(3):
            self.ask()
        self.answer(1)
        self.ask()
        self.assertEqual(self.purposes(), ["plugin-http", "plugin-http-1", "plugin-http-2", "plugin-http-1"])

    def test_bounded(self) -> None:
        """There are so many connections; then requests share them evenly."""
        for _ in range(3 * MAX_LANES):
            self.ask()
        self.assertEqual(len(set(self.purposes())), MAX_LANES)
        self.assertEqual({self.purposes().count(each) for each in self.purposes()}, {3})

    def test_brokers_and_plugins(self) -> None:
        """Each broker and each plugin has its own."""
        self.ask()
        self.ask(broker_id=2)
        self.ask(plugin="registry")
        self.assertEqual(self.purposes(), ["plugin-http", "plugin-http", "plugin-registry"])

    def test_error(self) -> None:
        """A request that fails frees its connection."""
        asked = self.ask()
        self.peers.asked[0][1].errback(ApiError(ErrorCode.REQUEST_TIMED_OUT))
        self.failureResultOf(asked, ApiError)
        self.ask()
        self.assertEqual(self.purposes(), ["plugin-http"] * 2)

    def test_given_up(self) -> None:
        """The connection of a request that nobody waits for any more is closed, unless others wait on it."""
        asked = self.ask()
        asked.cancel()
        self.failureResultOf(asked, CancelledError)
        self.assertEqual(self.peers.forgotten, ["plugin-http"])
        many = [self.ask() for _ in range(MAX_LANES + 1)]
        many[0].cancel()
        self.failureResultOf(many[0], CancelledError)
        self.assertEqual(self.peers.forgotten, ["plugin-http"])

    def test_nothing_is_left(self) -> None:
        """Nothing is kept of brokers that nobody asks."""
        asked = [self.ask(broker_id) for broker_id in range(5)]
        for number in range(5):
            self.answer(number)
        self.assertEqual([self.successResultOf(each) for each in asked], [b"!"] * 5)
        self.assertEqual(self.calls._waiting, {})
