"""The test kit's broker: on free ports, isolated, leaving nothing behind."""

from __future__ import annotations

import threading
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from logbus.testing import Broker, BrokerFailed

SECONDS = 20


def topics(broker: Broker) -> list[str]:
    """The names of all topics."""
    return sorted(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=SECONDS).topics)


def create(broker: Broker, name: str) -> None:
    """Create a topic."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS)


@pytest.mark.parametrize("in_process", [True, False])
def test_serves_and_cleans_up(in_process: bool) -> None:
    """Both kinds serve Kafka and HTTP, and leave no file and no thread."""
    threads = set(threading.enumerate())
    with Broker(in_process=in_process) as broker:
        assert broker.running
        assert broker.bootstrap.startswith("127.0.0.1:")
        assert topics(broker) == []
        with urllib.request.urlopen(f"{broker.admin_url}/readyz", timeout=SECONDS) as answer:
            assert answer.status == 200
        directory = broker.data_dir
        assert (directory / "meta.properties").exists()
    assert not directory.exists()
    assert not broker.running
    assert set(threading.enumerate()) <= threads


def test_brokers_know_nothing_of_each_other() -> None:
    """Two brokers in one process have ports, data and clusters of their own."""
    with Broker() as one, Broker() as other:
        assert one.bootstrap != other.bootstrap
        create(one, "mine")
        assert (topics(one), topics(other)) == (["mine"], [])


@pytest.mark.parametrize("in_process", [True, False])
def test_restart(tmp_path: Path, in_process: bool) -> None:
    """A restart keeps ports and data; a data directory that was given stays."""
    with Broker({"num.partitions": "3"}, data_dir=tmp_path / "data", in_process=in_process) as broker:
        create(broker, "kept")
        before = broker.bootstrap
        broker.restart()
        assert broker.bootstrap == before
        assert topics(broker) == ["kept"]
    assert (tmp_path / "data" / "kept-0").is_dir()


def test_kill(tmp_path: Path) -> None:
    """A subprocess can be killed, and starts again; a broker in this process cannot be, and says so."""
    with Broker(data_dir=tmp_path / "data", in_process=False) as broker:
        create(broker, "kept")
        broker.kill()
        assert not broker.running
        assert not (tmp_path / "data" / ".logbus_cleanshutdown").exists()
        broker.start()
        assert topics(broker) == ["kept"]
    with Broker() as broker:
        with pytest.raises(BrokerFailed, match="in_process=False"):
            broker.kill()
        assert topics(broker) == []


@pytest.mark.parametrize("in_process", [True, False])
def test_start_that_fails(in_process: bool) -> None:
    """The error has the broker's own words, and nothing stays behind."""
    threads = set(threading.enumerate())
    broker = Broker({"num.partitions": "many"}, in_process=in_process)
    with pytest.raises(BrokerFailed, match=r"num\.partitions: 'many' is not valid"), broker:
        pass
    assert not broker.running
    assert not broker.data_dir.exists()
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize("in_process", [True, False])
def test_security_that_is_not_enforced(in_process: bool) -> None:
    """A test that asks for an authorizer does not pass because there is none."""
    broker = Broker({"super.users": "User:me"}, in_process=in_process)
    with pytest.raises(BrokerFailed, match=r"super\.users: this version does not enforce it"), broker:
        pass


def test_started_twice() -> None:
    """A running broker is not started over itself."""
    with Broker() as broker:
        with pytest.raises(BrokerFailed, match="already running"):
            broker.start()
        assert topics(broker) == []
    broker.stop()
