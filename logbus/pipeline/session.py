"""Creates the Spark session of a job, with clear errors for a missing package or Java runtime."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logbus.pipeline import Missing, check_packages, register
from logbus.pipeline.class_archive import ClassArchive, archive_for
from logbus.pipeline.error_text import short_message
from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.hang_ups import expect_hang_ups_of_tasks
from logbus.pipeline.spark_home import lean_home, spark_home
from logbus.pipeline.users_settings import users_settings, usual_home
from logbus.pipeline.worker_sockets import DAEMON, ENABLED, socket_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_JAVA = 17
_INSTALL_JAVA = "on Debian or Ubuntu: apt-get install openjdk-17-jre-headless"
_CORES = r"(?:\*|[1-9][0-9]*)"
_HOSTS = r"(?:\[[0-9a-fA-F:]+\]|[^\s:/\[\],]+):[0-9]+"
_MASTERS = [
    re.compile(each)
    for each in (
        rf"local(?:\[\s*{_CORES}\s*(?:,\s*[0-9]+\s*)?\])?",
        r"local-cluster\[\s*[0-9]+\s*,\s*[0-9]+\s*,\s*[0-9]+\s*\]",
        "yarn",
        rf"spark://{_HOSTS}(?:,{_HOSTS})*",
        r"k8s://\S+",
        r"(?!local|yarn|spark|k8s)[a-z][a-z0-9+.-]*://\S+",  # of a cluster manager that is added to Spark
    )
]
_QUIET = Path(__file__).with_name("quiet.properties")
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def java_runtime(environ: Mapping[str, str] = os.environ) -> tuple[int, str]:
    """
    The version of the Java runtime that Spark will use, and all that identifies it.

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
    return version, f"{Path(java).resolve()} {said.stderr}{said.stdout}"


def check_python(environ: Mapping[str, str] = os.environ) -> None:
    """
    Check that the Python of Spark's workers is there for the driver, too, which starts it to plan reads.

    :raise Missing: it is not.
    """
    python = environ["PYSPARK_PYTHON"]
    if shutil.which(python, path=environ.get("PATH")) is None:
        raise Missing(
            f"PYSPARK_PYTHON is {python}, and there is no such program here, where Spark starts it, too; of an archive "
            "for a cluster unpack a copy here"
        )


def check_master(master: str, option: str = "master") -> None:
    """
    Check the syntax of a master URL, since Spark would report a wrong one with a long Java stack trace.

    :param option: its name, for the error.
    :raise OptionError: Spark knows no such master.
    """
    if not any(each.fullmatch(master) for each in _MASTERS):
        raise OptionError(
            f"{option} is {master!r}; it takes local, local[2], local[*], spark://HOST:PORT, k8s://URL or yarn"
        )


