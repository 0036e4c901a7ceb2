"""Tests of :mod:`logbus.broker.condition_sources`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.broker.condition_sources import (
    A_TURN,
    KEPT_SECONDS,
    CertificateSource,
    ClockSource,
    FloodSource,
    LatenessSource,
    MirrorSource,
    PartitionSources,
    RefusalSource,
    SlownessSource,
    StoreSource,
)
from logbus.cluster.cluster_metadata import ClusterMetadata, PartitionImage
from logbus.conditions import Finding
from logbus.metastore.operations import SessionState
from logbus.mirror.mirror_options import MirrorOptions
from logbus.mirror.mirror_status import MirrorStatus
from logbus.mirror.running_mirror import RunningMirror
from logbus.model import LeaderAndIsr, TopicPartition
from logbus.net.arrivals import SPAN_SECONDS, Arrivals
from logbus.net.metrics import NetMetrics
from logbus.net.request_context import RequestContext
from logbus.storage.flush_times import FlushTimes


def told(source: Callable[[], Iterator[Finding | None]]) -> list[tuple[str, str]]:
    return [(each.subject, each.message) for each in source() if each is not None]


class PartitionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.metadata = ClusterMetadata("abcdefghijklmnopqrstuv", controller_id=0)
        self.replicas: list[Any] = []
        self.sources = PartitionSources(0, self.metadata, cast(Any, self.replicas))

    def lead(self, leaders: list[int]) -> None:
        images = [PartitionImage((0,), LeaderAndIsr(leader, 1, (0,))) for leader in leaders]
        with self.metadata.changing() as metadata:
            metadata.set_partitions("orders", UUID(int=1), list(enumerate(images)))

    def test_offline(self) -> None:
        """The controller tells what nobody leads, by topic."""
        self.lead([0, -1, 0, -1])
        self.assertEqual(told(self.sources.offline), [("orders", "without a leader: partitions 1, 3")])
        with self.metadata.changing() as metadata:
            metadata.set_controller(1)
        self.assertEqual(told(self.sources.offline), [])

    def test_many_offline(self) -> None:
        """Of a thousand some are named, and the look is made in turns."""
        self.lead([-1] * 1000)
        [(_, message)] = told(self.sources.offline)
        self.assertEqual(message, "without a leader: partitions 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 990 more")
        self.assertEqual(list(self.sources.offline()).count(None), 1000 // A_TURN)

    def test_under_min_isr(self) -> None:
        """Those led here count, by topic."""
        for number, is_leader, has_enough in ((2, True, False), (0, True, False), (1, False, False), (3, True, True)):
            self.replicas.append(
                SimpleNamespace(
                    topic_partition=TopicPartition("orders", number),
                    partition=SimpleNamespace(is_leader=is_leader, has_enough_replicas=has_enough),
                )
            )
        self.assertEqual(
            told(self.sources.under_min_isr),
            [("orders", "fewer in sync than min.insync.replicas: partitions 0, 2")],
        )


class MomentTests(SynchronousTestCase):
    """What happens in a moment is told for some minutes."""

    def setUp(self) -> None:
        self.clock = Clock()

    def test_clock(self) -> None:
        wall = 1e9
        source = ClockSource(self.clock.seconds, lambda: wall + self.clock.seconds())
        self.assertEqual(told(source.jumped), [])
        wall += 4.9
        self.assertEqual(told(source.jumped), [])
        wall -= 60
        self.assertEqual(told(source.jumped), [("wall clock", "it was set back by 60 s")])
        wall += 3600
        self.assertEqual(told(source.jumped), [("wall clock", "it was set forward by 3600 s")])
        self.clock.advance(KEPT_SECONDS - 1)
        self.assertEqual(len(told(source.jumped)), 1)
        self.clock.advance(1)
        self.assertEqual(told(source.jumped), [])

    def test_lateness(self) -> None:
        longest = 0.9
        source = LatenessSource(self.clock.seconds, lambda: longest)
        self.assertEqual(told(source.late), [])
        longest = 4.25
        self.assertEqual(told(source.late), [("reactor", "it was blocked for 4.2 s")])
        longest = 1.5
        self.assertEqual(told(source.late), [("reactor", "it was blocked for 4.2 s")])
        longest = 0.0
        self.clock.advance(KEPT_SECONDS)
        self.assertEqual(told(source.late), [])
        longest = 2.0
        self.assertEqual(told(source.late), [("reactor", "it was blocked for 2.0 s")])

    def test_slowness(self) -> None:
        """A directory is told while a sync does not end, and for some minutes; one that is offline is not."""
        times = FlushTimes(self.clock.seconds)
        directory = SimpleNamespace(disk=SimpleNamespace(root="/d", flush_times=times), is_online=True)
        source = SlownessSource(self.clock.seconds, cast(Any, SimpleNamespace(directories=[directory])))
        ticket = times.begin()
        self.clock.advance(4.9)
        self.assertEqual(told(source.slow), [])
        self.clock.advance(7.1)
        self.assertEqual(told(source.slow), [("/d", "a sync took 12 s")])
        times.end(ticket, succeeded=True)
        self.clock.advance(KEPT_SECONDS - 1)
        # The first look after its end still counts it.
        self.assertEqual(told(source.slow), [("/d", "a sync took 12 s")])
        self.clock.advance(KEPT_SECONDS - 1)
        directory.is_online = False
        self.assertEqual(told(source.slow), [])
        directory.is_online = True
        self.assertEqual(len(told(source.slow)), 1)
        self.clock.advance(1)
        self.assertEqual(told(source.slow), [])

    def test_refusals(self) -> None:
        metrics = NetMetrics()
        source = RefusalSource(self.clock.seconds, metrics)
        self.assertEqual(told(source.refused), [])
        metrics.connections_refused = 3
        self.assertEqual(told(source.refused), [("connections", "3 were closed at once, as there were too many")])
        metrics.connections_refused = 5
        self.clock.advance(10)
        self.assertIn("5 were closed", told(source.refused)[0][1])
        self.clock.advance(KEPT_SECONDS)
        self.assertEqual(told(source.refused), [])
        metrics.connections_refused = 6
        self.assertIn("1 were closed", told(source.refused)[0][1])

    def test_floods(self) -> None:
        """
        A test suite that starts fifty groups is none; a flood is told while it lasts, and for some minutes, whatever
        the number does meanwhile.
        """
        enough = 100
        arrivals = Arrivals(self.clock.seconds)
        client = RequestContext(1, "kafka", "10.0.0.1", 1, client_id="app")
        source = FloodSource(self.clock.seconds, "new groups", arrivals, lambda: enough)

        def come(count: int) -> list[tuple[str, str]]:
            for _ in range(count):
                arrivals.add(client)
            return told(source.flooded)

        self.assertEqual(come(50), [])
        self.clock.advance(SPAN_SECONDS + 60)
        self.assertEqual(come(99), [])
        said = "100 new groups in 10 minutes, most of them by address '10.0.0.1', client id 'app'"
        self.assertEqual(come(1), [("clients", said)])
        self.clock.advance(SPAN_SECONDS - 60)
        self.assertEqual(len(come(0)), 1)
        self.clock.advance(KEPT_SECONDS - 1)
        self.assertEqual(come(50), [("clients", said.replace("100", "50"))])
        self.clock.advance(1)
        self.assertEqual(come(0), [])
        enough = 0
        self.assertEqual(come(1000), [])


class OtherTests(SynchronousTestCase):
    def test_store(self) -> None:
        store = SimpleNamespace(state=SessionState.CONNECTED)
        source = StoreSource(cast(Any, store), is_zookeeper=True)
        self.assertEqual(told(source.away), [])
        store.state = SessionState.SUSPENDED
        self.assertEqual(told(source.away), [("session", "it is suspended")])
        for is_zookeeper, place in ((True, "ZooKeeper servers"), (False, "supervisor of the workers")):
            (finding,) = StoreSource(cast(Any, store), is_zookeeper).away()
            assert finding is not None and finding.advice is not None
            self.assertIn(place, finding.advice)

    def test_certificates(self) -> None:
        """The one of a chain that ends first counts."""
        now = datetime(2026, 5, 1, 12, tzinfo=UTC)

        def certificate(name: str, days: float) -> Any:
            subject = SimpleNamespace(rfc4514_string=lambda: name)
            return SimpleNamespace(not_valid_after_utc=now + timedelta(days=days), subject=subject)

        def pair(own: float, issuer: float) -> Any:
            return SimpleNamespace(certificate=certificate("CN=own", own), chain=(certificate("CN=issuer", issuer),))

        pairs = [("a", pair(31, 400)), ("b", pair(90, 7)), ("c", pair(-1, 400)), ("d", pair(1, 400))]
        security = SimpleNamespace(key_pairs=lambda: iter(pairs))
        source = CertificateSource(cast(Any, security), now.timestamp)
        self.assertEqual(
            told(source.ending),
            [
                ("b", "the certificate of CN=issuer ends on 2026-05-08 12:00 UTC, in 7 days"),
                ("c", "the certificate of CN=own ended on 2026-04-30 12:00 UTC"),
                ("d", "the certificate of CN=own ends on 2026-05-02 12:00 UTC, in less than two days"),
            ],
        )


class MirrorTests(SynchronousTestCase):
    def test_stopped(self) -> None:
        """What a mirror does not copy is told with its reason, and so is why it has ended."""
        options = MirrorOptions(source="paris", target="rome")
        status = MirrorStatus(options.flow)
        mirrors: list[RunningMirror] = []
        source = MirrorSource(lambda: mirrors)
        self.assertEqual(told(source.stopped), [])
        mirrors.append(RunningMirror(("paris:9092",), options, status, 0.0))
        self.assertEqual(told(source.stopped), [])
        status.problem("orders-0", "orders-0: it cannot be read")
        self.assertEqual(told(source.stopped), [("paris-to-rome: orders-0", "orders-0: it cannot be read")])
        status.solved("orders-0")
        status.fail("nobody is there")
        self.assertEqual(told(source.stopped), [("paris-to-rome", "nobody is there")])
