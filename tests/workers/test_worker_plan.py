"""What workers are: numbers, directories, ports."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.ilogbus import Listener
from logbus.workers.left_over import refuse_left_over
from logbus.workers.worker_plan import WorkerPlan, address, own_ports, plan_workers

KAFKA = Listener("kafka", "kafka", "tcp:9092:interface=127.0.0.1")
ADMIN = Listener("admin", "admin", "tcp:8080:interface=127.0.0.1")


def planned(settings: dict[str, str], listeners: list[Listener], **more: object) -> list[WorkerPlan]:
    options = {"host_name": "here", "socket": "/data/metadata.sock", **more}
    own = own_ports(listeners, 2)
    return plan_workers(ConfigView.load(set=settings), listeners, 2, own, **options)  # type: ignore[arg-type]


def test_a_machine() -> None:
    """The first has the directories themselves; both share the ports, and have some of their own."""
    first, second = planned({"log.dirs": "/a,/b", "broker.id": "5", "num.partitions": "3"}, [KAFKA, ADMIN])
    assert first.settings["log.dirs"] == "/a,/b"
    assert second.settings["log.dirs"] == "/a/workers/1,/b/workers/1"
    assert [plan.settings["broker.id"] for plan in (first, second)] == ["5", "6"]
    assert second.settings["num.partitions"] == "3"
    assert "workers" not in ConfigView.load(set=second.settings).static
    own, shared, http = second.listeners
    assert (own.endpoint, own.reuse_port, own.shared) == ("tcp:9094:interface=127.0.0.1", True, False)
    assert (shared, http) == (evolve(KAFKA, shared=True), evolve(ADMIN, shared=True))


def test_replicas() -> None:
    """Another replica on the same disks is of no use; those of a cluster are on other machines first."""
    assert planned({}, [KAFKA])[0].settings["offsets.topic.replication.factor"] == "1"
    kept = planned({"offsets.topic.replication.factor": "2"}, [KAFKA])[0].settings
    assert kept["offsets.topic.replication.factor"] == "2"
    cluster = planned({"zookeeper.connect": "localhost:2181"}, [KAFKA], socket=None)[0].settings
    assert cluster["broker.rack"] == "here"
    assert "offsets.topic.replication.factor" not in cluster
    racked = planned({"zookeeper.connect": "localhost:2181", "broker.rack": "r1"}, [KAFKA], socket=None)[0].settings
    assert racked["broker.rack"] == "r1"


def test_advertised_ports() -> None:
    """They are in the order of the ports that are listened on."""
    listener = evolve(KAFKA, advertised=("log.example.org", 19092))
    own = [plan.listeners[0].advertised for plan in planned({}, [listener])]
    assert own == [("log.example.org", 19093), ("log.example.org", 19094)]


def test_plans_are_sent() -> None:
    """They come back as they were."""
    listener = evolve(KAFKA, advertised=("log.example.org", 19092), security_protocol="SASL_SSL")
    for plan in planned({"broker.rack": "r"}, [listener, ADMIN], release="3.9"):
        assert WorkerPlan.decode(plan.encode()) == plan


@given(st.lists(st.integers(1, 65535), min_size=1, max_size=4, unique=True), st.integers(1, 64))
def test_ports(shared: list[int], count: int) -> None:
    """No port is given twice, and each worker has one of each listener, or there are none left."""
    listeners = [Listener(f"l{number}", "kafka", f"tcp:{port}") for number, port in enumerate(shared)]
    try:
        found = own_ports(listeners, count)
    except ConfigError:
        assert max(shared) > 65535 - 4 * 64 - len(shared)
        return
    every = shared + [port for ports in found.values() for port in ports]
    assert len(set(every)) == len(every) == len(shared) * (count + 1)
    assert max(every) <= 65535


def test_free_ports() -> None:
    """Port 0 is any free one, for each worker."""
    assert own_ports([Listener("kafka", "kafka", "tcp:0"), ADMIN], 2) == {"kafka": [0, 0]}
    assert own_ports([KAFKA, ADMIN], 2, 0) == {"kafka": [0, 0]}


def test_ports_of_choice() -> None:
    """They may begin anywhere."""
    other = Listener("more", "kafka", "tcp:20001")
    assert own_ports([KAFKA, other, ADMIN], 2, 20000) == {"kafka": [20000, 20002], "more": [20003, 20004]}
    assert own_ports([KAFKA], 2, 1) == {"kafka": [1, 2]}


@pytest.mark.parametrize(
    ("port", "first", "words"),
    [
        (65535, -1, "listener kafka: after 65535 there are no ports left for 2 workers; set workers.first.port to"),
        (9092, 65535, "from workers.first.port=65535 on there are no ports left for 2 workers"),
    ],
)
def test_no_ports_left(port: int, first: int, words: str) -> None:
    """The error names the key, and what would be right."""
    with pytest.raises(ConfigError, match=words):
        own_ports([Listener("kafka", "kafka", f"tcp:{port}"), ADMIN], 2, first)


@pytest.mark.parametrize(
    ("endpoint", "interface", "port"),
    [
        ("tcp:9092", "", 9092),
        (r"tcp6:9092:interface=\:\:1", "::1", 9092),
        ("ssl:9093:interface=127.0.0.1:privateKey=/a", "127.0.0.1", 9093),
    ],
)
def test_addresses(endpoint: str, interface: str, port: int) -> None:
    """Of endpoints with ports."""
    assert address(Listener("kafka", "kafka", endpoint)) == (interface, port)


def test_no_port() -> None:
    """Others cannot be shared."""
    with pytest.raises(ConfigError, match="cannot be shared by workers"):
        address(Listener("kafka", "kafka", "unix:/tmp/socket"))


def test_left_over(tmp_path: Path) -> None:
    """The last worker with partitions is named."""
    home = tmp_path
    refuse_left_over([str(home), str(home / "missing")], 1)
    for name in ("1/a-0", "1/meta", "3/b-0", "3/c-1", "4", "x/d-0"):
        (home / "workers" / name).mkdir(parents=True)
    refuse_left_over([str(home)], 4)
    with pytest.raises(ConfigError, match=r"3 has 2 partitions of worker 3; start with workers=4"):
        refuse_left_over([str(home)], 1)


def test_left_over_and_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that cannot be looked at is named, unless its worker runs, and says so itself."""
    for name in ("1", "2"):
        (tmp_path / "workers" / name).mkdir(parents=True)
    listed = Path.iterdir

    def denied(path: Path) -> Iterator[Path]:
        if path.name == "2":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", denied)
    refuse_left_over([str(tmp_path)], 3)
    with pytest.raises(ConfigError, match=r"workers=2: .*/2, of worker 2, cannot be read: Permission denied"):
        refuse_left_over([str(tmp_path)], 2)
