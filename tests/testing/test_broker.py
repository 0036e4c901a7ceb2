"""The test kit's broker: on free ports, isolated, without leftovers."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import tempfile
import threading
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from logbus.testing import Broker, BrokerFailed
from logbus.testing.waiting import WaitTimedOut

SECONDS = 120


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


@pytest.mark.parametrize("in_process", [True, False])
def test_users(in_process: bool) -> None:
    """Users log in with any password that they have, and nobody with another."""
    password = 'a"b\\\\c; d='
    with Broker(users={"alice": password, "bob": "x"}, in_process=in_process) as broker:

        def nodes(user: str, guess: str) -> int:
            login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
            login |= {"sasl.username": user, "sasl.password": guess}
            errors: list[KafkaError] = []
            admin = AdminClient({"bootstrap.servers": broker.bootstrap, "error_cb": errors.append, **login})
            while not errors:
                with contextlib.suppress(KafkaException):
                    return len(admin.list_topics(timeout=1).brokers)
                admin.poll(0)
            assert errors[0].code() == KafkaError._AUTHENTICATION
            return 0

        assert [nodes("alice", password), nodes("bob", "x"), nodes("alice", "x")] == [1, 1, 0]


def test_brokers_are_independent() -> None:
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


def test_wait_for_a_line() -> None:
    """A line of the log is waited for, while the broker starts, too; if none comes, the last lines are shown."""
    with closing(Broker({"zookeeper.connect": "127.0.0.1:1/x"}, in_process=False)) as broker:
        broker.launch()
        line = broker.wait_logged("waiting for ZooKeeper", timeout=60)
        assert "127.0.0.1:1/x" in line
        mark = broker.log_mark
        with pytest.raises(
            WaitTimedOut, match=r"(?s)a line with 'no such words' .* within 0.01 s; it ends:\n.*waiting for"
        ):
            broker.wait_logged("no such words", since=mark, timeout=0.01)
        broker.stop()
    with Broker({"num.partitions": 1}) as broker:
        assert broker.wait_logged(" ready: ", timeout=60) in broker.log_lines()


@pytest.mark.parametrize("in_process", [True, False])
def test_start_that_fails(in_process: bool) -> None:
    """The error has the broker's own words, and nothing stays behind."""
    threads = set(threading.enumerate())
    broker = Broker({"num.partitions": "many"}, in_process=in_process)
    with pytest.raises(BrokerFailed, match=r"num\.partitions: 'many' is not valid") as failed, broker:
        pass
    assert str(failed.value).startswith("the broker did not start: ")
    assert "\n" not in str(failed.value)
    assert not broker.running
    assert not broker.data_dir.exists()
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize("in_process", [True, False])
def test_unenforced_security(in_process: bool) -> None:
    """A test that asks for what is not enforced does not pass because of that."""
    broker = Broker({"zookeeper.set.acl": "true"}, in_process=in_process)
    with pytest.raises(BrokerFailed, match=r"zookeeper\.set\.acl=true needs zookeeper\.connect"), broker:
        pass


def temporary_directories() -> set[Path]:
    """What is in the temporary folder."""
    return set(Path(tempfile.gettempdir()).glob("logbus-*"))


@pytest.fixture
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of one's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_setting_types() -> None:
    """Numbers and bools are settings, as texts are; what cannot be one is named, before anything is made."""
    config = {"num.partitions": 3, "auto.create.topics.enable": False, "log.cleaner.io.max.bytes.per.second": 1.5}
    broker = Broker({**config, "advertised.listeners": ["A://a:1", "B://b:2"]})
    broker.close()
    assert broker.config["num.partitions"] == "3"
    assert broker.config["auto.create.topics.enable"] == "false"
    assert broker.config["log.cleaner.io.max.bytes.per.second"] == "1.5"
    assert broker.config["advertised.listeners"] == "A://a:1,B://b:2"
    before = temporary_directories()
    with pytest.raises(TypeError, match=r"config: num\.partitions: None is not a text, a number, a bool, a timedelta"):
        Broker({"num.partitions": None})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"config: num\.partitions: b'3' is not a text"):
        Broker({"num.partitions": b"3"})  # type: ignore[dict-item]
    assert temporary_directories() == before


def test_numbers_reach_the_broker() -> None:
    """A setting that is changed between two starts may be a number, too."""
    broker = Broker({"num.partitions": 2, "auto.create.topics.enable": True})
    with broker:
        broker.config["num.partitions"] = 3
        broker.restart()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("three", -1, 1)])["three"].result(SECONDS)
        assert len(admin.list_topics(timeout=SECONDS).topics["three"].partitions) == 3


@pytest.mark.parametrize("in_process", [True, False])
def test_no_time_to_start(in_process: bool, temporary_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A broker that was not ready in time is ended: no thread, no directory, no error that nobody handles."""
    threads = set(threading.enumerate())
    broker = Broker(timeout=0.001, in_process=in_process)
    with pytest.raises(BrokerFailed, match=r"the broker was not ready after 0\.001 s"), broker:
        pass
    del broker
    gc.collect()
    assert list(temporary_folder.glob("logbus-*")) == []
    assert set(threading.enumerate()) <= threads
    said = capfd.readouterr()
    assert "Unhandled" not in said.out + said.err


def test_no_time_to_stop(temporary_folder: Path) -> None:
    """A broker that did not stop in time fails the test, and is gone nevertheless."""
    threads = set(threading.enumerate())
    broker = Broker().start()
    broker.timeout = 0.0001
    with pytest.raises(BrokerFailed, match=r"the broker had not stopped after 0\.0001 s"):
        broker.close()
    assert list(temporary_folder.glob("logbus-*")) == []
    assert set(threading.enumerate()) <= threads


def test_failed_start_leaves_nothing(temporary_folder: Path) -> None:
    """Who never gets a broker has none to close: its directory goes when the start fails."""
    with pytest.raises(BrokerFailed) as failed:
        Broker({"num.partitions": "many"}).start()
    assert failed.value.__suppress_context__
    assert list(temporary_folder.glob("logbus-*")) == []


@pytest.mark.parametrize("made", ["Broker()", "Broker().start()", "Broker(in_process=False).start()"])
def test_unclosed_broker(made: str, tmp_path: Path) -> None:
    """What a program forgets to close is gone when it ends, processes included."""
    program = f"from logbus.testing import Broker\nb = {made}\nif not b.in_process: print(b.pid)\n"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []
    if done.stdout:
        with pytest.raises(ProcessLookupError):
            os.kill(int(done.stdout), 0)


def test_started_twice() -> None:
    """A running broker is not started over itself."""
    with Broker() as broker:
        with pytest.raises(BrokerFailed, match="already running"):
            broker.start()
        assert topics(broker) == []
    broker.stop()
