"""Requests that are forwarded to the controller."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.forwarding_manager import ForwardingManager
from logbus.cluster.peers import Peers
from logbus.net.time_slices import SliceScheduler, TimeSlice
from logbus.records.file_slice import joined
from logbus.wire.messages.inter_broker import ForwardRequest, ForwardResponse
from logbus.wire.messages.topics import DeleteTopicsRequest
from logbus.wire.schema import encode
from tests.net.fakes import iterate


class Controller:
    """Another broker, which answers at once."""

    def __init__(self) -> None:
        self.asked: list[ForwardRequest] = []

    def request(self, broker: Any, message: ForwardRequest, way: str, seconds: float) -> Deferred[ForwardResponse]:
        self.asked.append(message)
        return succeed(ForwardResponse(body=b"answer"))


class ForwarderTests(SynchronousTestCase):
    def test_a_large_request(self) -> None:
        """It is encoded in slices, and spelt as any other."""
        clock = Clock()
        scheduler = SliceScheduler(clock)
        controller = Controller()
        metadata = SimpleNamespace(controller_id=1, brokers={1: object()})
        forwarder = ForwardingManager(0, cast(ClusterMetadata, metadata), cast(Peers, controller))
        message = DeleteTopicsRequest(topic_names=[f"t{number}" for number in range(20_000)], timeout_ms=5000)
        answer = Deferred.fromCoroutine(forwarder.send(message, 3, time_slice=TimeSlice(scheduler)))
        self.assertNoResult(answer)
        for _ in range(50):
            iterate(clock)
        self.assertEqual(self.successResultOf(answer), b"answer")
        self.assertGreaterEqual(scheduler.slices, 3)
        self.assertEqual(self.successResultOf(Deferred.fromCoroutine(forwarder.send(message, 3))), b"answer")
        bodies = [bytes(request.body) for request in controller.asked]
        self.assertEqual(bodies, [joined(encode(message, 3))] * 2)