def session(
    name: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    quiet: bool = False,
    is_short: bool = False,
    class_archive: bool = False,
    unix_sockets: bool = True,
) -> SparkSession:
    """
    A session in which ``format("logbus")`` is known: the running one, or a new one.

    :param name: of the application.
    :param master: where it runs, such as ``local[2]`` or ``spark://host:7077``; None: as ``spark-submit`` says, or
        else all cores of this machine.
    :param settings: Spark's own, such as ``{"spark.driver.memory": "2g"}``; they take precedence over the defaults.
    :param quiet: have a new session log errors only.
    :param is_short: whether it will have little to do: Java compiles code less well then, which takes a third of the
        processor time, and Spark has no web pages.
    :param class_archive: whether to have Java write an archive of its classes, if there is none, when the caller calls
        :func:`end_java`. One that is there is used in any case.
    :param unix_sockets: whether to connect Java and Python by Unix domain sockets, where both can
        (:mod:`.worker_sockets`), and the user has not chosen.
    :raise Missing: pyspark or Java is not installed.
    :raise OptionError: Spark knows no such master.
    :raise PipelineError: Spark does not start.
    """
    check_packages()
    import pyspark
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    given = dict(settings or {})
    for one in (master, given.get("spark.master")):
        if one is not None:
            check_master(one)
    _, java = java_runtime()
    # Spark starts its workers as 'python3' by default, which may be a Python without logbus.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    check_python()
    if master is None and "spark.master" not in given and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = "local[*]"
    defaults: dict[str, str] = {}
    unless_set = {"spark.sql.session.timeZone": "UTC"}
    if SparkContext._active_spark_context is None:
        # By default Spark collects 10,000 rows for Python: at 1 KB more than caches hold, so that writing takes longer.
        unless_set["spark.sql.execution.arrow.maxRecordsPerBatch"] = "2000"
    if master is not None and master.startswith("local["):
        # Spark's default of 200 is for clusters: on one machine most of the time would go to empty tasks.
        unless_set["spark.sql.shuffle.partitions"] = "8"
    if not _runs_already():
        _java_was_given.update(given)
        _sockets.clear()
    # A Java process that is there already has the settings of its first session, which are not the user's for this one.
    defaults |= {name: value for name, value in unless_set.items() if name in _java_was_given}
    home = None if _runs_already() else lean_home(os.environ, master or given.get("spark.master", ""), given)
    is_quiet = quiet and not os.environ.get("LOGBUS_DEBUG")
    defaults |= _cheap_start(given, java, is_short, class_archive, home, is_quiet)
    if unix_sockets and not _runs_already():
        names = {*given, *users_settings(os.environ, usual_home(os.environ))}
        is_here = home is not None
        _sockets.update(socket_settings(os.environ, names, is_here=is_here, pyspark_version=pyspark.__version__))
    if SparkContext._active_spark_context is None:
        defaults |= _sockets
        if _sockets and not (master or given.get("spark.master", "local")).startswith("local"):
            # The same Java had workers of its own before; those of a cluster do not have its directory.
            defaults |= {ENABLED: "false", DAEMON: "pyspark.daemon"}
    if is_quiet and "PYSPARK_GATEWAY_PORT" in os.environ:
        defaults["spark.log.level"] = "ERROR"
    builder = SparkSession.builder.appName(name)
    for key, value in {**defaults, **given}.items():
        builder = builder.config(key, value)
    if master is not None:
        builder = builder.master(master)
    with spark_home(home):
        spark = _started(builder)
    # What is set on the builder would take precedence over spark-defaults.conf and spark-submit --conf.
    found = spark.conf.getAll
    for key, value in unless_set.items():
        if key not in found:
            spark.conf.set(key, value)
    return spark


_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a Java that runs for a short time: no optimizing compiler, and no threads for collecting garbage."""

_LARGE_CHUNKS = "-Dio.netty.allocator.maxOrder=11"
"""
Arrow takes memory in chunks of 16 MB, as before Netty 4.1.75. What is larger than a chunk, now 4 MB, such as a batch of
rows, is new memory more often.
"""

_DEFAULT_JAVA = "spark.driver.defaultJavaOptions"
"""Those that a user gives come behind them, and take precedence."""

_java_was_given: set[str] = set()
"""Names of the settings that the Java process got from the session with which it was started."""

_sockets: dict[str, str] = {}
"""Settings for the sockets between the Java process and Python, if it was started with a home directory of ours."""

_PATIENCE = 120.0
"""Seconds: an archive that takes longer to write is not kept."""

_drafted: list[ClassArchive] = []
"""The archive that Java writes as it ends."""


def _runs_already() -> bool:
    """Whether there is a Java process, so that it is too late to choose how it starts."""
    from pyspark import SparkContext

    return "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None


def _cheap_start(
    given: Mapping[str, str], java: str, is_short: bool, write_archive: bool, home: Path | None, is_quiet: bool
) -> dict[str, str]:
    """Settings of a session that starts with less processor time, and less noise; ``given``: those of the user."""
    if _runs_already():
        return {}
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _QUICK)
    found: dict[str, str] = {}
    options = [_LARGE_CHUNKS, *([_QUICK] if is_short else [])]
    names = {*given, *users_settings(os.environ, usual_home(os.environ))}
    if is_short and not any(name.startswith("spark.ui.") and name != "spark.ui.showConsoleProgress" for name in names):
        found["spark.ui.enabled"] = "false"
    if (archive := _class_archive(given, java, home)) and (archive.exists or write_archive):
        options.append(archive.java_options)
        if not archive.exists:
            _drafted.append(archive)
    if is_quiet:
        # Quiet from the start. Java's own warning about an incubator module cannot be suppressed.
        options.append(f'"-Dlog4j2.configurationFile={_QUIET}"')
    if _DEFAULT_JAVA not in names:
        found[_DEFAULT_JAVA] = " ".join(options)
    return found


def _class_archive(given: Mapping[str, str], java: str, lean: Path | None) -> ClassArchive | None:
    """The archive that Java is to use or to write; None: the user's settings are of other classes or archives."""
    if any("-Xshare" in text or "Archive" in text or name.endswith("ClassPath") for name, text in given.items()):
        return None
    home = usual_home(os.environ) if lean is None else lean
    if os.environ.keys() & {"HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR"} or (home / "conf").is_dir():
        return None  # Java makes no archive if there are directories among its classes.
    return archive_for(os.environ, java, home / "jars", os.getpid())


