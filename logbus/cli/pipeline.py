"""``logbus pipeline``: jobs on Spark, and what their commands share."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from logbus.cli.app import LazyGroup, end_by
from logbus.cli.options import DEFAULT_BOOTSTRAP, pairs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from logbus.pipeline.jobs.watching import Watch

F = TypeVar("F", bound=Callable[..., Any])

pipeline = LazyGroup(
    name="pipeline",
    help="""Run jobs on Spark: load topics into a lake of Parquet files, count, join, and check that nothing was lost.

    \b
    Example:
      logbus pipeline load events --table lake/events
      spark-submit --master spark://host:7077 "$(logbus pipeline script)" load events --table hdfs:///lake/events

    They need Java 17 or newer, and: pip install 'logbus[spark]'
    """,
    lazy={
        "load": ("logbus.cli.pipeline_load:load", "Load topics into a table of Parquet files, each record once."),
        "compact": ("logbus.cli.pipeline_compact:compact", "Make few large files of many small ones in such a table."),
        "windows": ("logbus.cli.pipeline_windows:windows", "Count and sum up topics by windows of time."),
        "join": ("logbus.cli.pipeline_join:join", "Join a topic with another, or with a table."),
        "audit": ("logbus.cli.pipeline_audit:audit", "Reconcile what was published, what was read, and the lake."),
        "mirror-check": ("logbus.cli.pipeline_mirror:mirror_check", "Check that two clusters hold the same records."),
        "script": ("logbus.cli.pipeline:script", "Print the file to give to spark-submit."),
    },
)


class Report(Protocol):
    """What a job has done."""

    def as_json(self) -> dict[str, Any]:
        """All of it, as JSON has it."""


R = TypeVar("R", bound=Report)


def job_options(command: F) -> F:
    """What each job's command takes: where Spark runs, and where its report goes."""
    for option in (
        click.option("--quiet", is_flag=True, help="Do not tell on standard error what is done."),
        click.option(
            "--report", type=click.Path(dir_okay=False, writable=True), help="A file for the report, which is JSON."
        ),
        click.option(
            "--spark", "spark_settings", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated."
        ),
        click.option(
            "--master",
            metavar="URL",
            help="Where Spark runs, such as local[2] or spark://host:7077; else all cores of this machine.",
        ),
    ):
        command = option(command)
    return command


def kafka_options(command: F) -> F:
    """Where the brokers are, and how to connect to them."""
    for option in (
        click.option(
            "--kafka",
            "kafka_settings_",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of the connections, such as security.protocol=SSL; may be repeated.",
        ),
        click.option(
            "--bootstrap",
            "-b",
            metavar="HOST:PORT",
            default=DEFAULT_BOOTSTRAP,
            show_default=True,
            envvar="LOGBUS_BOOTSTRAP",
            show_envvar=True,
            help="A broker of the cluster; several with commas between.",
        ),
    ):
        command = option(command)
    return command


def kafka_settings(bootstrap: str, settings: tuple[str, ...]) -> dict[str, str]:
    """Both as options of ``format("logbus")``."""
    given = {"bootstrap.servers": bootstrap, **pairs(settings, "--kafka")}
    return {f"kafka.{key}": value for key, value in given.items()}


def run_job(
    name: str,
    work: Callable[[SparkSession, Watch], R],
    *,
    master: str | None,
    spark_settings: tuple[str, ...],
    report: str | None,
    quiet: bool,
) -> R:
    """
    Run a job in a session of its own. SIGINT and SIGTERM have it stop in order; the second one ends the process.

    :param work: the job, its options bound.
    :returns: its report, which is written to the file ``report`` also.
    """
    from logbus.pipeline.errors import PipelineError, gist
    from logbus.pipeline.jobs.watching import Watch
    from logbus.pipeline.session import session

    settings = {"spark.ui.showConsoleProgress": "false", **pairs(spark_settings, "--spark")}
    spark = session(f"logbus {name}", master=master, settings=settings)
    # Only now is it known that there is one.
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger

    for name_ in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # They write what is wrong with an expression, of which the error tells, with all of Java's stack.
        PySparkLogger.getLogger(name_).disabled = True
    watch = Watch() if quiet else Watch(lambda line: click.echo(f"{name}: {line}", err=True))

    def interrupt(number: int, frame: object) -> None:
        if watch.is_stopping:
            end_by(signal.Signals(number))
        watch.tell("stopping after what is under way; once more to stop at once")
        watch.stop()

    # After Spark has set its own.
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        done = work(spark, watch)
    except PySparkException as e:
        raise PipelineError(gist(str(e))) from e
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        spark.stop()
    if report is not None:
        Path(report).write_text(json.dumps(done.as_json(), indent=2) + "\n")
    return done


@click.command()
def script() -> None:
    """Print the file to give to spark-submit, which takes what 'logbus pipeline' does.

    \b
    Example:
      spark-submit --master spark://host:7077 "$(logbus pipeline script)" load events --table hdfs:///lake/events
    """
    from logbus.cli import submitted

    sys.stdout.write(f"{submitted.__file__}\n")
