"""Tests what is checked with the brokers before Spark is started."""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logbus.cli.app import run_app
from logbus.errors import ApiError
from logbus.pipeline.errors import Disconnected, OptionError, PipelineError, Unreachable
from logbus.pipeline.jobs.broker_check import check_topics
from logbus.pipeline.jobs.streaming_query import QuerySettings
from logbus.pipeline.source.options import read_source_options
from logbus.testing import Broker
from logbus.testing.placement import Placement
from tests.pipeline.committed_messages import create_topic
from tests.pipeline.socket_cluster import SocketCluster

QUICK = {
    "kafka.retry.backoff.ms": "1",
    "kafka.retry.backoff.max.ms": "5",
    "kafka.default.api.timeout.ms": "100",
}


@pytest.fixture
def cluster() -> Iterator[SocketCluster]:
    """A topic of two partitions."""
    cluster = SocketCluster()
    cluster.add("orders", 1, 1)
    with cluster:
        yield cluster


def check(bootstrap: str, told: list[str], **given: Any) -> None:
    """Check the options of a batch."""
    more = {name: given.pop(name) for name in ("is_new", "must_match", "option") if name in given}
    patience = given.pop("patience", 100.0)
    options = {"kafka.bootstrap.servers": bootstrap, **QUICK, **given}
    check_topics(read_source_options(options, streaming=False), told.append, patience=patience, **more)


def test_what_is_there(cluster: SocketCluster) -> None:
    """Nothing is said of it."""
    told: list[str] = []
    starts, ends = '{"orders": {"0": -2, "1": 0}}', '{"orders": {"0": -1, "1": 0}}'
    check(cluster.bootstrap, told, subscribe="orders", startingOffsets=starts, endingOffsets=ends)
    check(cluster.bootstrap, told, subscribePattern="^none yet$")
    check(cluster.bootstrap, told, subscribe="gone", is_new=False)
    assert told == []


def test_what_is_missing(cluster: SocketCluster) -> None:
    """Of topics the nearest name is said, or those that there are."""

    def refused(words: str, kind: type[Exception] = ApiError, **given: Any) -> None:
        with pytest.raises(kind, match=words):
            check(cluster.bootstrap, [], **given)

    refused(r"there is no topic 'order', which is to be read; did you mean 'orders'\?$", subscribe="order")
    refused("there is no topic 'x', which is to be read; there are orders$", subscribe="x")
    for each in range(11):
        cluster.add(f"t{each:02}", 1)
    refused("'x', which is to be read; there are orders, t00, .*, t08, and 2 more$", subscribe="orders,x")
    more = "there are orders, t00, .*, t08, and 2 more$"
    for none in ("^none$", "^order$"):
        words = f"^no topic matches the pattern '{re.escape(none)}'; {more}"
        refused(words, PipelineError, subscribePattern=none, must_match=True)
    refused("there is no partition orders-2", assign='{"orders": [2]}')
    refused("orders-1 must be named, too", OptionError, subscribe="orders", startingOffsets='{"orders": {"0": 5}}')
    refused(
        "orders-2 is not there, or not to be read; name orders-0$",
        OptionError,
        assign='{"orders": [0]}',
        endingOffsets='{"orders": {"0": 5, "2": 5}}',
    )
    other = '{"order": {"0": 5, "1": 5}}'
    refused("order-0, order-1 is not .* name orders-0, orders-1$", OptionError, subscribe="orders", endingOffsets=other)
    cluster.topics.clear()
    refused("'x', which is to be read; there are no topics$", subscribe="x")


