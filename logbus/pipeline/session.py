"""A Spark session for the jobs, and clear words about what is missing for one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from logbus.errors import LogbusError
from logbus.pipeline import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_JAVA = 17
_INSTALL_JAVA = "on Debian or Ubuntu: apt-get install openjdk-17-jre-headless"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class Missing(LogbusError):
    """Something that the pipeline needs is not installed; the message says how to install it."""


def check_java(environ: Mapping[str, str] = os.environ) -> int:
    """
    The version of the Java that Spark will run.

    :raise Missing: there is none, or it is too old.
    """
    if home := environ.get("JAVA_HOME"):
        java: str | None = str(Path(home) / "bin" / "java")
        if not os.access(str(java), os.X_OK):
            raise Missing(f"Spark needs Java {MIN_JAVA} or newer: JAVA_HOME is {home}, in which there is no bin/java")
    else:
        java = shutil.which("java", path=environ.get("PATH"))
    if java is None:
        raise Missing(f"Spark needs Java {MIN_JAVA} or newer, and no 'java' was found; {_INSTALL_JAVA}")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Missing(f"Spark needs Java {MIN_JAVA} or newer: {java} does not run: {e}") from e
    found = _VERSION.search(said.stderr + said.stdout)
    if found is None:
        raise Missing(f"Spark needs Java {MIN_JAVA} or newer: {java} does not say which version it is")
    version = int(found[1])
    if version < MIN_JAVA:
        raise Missing(f"Spark needs Java {MIN_JAVA} or newer: {java} is Java {version}; {_INSTALL_JAVA}")
    return version


def session(name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """
    A session in which ``format("logbus")`` is known: the running one, or a new one.

    :param name: of the application.
    :param master: where it runs, such as ``local[2]`` or ``spark://host:7077``; None: as ``spark-submit`` says, or
        else all cores of this machine.
    :param settings: Spark's own, such as ``{"spark.driver.memory": "2g"}``; they win over ours.
    :raise Missing: pyspark or Java is not installed.
    """
    try:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
        from pyspark.sql import SparkSession
    except ImportError as e:
        raise Missing(f"the pipeline needs {e.name}, which is not installed: pip install 'logbus[spark]'") from e
    check_java()
    # Spark's workers are started as 'python3' unless told otherwise, which may be one without logbus.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    given = dict(settings or {})
    if master is None and "spark.master" not in given and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = "local[*]"
    defaults = {"spark.sql.session.timeZone": "UTC"}
    if master is not None and master.startswith("local["):
        # Spark's own default is for clusters: here 200 tasks of next to nothing each would be what takes the time.
        defaults["spark.sql.shuffle.partitions"] = "8"
    builder = SparkSession.builder.appName(name)
    for key, value in {**defaults, **given}.items():
        builder = builder.config(key, value)
    if master is not None:
        builder = builder.master(master)
    spark = builder.getOrCreate()
    register(spark)
    return spark
