"""Tests loads on a real YARN with HDFS, by a Python that comes as an archive: in client and in cluster mode."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
import pyspark
from attrs import frozen

from logbus.testing import Broker
from tests.pipeline.conftest import CACHE
from tests.pipeline.delta_rows import delta_rows
from tests.pipeline.hdfs_server import HdfsServer
from tests.pipeline.load_fixtures import fill, make
from tests.pipeline.standalone import kill
from tests.pipeline.yarn_server import YarnServer

pytestmark = [pytest.mark.long, pytest.mark.spark]
SECONDS = 400.0
COUNT = 600
_SPARK = Path(pyspark.__file__).parent
_SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
SETTINGS = {
    # Otherwise each job uploads all of Spark.
    "spark.yarn.jars": f"local:{_SPARK}/jars/*",
    "spark.driver.memory": "600m",
    "spark.executor.memory": "500m",
    "spark.executor.instances": "2",
    "spark.driver.extraJavaOptions": _SMALL,
    "spark.executor.extraJavaOptions": _SMALL,
    "spark.yarn.am.memory": "300m",
    "spark.ui.enabled": "false",
}


@frozen
class Yarn:
    """
    A YARN and its clients.

    :ivar hdfs: the URL of its file system.
    :ivar directory: where clients start jobs; the archive ``environment.tar.gz`` is in it, and unpacked as ``env``.
    """

    server: YarnServer
    hdfs: str
    directory: Path

    def environ(self, **more: str) -> Mapping[str, str]:
        """Of a client."""
        known = {"HADOOP_CONF_DIR": str(self.server.conf), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(_SPARK)}
        return {**os.environ, **known, **more}

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """What a client has to say, when it has ended."""
        return subprocess.run(
            command,
            cwd=self.directory,
            env=self.environ(**more),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def submit(self, broker: Broker, topic: str, *arguments: str) -> Sequence[str]:
        """The command line of a load in cluster mode."""
        given = {**SETTINGS, "spark.yarn.appMasterEnv.PYSPARK_PYTHON": "./env/bin/python"}
        conf = [part for name, value in given.items() for part in ("--conf", f"{name}={value}")]
        command = [str(_SPARK / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", "cluster", *conf]
        command += ["--archives", "environment.tar.gz#env"]
        command += [logbus("pipeline", "script").stdout.strip(), "load", topic, "--bootstrap", broker.bootstrap]
        return [*command, *arguments]


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """With HDFS beside it."""
    directory = tmp_path_factory.mktemp("yarn")
    # The real one has a whole environment; this is what Spark sees of it.
    python = directory / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with tarfile.open(directory / "environment.tar.gz", "w:gz") as archive:
        archive.add(python, "bin/python")
    with ExitStack() as stack:
        try:
            hdfs = stack.enter_context(HdfsServer(CACHE)).url
            server = stack.enter_context(YarnServer(CACHE, hdfs))
        except RuntimeError as e:
            pytest.skip(f"Hadoop's servers are not there: {e}")
        yield Yarn(server, hdfs, directory)


def logbus(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that needs no cluster."""
    command = [str(Path(sys.executable).with_name("logbus")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)


def _fill(broker: Broker) -> str:
    topic = make(broker, 2)
    for partition in range(2):
        fill(broker, topic, [b'{"e": %d}' % (2 * each + partition) for each in range(COUNT // 2)], partition)
    return topic


def test_client_mode(yarn: Yarn, broker: Broker) -> None:
    """The driver is here, the workers in containers; the table is on HDFS, and a second load finds nothing to do."""
    topic = _fill(broker)
    given = {**SETTINGS, "spark.yarn.dist.archives": "environment.tar.gz#env"}
    command = [str(Path(sys.executable).with_name("logbus")), "pipeline", "load", topic, "--quiet"]
    command += ["--bootstrap", broker.bootstrap, "--table", "/lake/client", "--payload", "json", "--schema", "e INT"]
    command += ["--master", "yarn", *(part for one in given.items() for part in ("--spark", "=".join(one)))]
    for wanted in (COUNT, 0):
        done = yarn.run(*command, PYSPARK_PYTHON="./env/bin/python")
        assert done.returncode == 0, done.stderr + yarn.server.logs()
        report = json.loads(done.stdout)
        assert (report["records"], report["quarantined"]) == (wanted, 0)
        assert report["table"] == f"{yarn.hdfs}/lake/client"


def test_cluster_mode(yarn: Yarn, broker: Broker, tmp_path: Path) -> None:
    """The driver is in a container, too. When that is killed YARN starts another; each record is in the table once."""
    topic = _fill(broker)
    table = tmp_path / "delta"
    command = yarn.submit(
        broker, topic, "--table", table.as_uri(), "--format", "delta", "--payload", "json", "--schema", "e INT",
        "--batch-offsets", "60",
    )  # fmt: skip
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            command, cwd=yarn.directory, env=yarn.environ(), stdout=said, stderr=subprocess.STDOUT
        )
        try:
            deadline = time.monotonic() + SECONDS
            while len(list(table.glob("_delta_log/*.json"))) < 3:
                assert process.poll() is None and time.monotonic() < deadline, yarn.server.logs()
                time.sleep(0.05)
            (master,) = _application_masters()
            kill(master)
            status = process.wait(SECONDS)
        finally:
            process.kill()
            process.wait()
    logs = yarn.server.logs()
    assert status == 0, (tmp_path / "said").read_text() + logs
    found = delta_rows(table, "e")["e"].to_pylist()
    assert sorted(found) == list(range(COUNT))
    assert len(re.findall(r"load: starts Spark", logs)) == 2, logs


def test_failed_job(yarn: Yarn, broker: Broker) -> None:
    """A job that fails in cluster mode ends spark-submit with an error, and its reason is in the container's log."""
    done = yarn.run(*yarn.submit(broker, "no-such-topic", "--table", "/lake/none"))
    assert done.returncode != 0
    assert "there is no topic 'no-such-topic'" in yarn.server.logs(), yarn.server.logs()


def _application_masters() -> list[int]:
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            words = (each / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"org.apache.spark.deploy.yarn.ApplicationMaster" in words and words[0].endswith(b"java"):
            found.append(int(each.name))
    return found
