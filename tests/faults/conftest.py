"""The cluster that fault tests share, and the final checks of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from logbus.testing.cluster import Cluster
from tests.faults.nemesis import Nemesis
from tests.faults.partition_logs import wait_same
from tests.faults.traffic import Traffic, create

FAULTY_CONFIG = {"zookeeper.session.timeout.ms": "2000", "replica.lag.time.max.ms": "2000"}

USUAL = re.compile("ing factory|ApiVersionsHandlers")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Servers are killed here while clients go on."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Three brokers that miss each other after two seconds; every test leaves it whole."""
    with Cluster(config=FAULTY_CONFIG) as running:
        yield running


@pytest.fixture
def nemesis(cluster: Cluster) -> Nemesis:
    """Of this test alone: it counts."""
    return Nemesis(cluster)


@pytest.fixture(autouse=True)
def logs_of_brokers(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that fails shows what the brokers said."""
    yield
    if "cluster" in request.fixturenames:
        for broker in request.getfixturevalue("cluster").running:
            said = [
                line
                for line in broker.output.splitlines()
                if "ing factory" not in line and "ApiVersionsHandlers" not in line
            ]
            print(f"-- {broker}", *said, sep="\n")


@contextmanager
def load(cluster: Cluster, *, at_least: int, partitions: int = 1, **config: str) -> Iterator[Traffic]:
    """
    Traffic on a new topic while the body runs; then everything is compared.

    :param at_least: records that must have been acknowledged in the end, or little was tried.
    """
    topic = f"load-{uuid4().hex[:8]}"
    create(cluster, topic, partitions, **config)
    with Traffic(cluster, topic, partitions) as traffic:
        try:
            yield traffic
        except BaseException:
            print(
                f"after {traffic.acknowledged} records:",
                *(cluster.state(topic, n) for n in range(partitions)),
                sep="\n",
            )
            raise
        cluster.wait_in_sync(topic)
        traffic.more(200)
        traffic.finish()
    assert traffic.anomalies() == []
    assert wait_same(cluster, topic, partitions) == []
    assert traffic.acknowledged >= at_least