def end_java(spark: SparkSession) -> None:
    """
    End the Java process that this process started, if it writes an archive of its classes as it ends, and keep that.

    Without this call Java ends when this process does. The session must be stopped.
    """
    gateway: Any = spark.sparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is None or not _drafted:
        return
    archive = _drafted.pop()
    gateway.shutdown()
    process.stdin.close()
    try:
        status = process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        return
    from pyspark import SparkContext

    SparkContext._gateway = SparkContext._jvm = None  # The next session starts another.
    archive.keep(status)


def _started(builder: SparkSession.Builder) -> SparkSession:
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    had = SparkContext._active_spark_context
    try:
        spark = builder.getOrCreate()
        if SparkContext._active_spark_context is not had:
            expect_hang_ups_of_tasks(getattr(spark.sparkContext, "_accumulatorServer", None))
        register(spark)
    except (PySparkException, Py4JError) as e:
        left = SparkContext._active_spark_context
        if left is not None and left is not had:
            left.stop()
        said = str(e.java_exception.getMessage()) if isinstance(e, Py4JJavaError) else str(_root(e))
        raise PipelineError(f"Spark does not start: {short_message(said)}") from e
    return spark


def java_exit_message(spark: SparkSession, seconds: float = 0.0) -> str:
    """
    A message about the end of the session's Java process, if this process started it and it has ended; else "".

    :param seconds: how long to wait for the process to exit.
    """
    process = getattr(spark.sparkContext._gateway, "proc", None)
    try:
        status = None if process is None else process.wait(seconds)
    except subprocess.TimeoutExpired:
        status = None
    return "" if status is None else describe_java_exit(status)


def describe_java_exit(status: int) -> str:
    """
    Describe the exit status of a Java process.

    :param status: negative if a signal killed it; 128 plus the signal's number if Java handled the signal and exited.
    """
    number = -status if status < 0 else status - 128
    if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        return (
            f"Spark's Java process was ended by {signal.Signals(number).name}, from outside; the job can be run again"
        )
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    return f"Spark's Java process ended {how}; was there enough memory? --spark spark.driver.memory=2g gives it more"


def keep_on_sigterm(spark: SparkSession) -> None:
    """
    Have the Java process that this process started ignore SIGTERM, as it ignores SIGINT.

    Supervisors send SIGTERM to all processes of a job; this process then ends the job in order. When it exits, the Java
    process does.
    """
    if getattr(spark.sparkContext._gateway, "proc", None) is not None:
        misc: Any = spark._jvm.sun.misc  # type: ignore[union-attr]
        misc.Signal.handle(misc.Signal("TERM"), misc.SignalHandler.SIG_IGN)


def _root(error: Exception) -> Exception:
    """The first cause of a Spark error."""
    while isinstance(cause := getattr(error, "_cause", None), Exception):
        error = cause
    return error
