"""Fetches Apache Kafka's jars from Maven Central with ``mvn``, into a cache outside the checkout."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: The release compared with unless told otherwise.
KAFKA_VERSION = "4.3.1"

#: Of the clients of tables that Spark 4.1 takes, and of the connectors to object stores for its Hadoop.
DELTA_SPARK, ICEBERG_SPARK, HADOOP, GCS_CONNECTOR, GOOGLE_CLOUD_STORAGE = "4.4.0", "1.12.0", "3.4.2", "2.2.26", "2.52.0"

#: The newest release of Spark's connector for Kafka that is there, and of a part of it that is published apart.
SPARK_KAFKA_VERSION, SPARK_TOKEN_VERSION = "4.2.0", "4.0.0"

#: Of what Kafka Streams writes JSON with.
JACKSON = {"annotations": "2.21", "core": "2.21.2", "databind": "2.21.2"}

#: Of YARN's servers.
BOUNCY_CASTLE = "1.82"

ATTEMPTS = 3

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>benchmarks</groupId><artifactId>{name}</artifactId><version>1</version>
<dependencies>
{dependencies}
</dependencies></project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<scope>runtime</scope>{}</dependency>"
)
_NOTHING_ELSE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_LOGGING = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")


def kafka_jars(version: str, cache: Path) -> Path:
    """
    The directory with the broker's jars and all they need, fetched unless it is there.

    :raise RuntimeError: Maven is absent or could not resolve the version.
    """
    return _jars(cache / f"kafka-{version}", [("org.apache.kafka", "kafka_2.13", version), _LOGGING])


def client_jars(version: str, cache: Path) -> Path:
    """
    The same of ``kafka-clients``, which is all that a client needs.

    :raise RuntimeError: as :func:`kafka_jars`.
    """
    logging = ("org.slf4j", "slf4j-nop", "1.7.36")
    return _jars(cache / f"kafka-clients-{version}", [("org.apache.kafka", "kafka-clients", version), logging])


def streams_jars(version: str, cache: Path) -> Path:
    """
    The jars of Kafka Streams, which need those of :func:`client_jars` beside them; without RocksDB, which is large.

    :raise RuntimeError: as :func:`kafka_jars`.
    """
    json = [("com.fasterxml.jackson.core", f"jackson-{name}", number) for name, number in JACKSON.items()]
    return _jars(
        cache / f"kafka-streams-{version}", [("org.apache.kafka", "kafka-streams", version), *json], alone=True
    )


def tools_jars(version: str, cache: Path) -> Path:
    """
    The same of Kafka's command line tools, the broker's among them.

    :raise RuntimeError: as :func:`kafka_jars`.
    """
    wanted = [("org.apache.kafka", "kafka_2.13", version), ("org.apache.kafka", "kafka-tools", version), _LOGGING]
    return _jars(cache / f"kafka-tools-{version}", wanted)


def mirror_jars(version: str, cache: Path) -> Path:
    """
    The jars of MirrorMaker 2's records and of its client, which need those of :func:`client_jars` beside them.

    :raise RuntimeError: as :func:`kafka_jars`.
    """
    names = ("connect-mirror", "connect-mirror-client")
    wanted = [("org.apache.kafka", name, version) for name in names]
    return _jars(cache / f"kafka-mirror-{version}", wanted, alone=True)


def connect_file_jars(version: str, cache: Path) -> Path:
    """
    Kafka Connect's connectors to files, which need those of :func:`mirror_maker_jars` beside them.

    :raise RuntimeError: as :func:`kafka_jars`.
    """
    return _jars(cache / f"connect-file-{version}", [("org.apache.kafka", "connect-file", version)], alone=True)


def mirror_maker_jars(version: str, cache: Path) -> Path:
    """
    The jars of MirrorMaker 2 and all it needs.

    :raise RuntimeError: as :func:`kafka_jars`.
    """
    return _jars(cache / f"kafka-mirror-maker-{version}", [("org.apache.kafka", "connect-mirror", version), _LOGGING])


def spark_kafka_jars(cache: Path) -> Path:
    """
    The same of Spark's own connector for Kafka; what it needs is named one by one: not all that it asks for is there.

    :raise RuntimeError: as :func:`kafka_jars`.
    """
    wanted = [
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_KAFKA_VERSION),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", SPARK_TOKEN_VERSION),
        ("org.apache.kafka", "kafka-clients", "3.9.2"),
        ("org.apache.commons", "commons-pool2", "2.12.1"),
    ]
    return _jars(cache / f"spark-kafka-{SPARK_KAFKA_VERSION}", wanted, alone=True)


def hdfs_jars(version: str, cache: Path) -> Path:
    """
    Hadoop's HDFS servers, which need the jars of Hadoop's client beside them: those that Spark has.

    :raise RuntimeError: as :func:`kafka_jars`.
    """
    wanted = [
        ("org.apache.hadoop", "hadoop-client-minicluster", version),
        # It is made of Hadoop's tests, which ask JUnit whether a directory is there.
        ("org.junit.jupiter", "junit-jupiter-api", "5.11.4"),
        ("org.junit.platform", "junit-platform-commons", "1.11.4"),
        ("org.opentest4j", "opentest4j", "1.3.0"),
    ]
    return _jars(cache / f"hdfs-{version}", wanted, alone=True)


def yarn_jars(version: str, cache: Path) -> Path:
    """
    What Hadoop's YARN servers need beside :func:`hdfs_jars`, which has their classes: their pages, and cryptography.

    :raise RuntimeError: as :func:`kafka_jars`.
    """
    names = ("bcprov-jdk18on", "bcpkix-jdk18on", "bcutil-jdk18on")
    wanted = [("org.apache.hadoop", "hadoop-yarn-common", version)]
    wanted += [("org.bouncycastle", name, BOUNCY_CASTLE) for name in names]
    return _jars(cache / f"yarn-{version}", wanted, alone=True)


def delta_spark_jars(cache: Path) -> Path:
    """
    Delta Lake's client for Spark 4.1.

    :raise RuntimeError: as :func:`kafka_jars`.
    """
    names = ("delta-spark_4.1_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults")
    wanted = [*(("io.delta", name, DELTA_SPARK) for name in (*names, "delta-kernel-unitycatalog"))]
    wanted.append(("io.unitycatalog", "unitycatalog-client", "0.6.0"))
    return _jars(cache / f"delta-spark-{DELTA_SPARK}", wanted, alone=True)


def iceberg_spark_jars(cache: Path) -> Path:
    """
    Iceberg's client for Spark 4.1, with a driver for catalogs in SQLite.

    :raise RuntimeError: as :func:`kafka_jars`.
    """
    wanted = [
        ("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", ICEBERG_SPARK),
        ("org.xerial", "sqlite-jdbc", "3.50.3.0"),
    ]
    return _jars(cache / f"iceberg-spark-{ICEBERG_SPARK}", wanted, alone=True)


def azure_jars(cache: Path) -> Path:
    """
    Hadoop's connector to Azure's stores.

    :raise RuntimeError: as :func:`kafka_jars`.
    """
    wanted = [
        ("org.apache.hadoop", "hadoop-azure", HADOOP),
        ("org.apache.hadoop.thirdparty", "hadoop-shaded-guava", "1.4.0"),
        ("com.microsoft.azure", "azure-storage", "7.0.1"),
        ("com.microsoft.azure", "azure-keyvault-core", "1.0.0"),
        ("org.apache.httpcomponents", "httpclient", "4.5.13"),
        ("org.apache.httpcomponents", "httpcore", "4.4.13"),
        ("org.wildfly.openssl", "wildfly-openssl", "2.1.4.Final"),
    ]
    return _jars(cache / f"hadoop-azure-{HADOOP}", wanted, alone=True)


def gcs_jars(cache: Path) -> list[Path]:
    """
    Google's connector to its own stores, and what it needs: one jar with all of that is not everywhere to be had.

    :raise RuntimeError: as :func:`kafka_jars`.
    """
    ours, flogger = "com.google.cloud.bigdataoss", "com.google.flogger"
    wanted = [
        *((ours, name, f"hadoop3-{GCS_CONNECTOR}") for name in ("gcs-connector", "util-hadoop")),
        *((ours, name, GCS_CONNECTOR) for name in ("gcsio", "util")),
        *((flogger, name, "0.8") for name in ("flogger", "flogger-system-backend", "google-extensions")),
    ]
    alone = _jars(cache / f"gcs-connector-{GCS_CONNECTOR}", wanted, alone=True)
    storage = ("com.google.cloud", "google-cloud-storage", GOOGLE_CLOUD_STORAGE)
    needed = _jars(cache / f"google-cloud-storage-{GOOGLE_CLOUD_STORAGE}", [storage])
    # Spark has these itself.
    there = ("commons-", "jackson-", "slf4j-")
    return [*alone.glob("*.jar"), *(each for each in needed.glob("*.jar") if not each.name.startswith(there))]


@contextmanager
def only_one(cache: Path) -> Iterator[None]:
    """One process at a time fetches anything: tests run in several, and Maven's own cache is for one."""
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _jars(home: Path, dependencies: list[tuple[str, str, str]], alone: bool = False) -> Path:
    """:param alone: fetch these, and not what they depend on."""
    if not (home / "complete").exists():
        home.mkdir(parents=True, exist_ok=True)
        with only_one(home.parent):
            if not (home / "complete").exists():
                _fetch(home, dependencies, alone)
    return home / "jars"


def _fetch(home: Path, dependencies: list[tuple[str, str, str]], alone: bool) -> None:
    wanted = "\n".join(_DEPENDENCY.format(*one, _NOTHING_ELSE if alone else "") for one in dependencies)
    (home / "pom.xml").write_text(_POM.format(name=home.name, dependencies=wanted))
    directory = f"-DoutputDirectory={home / 'jars'}"
    command = ["mvn", "-B", "-q", "dependency:copy-dependencies", directory, "-DincludeScope=runtime"]
    # It gives up at the first error of the network, and may leave half of a file.
    for _ in range(ATTEMPTS):
        shutil.rmtree(home / "jars", ignore_errors=True)
        try:
            done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=900, check=False)
        except FileNotFoundError:
            raise RuntimeError(
                "mvn is not installed: it fetches Java's parts (Debian: apt-get install maven)"
            ) from None
        if done.returncode == 0:
            break
    else:
        raise RuntimeError(f"mvn could not fetch {home.name}:\n{done.stdout[-2000:]}")
    (home / "complete").touch()
