"""A real HDFS of one namenode and one datanode, from the jars of Hadoop's own tests."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pyspark
from attrs import define, field

from benchmarks.compare.jars import hdfs_jars

_SECONDS = 240.0
_LOOK = 0.1
_NEEDED = ("hadoop-client-*", "slf4j-api-*", "log4j-*", "commons-logging-*", "commons-cli-*", "jcl-over-slf4j-*")
SMALL_JAVA = ["java", "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


def hadoop_version() -> str:
    """Of the client that Spark has."""
    (client,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    return client.stem.rpartition("-")[2]


def hadoop_jars(cache: Path) -> list[Path]:
    """
    Those of Hadoop's servers, and what they need of Spark's.

    :raise RuntimeError: they cannot be fetched.
    """
    spark = Path(pyspark.__file__).parent / "jars"
    servers = hdfs_jars(hadoop_version(), cache)
    return [*servers.glob("*.jar"), *(jar for name in _NEEDED for jar in spark.glob(name))]


@define(eq=False)
class HdfsServer:
    """
    Started in a directory of its own; a context manager.

    :ivar url: ``hdfs://127.0.0.1:PORT``.
    :raise RuntimeError: its jars cannot be fetched.
    """

    cache: Path
    url: str = ""
    _directory: Path = field(factory=lambda: Path(tempfile.mkdtemp(prefix="logbus-hdfs-")))
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> HdfsServer:
        details = self._directory / "details"
        command = [*SMALL_JAVA, f"-Dtest.build.data={self._directory}", f"-Dhadoop.log.dir={self._directory}"]
        command += ["-cp", ":".join(map(str, hadoop_jars(self.cache)))]
        command += ["org.apache.hadoop.test.MiniDFSClusterManager"]
        command += ["-format", "-datanodes", "1", "-nnport", "0", "-writeDetails", str(details)]
        log = self._directory / "log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        deadline = time.monotonic() + _SECONDS
        while not (details.exists() and details.read_text().endswith("}")):
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = log.read_text()[-2000:]
                self.__exit__()
                raise AssertionError(f"HDFS has not started: {said}")
            time.sleep(_LOOK)
        self.url = f"hdfs://127.0.0.1:{json.loads(details.read_text())['namenode_port']}"
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)
