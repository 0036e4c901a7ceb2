"""
Metrics of producers, consumers and their clusters, as numbers by name and in Prometheus's text format.

.. code-block:: python

    metrics = ClientMetrics()
    metrics.add_producer("views", producer)
    metrics.add_cluster("shop", cluster)
    metrics.as_dict()["producer"]["views"]["records"]
    metrics.text()

The clients may be Twisted's or asyncio's. They only count, in plain numbers, which are read when metrics are
requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from attrs import AttrsInstance, asdict, define, field, fields, fields_dict

from logbus.client.cluster.cluster_metrics import ClusterMetrics
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.group_metadata import CommittedOffset
from logbus.client.interceptors import ConsumerInterceptor
from logbus.client.producer.producer_metrics import ProducerMetrics, counter
from logbus.exposition import render
from logbus.metrics import Family, Registry, Sample, histogram_samples
from logbus.model import TopicPartition


class MeasuredProducer(Protocol):
    """The part of :class:`logbus.client.Producer` that is measured."""

    @property
    def buffered(self) -> int:
        """Bytes that wait to be sent."""
        ...

    @property
    def metrics(self) -> Any:
        """An attrs object with plain integers."""
        ...


class MeasuredCluster(Protocol):
    """The part of :class:`logbus.client.Cluster` that is measured."""

    @property
    def metrics(self) -> ClusterMetrics:
        """Counts of connections and requests."""
        ...


class MeasuredConsumer(Protocol):
    """The part of :class:`logbus.client.Consumer` that is measured."""

    def lag(self) -> dict[TopicPartition, int | None]:
        """Offsets to the end, by partition; None: not known yet."""
        ...


@define(eq=False)
class ConsumerCounts(ConsumerInterceptor):
    """
    Counts records of a consumer; pass it to the consumer as an interceptor.

    :ivar records: delivered records.
    :ivar batches: deliveries.
    :ivar commits: of offsets.
    """

    records: int = counter("Records that were delivered.")
    batches: int = counter("Deliveries of records.")
    commits: int = counter("Commits of offsets.")

    def on_consume(self, records: Sequence[ConsumerRecord[Any, Any]]) -> None:
        """Count delivered records."""
        self.records += len(records)
        self.batches += 1

    def on_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Count a commit."""
        self.commits += 1


