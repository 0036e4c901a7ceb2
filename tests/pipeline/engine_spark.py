"""
Spark with the clients that Delta Lake and Iceberg have for it, and Hadoop's connectors to object stores.

It is of a version that all of them take, in a virtual environment in a cache, and runs in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from attrs import define, field

from benchmarks.compare.jars import azure_jars, delta_spark_jars, gcs_jars, iceberg_spark_jars, only_one
from tests.pipeline.azure_server import ACCOUNT, KEY

VERSION = "4.1.4"
"""Of Spark: the newest one that Iceberg's client takes."""

_SETTINGS = {
    "spark.driver.memory": "700m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_SECONDS = 1800


def gcs_settings(address: str) -> dict[str, str]:
    """Settings by which Google's connector reads from an emulator."""
    return {
        "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
        "spark.hadoop.fs.gs.storage.root.url": f"{address}/",
        "spark.hadoop.fs.gs.auth.service.account.enable": "false",
        "spark.hadoop.fs.gs.auth.null.enable": "true",
        "spark.hadoop.fs.gs.project.id": "test",
    }


def azure_settings(address: str) -> dict[str, str]:
    """Settings by which Hadoop's connector reads from Azurite, which knows the protocol of blobs only."""
    hosts = (f"{ACCOUNT}.{service}.core.windows.net" for service in ("dfs", "blob"))
    return {
        **{f"spark.hadoop.fs.azure.account.key.{host}": KEY for host in hosts},
        "spark.hadoop.fs.azure.always.use.https": "false",
        "spark.hadoop.fs.azure.abfs.endpoint": address.partition("://")[2],
        "spark.hadoop.fs.azure.account.hns.enabled": "false",
        "spark.hadoop.fs.azure.fns.account.service.type": "BLOB",
    }


def rest_settings(port: int) -> dict[str, str]:
    """Settings of a catalog ``test`` that a REST server on this machine has."""
    return {
        "spark.sql.catalog.test": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.test.type": "rest",
        "spark.sql.catalog.test.uri": f"http://127.0.0.1:{port}",
        "spark.sql.catalog.test.cache-enabled": "false",
    }


def sqlite_settings(directory: Path, warehouse: str) -> dict[str, str]:
    """Settings of a catalog ``test`` that PyIceberg has in a file of SQLite."""
    return {
        "spark.sql.catalog.test": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.test.type": "jdbc",
        "spark.sql.catalog.test.uri": f"jdbc:sqlite:{directory}/catalog.db",
        "spark.sql.catalog.test.warehouse": warehouse,
        "spark.sql.catalog.test.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        "spark.sql.catalog.test.cache-enabled": "false",
    }


@define(eq=False)
class EngineSpark:
    """
    Answers SQL; a context manager.

    :param settings: of Spark, beside those that all need.
    :raise RuntimeError: something cannot be fetched.
    """

    settings: Mapping[str, str]
    cache: Path
    _process: subprocess.Popen[str] = field(init=False)
    _log: IO[str] = field(init=False)

    def __enter__(self) -> EngineSpark:
        python = _fetched(self.cache)
        there = [delta_spark_jars(self.cache), iceberg_spark_jars(self.cache), azure_jars(self.cache)]
        jars = [*gcs_jars(self.cache), *(each for home in there for each in home.glob("*.jar"))]
        settings = {**_SETTINGS, **self.settings, "spark.jars": ",".join(map(str, jars))}
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [str(python), str(Path(__file__).with_name("engine_reader.py")), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.read()
        self._process.wait()
        self._log.close()

    def ask(self, statement: str) -> list[Any]:
        """The rows of the answer; one that is there has been waited for."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            kind, _, text = line.partition(" ")
            if kind == "answer":
                found = json.loads(text)
                assert "error" not in found, f"{statement}: {found['error']}"
                return list(found["rows"])
        self._log.seek(0)
        raise AssertionError(f"Spark ended: {self._log.read()[-2000:]}")

    def column(self, statement: str) -> list[Any]:
        """The sorted values of the only column of the answer."""
        return sorted(value for (value,) in self.ask(statement))


def _fetched(cache: Path) -> Path:
    """Its Python."""
    home = cache / f"spark-{VERSION}"
    python = home / "bin" / "python"
    cache.mkdir(parents=True, exist_ok=True)
    with only_one(cache):
        if not (home / "complete").exists():
            venv.create(home, clear=True, with_pip=True)
            command = [str(python), "-m", "pip", "install", "-q", f"pyspark=={VERSION}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
            if done.returncode:
                raise RuntimeError(f"pip could not fetch Spark: {done.stderr[-500:]}")
            (home / "complete").touch()
    return python