def test_silence() -> None:
    """A broker that does not answer is told of while it is still waited for."""
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"

        class Told(list[str]):
            def append(self, line: str) -> None:
                told.append(line)
                silent.close()  # Now it refuses connections, which ends the wait.

        with pytest.raises(Unreachable, match=f"no broker can be reached: {address}: "):
            limit = {"kafka.default.api.timeout.ms": "1000"}
            check(address, Told(), subscribe="x", patience=0.0625, option="--mirror-kafka", **limit)
    assert told == [
        f"no broker has answered for 0.0625 s at {address}; still trying for 0.9375 s "
        "(--mirror-kafka default.api.timeout.ms)"
    ]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (
            socket.gaierror(-2, "Name or service not known"),
            "the name nope cannot be resolved: Name or service not known",
        ),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
    ],
)
def test_the_reason(error: OSError, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that does not resolve, and a port where nobody listens, are told apart from a silent broker at once."""

    def refuse(address: tuple[str, int], timeout: float) -> None:
        raise error

    monkeypatch.setattr(socket, "create_connection", refuse)
    told: list[str] = []
    limit = {"kafka.default.api.timeout.ms": "1000"}
    with pytest.raises(Unreachable, match=f"no broker can be reached: nope:{error.errno % 1000}: {why}"):
        check(f"nope:{error.errno % 1000}", told, subscribe="x", patience=0.0625, **limit)
    (line,) = told
    assert line.startswith(f"no broker has answered for 0.0625 s at nope:{error.errno % 1000}: nope:")
    assert f": {why}; still trying for 0.9375 s" in line


def test_wrong_advertised_address() -> None:
    """It is told of with the address, and how long it is tried; the error names it, too."""
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as nobody, Broker() as broker:
        create_topic(broker.bootstrap, "orders", 1)
        wrong, bootstrap = f"127.0.0.1:{nobody.getsockname()[1]}", broker.bootstrap
        broker.stop()
        broker.placement = Placement(advertised=("127.0.0.1", nobody.getsockname()[1]))
        broker.start()

        class Told(list[str]):
            def append(self, line: str) -> None:
                told.append(line)
                nobody.close()  # Now it refuses connections, which ends the wait.

        given = {"kafka.default.api.timeout.ms": "2000", "kafka.request.timeout.ms": "60000"}
        with pytest.raises(Disconnected, match=wrong):
            check(bootstrap, Told(), subscribe="orders", patience=0.0625, **given)
    assert told == [
        f"{bootstrap} has answered that the brokers are at {wrong}, and from there no answer has come for 0.0625 s; "
        "still trying for 1.9375 s (--kafka default.api.timeout.ms); see the brokers' advertised.listeners"
    ]


@pytest.mark.parametrize(
    "job",
    [
        "load order --table t",
        "windows order --size '1 hour' --to-table t --checkpoint c",
        "windows orders --size '1 hour' --to-topic order --sink kafka.max.block.ms=0 --checkpoint c",
        "join orders order --on key=key --select key=l.key --to-table t --checkpoint c",
        "join orders order --table --on key=key --select key=l.key --to-table t --checkpoint c",
        "audit --topic order",
        "mirror-check order --mirror 127.0.0.1:1",
    ],
)
def test_commands(
    job: str,
    cluster: SocketCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A job with a mistyped topic starts no Spark, and leaves nothing behind."""

    def started(*_: object, **__: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr("logbus.pipeline.session.session", started)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    quick = [f"--kafka={name.removeprefix('kafka.')}={value}" for name, value in QUICK.items()]
    assert run_app(["pipeline", *shlex.split(job), "--bootstrap", cluster.bootstrap, *quick]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("logbus: ")
    assert "there is no topic 'order'" in said.err
    assert not list(tmp_path.iterdir())


def test_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Spark may find progress, topics may be gone that were read to their end."""
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    checkpoint = tmp_path / "c"
    for path in (str(checkpoint), f"file:{checkpoint}", f"file://{checkpoint}"):
        assert QuerySettings(path).is_new
    for path in ("hdfs://host/c", "hdfs:/c", "s3a://bucket/c"):
        assert not QuerySettings(path).is_new
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert not QuerySettings(str(checkpoint)).is_new
    monkeypatch.delenv("HADOOP_CONF_DIR")
    (checkpoint / "offsets").mkdir(parents=True)
    for path in (str(checkpoint), f"file:{checkpoint}", f"file://{checkpoint}"):
        assert not QuerySettings(path).is_new
