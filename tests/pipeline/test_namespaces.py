"""Tests a load by a Spark whose driver, workers and broker are on hosts of their own: network namespaces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from tests.pipeline.delta_rows import delta_rows
from tests.pipeline.standalone import MASTER, SECONDS, SETTINGS, WORKER, Part

pytestmark = [pytest.mark.long, pytest.mark.spark]
NETWORK = "10.213.7"
HOSTS = {"broker": f"{NETWORK}.2", "driver": f"{NETWORK}.3", "worker-1": f"{NETWORK}.4", "worker-2": f"{NETWORK}.5"}
NOBODY = f"{NETWORK}.99"
RECORDS = 2000


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def _name(host: str) -> str:
    return f"logbus-{os.getpid()}-{host}"


def within(host: str) -> list[str]:
    """What runs a command on a host."""
    return ["ip", "netns", "exec", _name(host)]


@pytest.fixture(scope="module")
def hosts() -> Iterator[None]:
    """Hosts on a switch, which is in a namespace of its own: nothing else can be reached from them."""
    with ExitStack() as stack:
        try:
            for each in ("switch", *HOSTS):
                _ip("netns", "add", _name(each))
                stack.callback(_ip, "netns", "delete", _name(each))
                _ip("-n", _name(each), "link", "set", "lo", "up")
            switch = _name("switch")
            _ip("-n", switch, "link", "add", "br0", "type", "bridge")
            _ip("-n", switch, "link", "set", "br0", "up")
            for number, (host, address) in enumerate(HOSTS.items()):
                port = f"port{number}"
                peer = ("peer", "name", "eth0", "netns", _name(host))
                _ip("-n", switch, "link", "add", port, "type", "veth", *peer)
                _ip("-n", switch, "link", "set", port, "master", "br0", "up")
                _ip("-n", _name(host), "address", "add", f"{address}/24", "dev", "eth0")
                _ip("-n", _name(host), "link", "set", "eth0", "up")
        except (FileNotFoundError, RuntimeError) as e:
            pytest.skip(f"there can be no network namespaces: {e}")
        yield


class _Broker:
    """A broker on the host ``broker``; a context manager."""

    def __init__(self, directory: Path, advertised: str) -> None:
        self._command = [*within("broker"), str(Path(sys.executable).with_name("twistd")), "-n", "--pidfile="]
        self._command += ["logbus", "-d", str(directory), "-l", f"kafka=kafka:tcp:9092:interface={HOSTS['broker']}"]
        self._command += ["-l", "admin=admin:tcp:8080:interface=127.0.0.1", "--advertise", f"kafka={advertised}:9092"]

    def __enter__(self) -> _Broker:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        assert self._process.stdout is not None
        said = []
        for line in self._process.stdout:
            said.append(line)
            if "ready" in line:
                break
        else:
            raise AssertionError("".join(said))
        self._reader = threading.Thread(target=self._process.stdout.read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()


def logbus(*arguments: str, given: str = "", host: str = "driver") -> subprocess.CompletedProcess[str]:
    """A command on a host."""
    environ = {
        **os.environ,
        "LOGBUS_BOOTSTRAP": f"{HOSTS['broker']}:9092",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOSTS["driver"],
    }
    command = [*within(host), str(Path(sys.executable).with_name("logbus")), *arguments]
    return subprocess.run(
        command, input=given, capture_output=True, text=True, env=environ, timeout=SECONDS, check=False
    )


@pytest.fixture(scope="module")
def master(hosts: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Spark with a master beside the driver, and two workers of a core each."""
    directory = str(tmp_path_factory.mktemp("spark"))
    parts: list[Part] = []

    def start(name: str, host: str, *arguments: str) -> Part:
        where = ("--host", HOSTS[host], "--port", "0", "--webui-port", "0")
        part = Part(name, *where, *arguments, directory=directory, host=HOSTS[host], within=within(host))
        parts.append(part)
        return part

    try:
        url = start("master.Master", "driver").wait_for(MASTER)[1]
        for host in ("worker-1", "worker-2"):
            room = ("--cores", "1", "--memory", "1g", "--work-dir", f"{directory}/{host}")
            start("worker.Worker", host, *room, url).wait_for(WORKER)
        yield url
    finally:
        for part in reversed(parts):
            part.kill()
        _end_all()


def _end_all() -> None:
    """End what is left in the namespaces, such as executors."""
    for host in HOSTS:
        listed = subprocess.run(["ip", "netns", "pids", _name(host)], capture_output=True, text=True, check=False)
        for pid in listed.stdout.split():
            subprocess.run(["kill", "-9", pid], capture_output=True, check=False)


def _settings() -> Sequence[str]:
    given = {**SETTINGS, "spark.driver.host": HOSTS["driver"], "spark.driver.bindAddress": HOSTS["driver"]}
    return [part for name, value in given.items() for part in ("--spark", f"{name}={value}")]


def test_load(master: str, tmp_path: Path) -> None:
    """Each worker reads from the broker, by the address that it advertises; each record is in the table once."""
    with _Broker(tmp_path / "data", HOSTS["broker"]):
        done = logbus("topics", "create", "views", "--partitions", "4")
        assert done.returncode == 0, done.stderr
        done = logbus("produce", "views", given="".join(json.dumps({"e": each}) + "\n" for each in range(RECORDS)))
        assert done.returncode == 0, done.stderr
        into = ("--table", str(tmp_path / "lake"), "--format", "delta", "--payload", "json", "--schema", "e INT")
        done = logbus("pipeline", "load", "views", *into, "--master", master, "--quiet", *_settings())
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert (report["records"], report["quarantined"]) == (RECORDS, 0)
    found = delta_rows(tmp_path / "lake", "e")["e"].to_pylist()
    assert sorted(found) == list(range(RECORDS))


def test_wrong_advertised_address(hosts: None, tmp_path: Path) -> None:
    """The load says so before Spark is started, with the address and what to look at, and ends."""
    with _Broker(tmp_path / "data", HOSTS["broker"]):
        assert logbus("topics", "create", "views").returncode == 0
    with _Broker(tmp_path / "data", NOBODY):
        into = ("--table", str(tmp_path / "lake"), "--kafka", "default.api.timeout.ms=8000")
        done = logbus("pipeline", "load", "views", *into)
    assert done.returncode == 1, done.stderr
    assert f"{NOBODY}:9092" in done.stderr
    assert "advertised.listeners" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "lake").exists()
