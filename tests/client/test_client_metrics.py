"""Metrics of producers and consumers."""

from __future__ import annotations

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.client_metrics import ClientMetrics, ConsumerCounts
from logbus.client.cluster.cluster_metrics import ClusterMetrics
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.model import TopicPartition


@define
class Numbers:
    """A producer's counts."""

    records: int = 3
    queue_us: int = 500
    of_a_later_version: int = 1


@define
class Producer:
    """A producer, as far as it is asked."""

    metrics: Numbers = field(factory=Numbers)
    buffered: int = 70


@define
class Cluster:
    """A cluster, as far as it is asked."""

    metrics: ClusterMetrics = field(factory=ClusterMetrics)


class Consumer:
    """A consumer, as far as it is asked."""

    def lag(self) -> dict[TopicPartition, int | None]:
        return {TopicPartition("t", 0): 5, TopicPartition("t", 1): None}


class ClientMetricsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.metrics = ClientMetrics()

    def lines(self) -> list[str]:
        return [each for each in self.metrics.text().decode().splitlines() if not each.startswith("#")]

    def test_a_producer(self) -> None:
        """Its counts are read on request, and labelled with its name."""
        producer = Producer()
        self.metrics.add_producer("views", producer)
        producer.metrics.records += 1
        self.assertEqual(self.metrics.as_dict()["producer"]["views"], {"records": 4, "queue_us": 500, "buffered": 70})
        self.assertEqual(
            self.lines(),
            [
                'logbus_client_producer_records_total{client="views"} 4.0',
                'logbus_client_producer_queue_us_total{client="views"} 500.0',
                'logbus_client_producer_buffered_bytes{client="views"} 70.0',
            ],
        )

    def test_a_cluster(self) -> None:
        """Its connections are counted, and the latency of its requests by API."""
        cluster = Cluster()
        self.metrics.add_cluster("shop", cluster)
        cluster.metrics.connections, cluster.metrics.connects = 2, 3
        cluster.metrics.answered("Produce", 0.004)
        cluster.metrics.answered("Produce", 100.0)
        self.assertEqual(
            self.metrics.as_dict()["cluster"]["shop"],
            {
                "connections": 2,
                "connects": 3,
                "failed_connects": 0,
                "requests": {"Produce": {"count": 2, "seconds": 100.004}},
            },
        )
        lines = self.lines()
        for line in (
            'logbus_client_connections{client="shop"} 2.0',
            'logbus_client_connects_total{client="shop"} 3.0',
            'logbus_client_request_seconds_bucket{api="Produce",client="shop",le="0.005"} 1.0',
            'logbus_client_request_seconds_bucket{api="Produce",client="shop",le="+Inf"} 2.0',
            'logbus_client_request_seconds_count{api="Produce",client="shop"} 2.0',
        ):
            self.assertIn(line, lines)
        with self.assertRaisesRegex(ValueError, "a cluster 'shop' already"):
            self.metrics.add_cluster("shop", cluster)
        self.metrics.remove("shop")
        self.assertEqual(self.lines(), [])

    def test_a_consumer(self) -> None:
        """
        Its interceptor counts; its lag is shown where it is known.
        """
        counts = ConsumerCounts()
        self.metrics.add_consumer("kitchen", Consumer(), counts)
        counts.on_consume([ConsumerRecord("t", 0, 1, 2, None, None, ())] * 3)
        counts.on_commit({})
        self.assertEqual(
            self.metrics.as_dict()["consumer"]["kitchen"],
            {"records": 3, "batches": 1, "commits": 1, "lag": {"t-0": 5}},
        )
        self.assertIn('logbus_client_consumer_records_total{client="kitchen"} 3.0', self.lines())
        self.assertIn('logbus_client_consumer_lag{client="kitchen",partition="0",topic="t"} 5.0', self.lines())
        self.assertEqual(len(self.lines()), 4)

    def test_unique_names(self) -> None:
        """Two clients of a kind cannot share a name; removed ones are not shown."""
        self.metrics.add_producer("a", Producer())
        self.metrics.add_consumer("a", Consumer())
        self.assertRaises(ValueError, self.metrics.add_producer, "a", Producer())
        self.assertRaises(ValueError, self.metrics.add_consumer, "a", Consumer())
        self.metrics.remove("a")
        self.metrics.remove("a")
        self.assertEqual(self.metrics.as_dict(), {"cluster": {}, "producer": {}, "consumer": {}})
        self.assertEqual(self.lines(), [])

    def test_openmetrics(self) -> None:
        """
        With the application's own metrics beside it.
        """
        self.metrics.registry.counter("logbus_shop_orders_total", "Orders.").labels().value += 2
        text = self.metrics.text(openmetrics=True)
        self.assertIn(b"logbus_shop_orders_total 2.0", text)
        self.assertTrue(text.endswith(b"# EOF\n"))
