"""
Fixtures: brokers and clusters for real clients.

``LOGBUS_TEST_WORKERS=2`` has a machine with two workers wherever a test asks for a broker, and processes and a
ZooKeeper wherever it asks for a cluster; what is about the one broker that there is has the mark ``one_broker``, and is
skipped then.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from logbus.testing import Broker, Cluster, LocalCluster
from tests.interop.clients import CLIENTS, Client
from tests.interop.java_client import Java

#: Members of groups are told soon what to do, and missed soon.
QUICK_GROUPS = {
    "group.min.session.timeout.ms": "500",
    # Longer than a busy machine keeps a member waiting; tests that wait for the end of one's session say so.
    "group.consumer.session.timeout.ms": "30000",
    "group.consumer.min.session.timeout.ms": "500",
    # librdkafka waits no longer for an answer to a heartbeat, and what was in one that it missed never reaches it.
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
}

#: Nobody looks for records that are too old: some are of 1970.
KEEPS_ALL = {"log.retention.check.interval.ms": "3600000"}

WORKERS = os.environ.get("LOGBUS_TEST_WORKERS", "1")
"""How many a broker has."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here drives the broker with a real client."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.interop)
            if WORKERS != "1" and item.get_closest_marker("one_broker"):
                item.add_marker(pytest.mark.skip(reason="it is about one broker"))


@pytest.fixture(scope="session", autouse=True)
def kcat_is_installed() -> None:
    """Say at once what is missing, rather than in each of a hundred failures."""
    if shutil.which("kcat") is None:
        pytest.exit("kcat is missing: apt-get install kcat", returncode=1)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One broker for all tests that use topics of their own and disturb nobody."""
    with Broker({**QUICK_GROUPS, **KEEPS_ALL, "workers": WORKERS}) as broker:
        yield broker


@pytest.fixture(scope="session")
def java() -> Iterator[Java]:
    """Kafka's own client, in one process for all tests."""
    with Java() as java:
        yield java


#: Where the brokers of a cluster are, by their ids: consumers may ask for a replica near them.
RACKS = ("east", "west", "north")


CLUSTER_CONFIG = {**QUICK_GROUPS, **KEEPS_ALL, "replica.selector.class": "rack-aware", "min.insync.replicas": "2"}


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Three brokers for all tests of a module; one that stops a broker starts it again."""
    if WORKERS != "1":
        # What tests do to it is the same.
        yield request.getfixturevalue("cluster_of_processes")
        return
    with LocalCluster(3, CLUSTER_CONFIG, racks=RACKS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster_of_processes() -> Iterator[Cluster]:
    """The same in processes of their own, with a ZooKeeper: for what a process has to itself, and how it dies."""
    with Cluster(3, CLUSTER_CONFIG, racks=RACKS) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return count()


@pytest.fixture
def topic(_numbers: Iterator[int]) -> str:
    """A name no other test uses; the topic comes into being with the first message."""
    return f"topic-{next(_numbers)}"


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    """Each client in turn."""
    found: Client = request.param
    return found


@pytest.fixture(params=CLIENTS[:3], ids=lambda client: client.name)
def library(request: pytest.FixtureRequest) -> Client:
    """Each client that is a library in turn: kcat takes a process for each message it writes."""
    found: Client = request.param
    return found


MakeBroker = Callable[..., Broker]


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[MakeBroker]:
    """Start brokers of the test's own: as subprocesses, which can be killed, in directories that stay as they are."""
    made: list[Broker] = []

    def make(config: dict[str, str] | None = None, *, in_process: bool = False) -> Broker:
        # Against one that hangs: on a busy machine a process may take long to start.
        home = tmp_path / f"broker-{len(made)}"
        settings = {"workers": WORKERS, **(config or {})}
        made.append(Broker(settings, data_dir=home, in_process=in_process, timeout=300))
        return made[-1].start()

    yield make
    for broker in made:
        broker.close()


SMALL_DISK_MB = 24


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with little space; to mount it needs root, or a sudo that asks for no password."""
    place = tmp_path / "disk"
    place.mkdir()
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    options = f"size={SMALL_DISK_MB}m,mode=0700,uid={os.getuid()},gid={os.getgid()}"
    try:
        mounted = subprocess.run(
            [*as_root, "mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True, check=False
        )
    except FileNotFoundError as e:
        pytest.skip(f"mounting a file system needs root: {e}")
    if mounted.returncode != 0:
        pytest.skip(f"mounting a file system needs root: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run([*as_root, "umount", str(place)], check=True)
