"""How long requests take, by API and phase."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.metrics import LATENCY_BUCKETS, HistogramValue
from logbus.net.request_times import NAME, PhaseTimes, RequestTimes
from logbus.net.stream_transport import StreamTransport
from logbus.wire.messages import api_name
from tests.net.fakes import Client, Handler, Server, fetch, produce, tag_of, taken

PRODUCE, FETCH = 0, 1


class PhaseTimesTests(SynchronousTestCase):
    @given(st.lists(st.tuples(st.floats(0, 20) | st.sampled_from(LATENCY_BUCKETS), st.integers(1, 100))))
    def test_like_a_histogram(self, observed: list[tuple[float, int]]) -> None:
        """
        Durations are counted in the buckets of a histogram, those of several requests as often.
        """
        times, expected = PhaseTimes(), HistogramValue(LATENCY_BUCKETS)
        for seconds, count in observed:
            times.observe(seconds, count)
            for _ in range(count):
                expected.observe(seconds)
        self.assertEqual(times.histogram().counts, expected.counts)
        self.assertAlmostEqual(times.histogram().sum, expected.sum)


class RequestTimesTests(SynchronousTestCase):
    def test_requests_that_are_served_at_once(self) -> None:
        """
        One request begins when the one before it has its response; both were received together.
        """
        clock = Clock()
        times = RequestTimes(clock.seconds)
        received = clock.seconds()
        clock.advance(1)
        times.begin()
        clock.advance(2)
        times.served(PRODUCE, 1, received)
        clock.advance(4)
        times.served(FETCH, 1, received)
        self.assertEqual(_sums(times, PRODUCE), {"queue": 1, "local": 2, "remote": 0, "send": 0, "total": 3})
        self.assertEqual(_sums(times, FETCH), {"queue": 3, "local": 4, "remote": 0, "send": 0, "total": 7})

    def test_requests_that_are_served_together(self) -> None:
        """
        Each took as long as all of them.
        """
        clock = Clock()
        times = RequestTimes(clock.seconds)
        received = times.begin()
        clock.advance(1)
        times.served(PRODUCE, 3, received, together=True)
        times.served(PRODUCE, 5, received, together=True)
        self.assertEqual(_sums(times, PRODUCE)["local"], 8)
        self.assertEqual(times.apis[PRODUCE].total.histogram().count, 8)

    def test_as_a_metric(self) -> None:
        """
        All phases have as many requests: those that did not wait have waited for no time.
        """
        clock = Clock()
        times = RequestTimes(clock.seconds)
        received = times.begin()
        times.served(PRODUCE, 2, received)
        since = times.handed_over(PRODUCE, 1, received)
        clock.advance(0.02)
        times.answered(PRODUCE, 1, received, since)
        samples = {(sample.name, sample.labels): sample.value for sample in times.family(api_name).samples if sample}
        for phase, quick in (("queue", 3), ("local", 3), ("remote", 2), ("send", 3), ("total", 2)):
            labels = (("api", "Produce"), ("phase", phase))
            self.assertEqual(samples[f"{NAME}_count", labels], 3, phase)
            self.assertEqual(samples[f"{NAME}_bucket", (*labels, ("le", "0.0001"))], quick, phase)
            self.assertEqual(samples[f"{NAME}_bucket", (*labels, ("le", "0.03"))], 3, phase)


class ConnectionTests(SynchronousTestCase):
    """What is measured on a connection, whose handler takes one second for each request."""

    def setUp(self) -> None:
        self.handler = Handler()
        self.server = Server(self.handler)
        self.clock = self.server.clock
        self.times = self.server.factory.shared.times
        self.client = Client()

    def take_a_second(self, _: Any, request: Any) -> Any:
        self.clock.advance(1)
        return self.handler.answer(request.api_key, tag_of(request))

    def test_pipelined(self) -> None:
        """
        Of two requests that came together the second one queues while the first is served.
        """
        self.handler.override = self.take_a_second
        protocol, _ = self.server.connect()
        protocol.dataReceived(self.client.ask(fetch(1)) + self.client.ask(fetch(2)))
        self.assertEqual(_sums(self.times, FETCH), {"queue": 1, "local": 2, "remote": 0, "send": 0, "total": 3})

    def test_waiting(self) -> None:
        """
        What waits for something is remote; a request behind it, which was received meanwhile, queues.
        """
        self.handler.held.add(1)
        protocol, transport = self.server.connect()
        protocol.dataReceived(self.client.ask(fetch(1)))
        self.clock.advance(2)
        protocol.dataReceived(self.client.ask(fetch(2)))
        self.clock.advance(3)
        self.handler.release(1)
        self.server.turn()
        self.assertEqual(self.client.tags(taken(transport)), [1, 2])
        self.assertEqual(_sums(self.times, FETCH), {"queue": 3, "local": 0, "remote": 5, "send": 0, "total": 8})

    def test_coalesced(self) -> None:
        """
        Produce requests that are served together count each.
        """
        protocol, transport = self.server.connect()
        for start in (0, 1, 4):
            protocol.dataReceived(b"".join(self.client.ask(produce(tag)) for tag in range(start, 2 * start + 2)))
        count = len(self.client.tags(taken(transport)))
        self.assertEqual(self.times.apis[PRODUCE].total.histogram().count, count)

    def test_a_peer_that_reads_late(self) -> None:
        """
        The response is sent when the peer has taken all of it.
        """
        self.handler.records = bytes(10_000)
        protocol, transport = self.server.connect()
        carrier = transport.producer
        assert isinstance(carrier, StreamTransport)
        carrier.pauseProducing()
        protocol.dataReceived(self.client.ask(fetch(1)))
        self.clock.advance(7)
        carrier.resumeProducing()
        self.server.turn()
        self.assertEqual(_sums(self.times, FETCH)["send"], 7)


def _sums(times: RequestTimes, api_key: int) -> dict[str, float]:
    return {name: value.sum for name, value in times.apis[api_key].phases()}
