"""Bytes and records by topic: each way in and out counts, and topics that are gone are not shown."""

from __future__ import annotations

from logbus.cluster.replication.broker_topic_stats import BrokerTopicStats
from logbus.handlers import coalesced_produce, large_produce, produce_appender
from logbus.records.file_slice import joined
from logbus.series_limit import limit_series
from logbus.storage.appends import large_appends
from logbus.wire.connection import ClientConnection
from logbus.wire.messages.topics import DeleteTopicsRequest
from tests.cluster.test_replication import ReplicationCase
from tests.handlers.kit import HandlerCase, MemoryBroker, a_batch, content, fetch_request, produce_request

Counts = dict[str, tuple[float, float, float]]
"""Bytes in, records in and bytes out by topic."""


def counts(server: MemoryBroker, limit: int = 1000) -> Counts:
    """What the metrics of a broker tell."""
    found: dict[str, dict[str, float]] = {}
    for family in limit_series(server.broker.env.registry.collect(), limit):
        if family.name.startswith("logbus_topic_"):
            for sample in family.samples:
                if sample is not None:
                    found.setdefault(dict(sample.labels)["topic"], {})[sample.name] = sample.value
    return {
        topic: (
            by_name["logbus_topic_produced_bytes_total"],
            by_name["logbus_topic_produced_records_total"],
            by_name["logbus_topic_fetched_bytes_total"],
        )
        for topic, by_name in found.items()
    }


def total(server: MemoryBroker, name: str) -> float:
    """The value of a metric without labels."""
    (value,) = (
        sample.value
        for family in server.broker.env.registry.collect()
        if family.name == name
        for sample in family.samples
        if sample is not None
    )
    return value


class OneBrokerTests(HandlerCase):
    """A topic, and others."""

    def test_single_requests(self) -> None:
        """Each topic by itself, its partitions together; what is refused is not counted."""
        self.server.create("u")
        one, two = a_batch(b"a"), a_batch(b"b", b"c")
        self.client.produce(one)
        self.client.produce(two, partition=1)
        self.client.produce(two, "u")
        self.client.produce(b"damaged")
        self.client.produce(one, partition=7)
        self.client.produce(one, "unknown")
        self.client.fetch(partition=1)
        self.assertEqual(counts(self.server), {"t": (len(one) + len(two), 3, len(two)), "u": (len(two), 2, 0)})

    def test_several_at_once(self) -> None:
        """Requests that are found in one read are appended together, and those of several connections are."""
        data, wire = a_batch(b"a", b"b"), ClientConnection("tester")
        self.client.produce(data)
        self.client.feed(b"".join(joined(wire.request(produce_request(data), 9)[1]) for _ in range(5)))
        self.assertEqual(len(self.client.frames()), 5)
        self.assertEqual(counts(self.server)["t"], (6 * len(data), 12, 0))
        clients = [self.server.connect() for _ in range(3)]
        for client in clients:
            client.produce(data)
            client.feed(joined(wire.request(produce_request(data), 9)[1]))
        self.client.turn()
        self.assertEqual(counts(self.server)["t"], (12 * len(data), 24, 0))

    def test_a_large_batch(self) -> None:
        """A batch that is written by a thread counts as others do."""
        for module in (large_produce, produce_appender, large_appends):
            self.patch(module, "LARGE", 1000)
        for module in (coalesced_produce, large_produce, produce_appender, large_appends):
            self.patch(module, "LEAST_FOR_THREAD", 1000)
        self.client.produce()
        before, data = counts(self.server)["t"], a_batch(bytes(1000))
        self.disk.ahead = []
        self.client.protocol._frame_transport.receives_in_place = True  # type: ignore[misc]
        self.client.send(produce_request(data), 9)
        self.assertEqual(counts(self.server)["t"], before)
        self.assertTrue(self.disk.release_ahead())
        self.assertEqual(counts(self.server)["t"], (before[0] + len(data), before[1] + 1, 0))

    def test_repeated_and_shared_fetches(self) -> None:
        """A Fetch that repeats an earlier one counts, and one that waited; each of those that share records does."""
        self.client.produce()
        size = sum(len(content(self.client.fetch())) for _ in range(4))
        self.assertEqual(counts(self.server)["t"][2], size)
        waiting = [self.server.connect() for _ in range(3)]
        for _ in range(2):
            end = self.server.broker.replication.replicas.get("t", 0).high_watermark
            for client in waiting:
                client.send(fetch_request([("t", 0, end)], max_wait_ms=500), 12)
            self.client.produce()
            self.client.turn()
            size += sum(
                len(content(answer.responses[0].partitions[0])) for client in waiting for answer in client.answers()
            )
        self.assertEqual(counts(self.server)["t"][2], size)
        self.assertEqual(total(self.server, "logbus_fetched_bytes_total"), size)

    def test_gone(self) -> None:
        """A deleted topic is not shown, and begins anew if it is created again."""
        self.server.create("u")
        data = a_batch()
        for topic in ("t", "u"):
            self.client.produce(data, topic)
        self.client.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
        self.client.turn(1)
        self.assertEqual(counts(self.server), {"u": (len(data), 1, 0)})
        self.server.create("t")
        self.assertEqual(counts(self.server), {"t": (0, 0, 0), "u": (len(data), 1, 0)})

    def test_bounded(self) -> None:
        """Topics past the limit of series are added up."""
        for topic in ("u", "v"):
            self.server.create(topic)
            self.client.produce(a_batch(b"a"), topic)
        size = len(a_batch(b"a"))
        self.assertEqual(counts(self.server, 1), {"t": (0, 0, 0), "_other": (2 * size, 2, 0)})

    def test_late(self) -> None:
        """Bytes of a topic that is gone are not counted, nor kept."""
        stats = BrokerTopicStats()
        stats.opened("a").bytes_in = 7
        stats.opened("a")
        stats.closed("a")
        stats.sent("a", 5)
        self.assertEqual([sample.value for family in stats.families() for sample in family.samples], [7, 0, 5])
        stats.closed("a")
        stats.sent("a", 5)
        self.assertEqual([list(family.samples) for family in stats.families()], [[], [], []])


class ClusterTests(ReplicationCase):
    """Three brokers."""

    def test_followers_are_no_consumers(self) -> None:
        """What producers send counts on the leader; what followers fetch counts by itself."""
        self.create()
        data = a_batch(b"a", b"b")
        self.assertEqual(self.produce(b"a", b"b").error_code, 0)
        leader = self.leader()
        for broker_id in self.cluster.alive:
            server = self.cluster[broker_id]
            led = broker_id == leader
            self.assertEqual(counts(server)["t"], (len(data), 2, 0) if led else (0, 0, 0))
            self.assertEqual(total(server, "logbus_replica_sent_bytes_total"), 2 * len(data) if led else 0)