@define(eq=False)
class ClientMetrics:
    """
    The metrics of a process's clients.

    :ivar registry: the source of :meth:`text`; the application may add its own metrics.
    """

    registry: Registry = field(factory=Registry)
    _clusters: dict[str, MeasuredCluster] = field(factory=dict, init=False)
    _producers: dict[str, MeasuredProducer] = field(factory=dict, init=False)
    _consumers: dict[str, tuple[MeasuredConsumer, ConsumerCounts | None]] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.registry.add_source(self._families)

    def add_cluster(self, name: str, cluster: MeasuredCluster) -> None:
        """
        Add a cluster: its connections, and the latency of requests.

        :param name: the label ``client``.
        :raise ValueError: another cluster has this name.
        """
        if name in self._clusters:
            raise ValueError(f"there is a cluster {name!r} already")
        self._clusters[name] = cluster

    def add_producer(self, name: str, producer: MeasuredProducer) -> None:
        """
        Add a producer.

        :param name: the label ``client``.
        :raise ValueError: another producer has this name.
        """
        if name in self._producers:
            raise ValueError(f"there is a producer {name!r} already")
        self._producers[name] = producer

    def add_consumer(self, name: str, consumer: MeasuredConsumer, counts: ConsumerCounts | None = None) -> None:
        """
        Add a consumer.

        :param name: the label ``client``.
        :param counts: the interceptor that the consumer has; without it only the lag is included.
        :raise ValueError: another consumer has this name.
        """
        if name in self._consumers:
            raise ValueError(f"there is a consumer {name!r} already")
        self._consumers[name] = (consumer, counts)

    def remove(self, name: str) -> None:
        """Remove the clients of this name, if there are any."""
        self._clusters.pop(name, None)
        self._producers.pop(name, None)
        self._consumers.pop(name, None)

    def as_dict(self) -> dict[str, dict[str, dict[str, Any]]]:
        """
        All numbers, by kind (``cluster``, ``producer``, ``consumer``), client and name. A consumer's ``lag`` is a
        dictionary by partition, such as ``orders-0``; a cluster's ``requests`` is one by API, such as ``Produce``, of
        their ``count`` and the ``seconds`` that they took together.
        """
        return {
            "cluster": {
                name: {
                    **{each: getattr(cluster.metrics, each) for each in _CONNECTIONS},
                    "requests": {
                        api: {"count": latency.count, "seconds": latency.sum}
                        for api, latency in sorted(cluster.metrics.latencies.items())
                    },
                }
                for name, cluster in self._clusters.items()
            },
            "producer": {
                name: {**_numbers(each.metrics, ProducerMetrics), "buffered": each.buffered}
                for name, each in self._producers.items()
            },
            "consumer": {
                name: {
                    **({} if counts is None else _numbers(counts, ConsumerCounts)),
                    "lag": {str(partition): lag for partition, lag in consumer.lag().items() if lag is not None},
                }
                for name, (consumer, counts) in self._consumers.items()
            },
        }

    def text(self, *, openmetrics: bool = False) -> bytes:
        """The registry in Prometheus's text format 0.0.4, or OpenMetrics 1.0.0."""
        return b"".join(render(self.registry.collect(), openmetrics))

    def _families(self) -> Iterable[Family]:
        found = self.as_dict()
        for kind, counts in (("producer", ProducerMetrics), ("consumer", ConsumerCounts)):
            for each in fields(counts):
                name, help = f"logbus_client_{kind}_{each.name}_total", each.metadata["help"]
                yield _family(name, help, "counter", _samples(found[kind], each.name))
        buffered = _samples(found["producer"], "buffered")
        yield _family("logbus_client_producer_buffered_bytes", "Bytes that wait to be sent.", "gauge", buffered)
        for number, help in _CONNECTIONS.items():
            kind = "gauge" if number == "connections" else "counter"
            name = f"logbus_client_{number}" + ("" if kind == "gauge" else "_total")
            yield _family(name, help, kind, _samples(found["cluster"], number))
        yield Family(
            "logbus_client_request_seconds", "Seconds from a request to its response.", "histogram", self._latencies()
        )
        # One series for each partition; few, since these are of one process.
        lags: list[tuple[_Labels, float]] = [
            ((("client", name), ("topic", each.topic), ("partition", str(each.partition))), lag)
            for name, (consumer, _) in self._consumers.items()
            for each, lag in consumer.lag().items()
            if lag is not None
        ]
        yield _family("logbus_client_consumer_lag", "Offsets from the position to the end.", "gauge", lags)

    def _latencies(self) -> Iterator[Sample]:
        for name, cluster in self._clusters.items():
            for api, latency in sorted(cluster.metrics.latencies.items()):
                labels = ("client", name), ("api", api)
                yield from histogram_samples("logbus_client_request_seconds", labels, latency)


_CONNECTIONS = {
    "connections": "Open connections to brokers.",
    "connects": "Connections that were made.",
    "failed_connects": "Connections that could not be made.",
}
_Labels = tuple[tuple[str, str], ...]


def _numbers(counted: Any, known: type[AttrsInstance]) -> dict[str, int]:
    return {name: value for name, value in asdict(counted, recurse=False).items() if name in fields_dict(known)}


def _samples(clients: Mapping[str, Mapping[str, Any]], number: str) -> list[tuple[_Labels, float]]:
    return [((("client", name),), numbers[number]) for name, numbers in clients.items() if number in numbers]


def _family(name: str, help: str, kind: str, samples: list[tuple[_Labels, float]]) -> Family:
    def each() -> Iterator[Sample]:
        return (Sample(name, labels, value) for labels, value in samples)

    return Family(name, help, kind, each())
