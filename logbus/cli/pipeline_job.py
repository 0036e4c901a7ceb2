"""Runs a job on Spark for a ``logbus pipeline`` command: the options of all jobs, the session, the report."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import click
from attrs import field, frozen

from logbus.cli.app import exit_by_signal, print_error
from logbus.cli.options import bootstrap_option, parse_pairs
from logbus.cli.output import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from logbus.pipeline.jobs.job_control import JobControl

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_NOISY_LOGGERS = (
    "sql.execution.streaming.runtime.MicroBatchExecution",
    "executor.Executor",
    "sql.execution.datasources.v2.AppendDataExec",
    "scheduler.TaskSetManager",
)
"""Loggers of Spark that repeat a job's error."""


WRONG_USAGE = 2
"""The exit status of a command whose options are wrong."""

_LOOK_S = 0.5
"""How late a signal is noticed at most that came just before the main thread began to wait: nothing interrupts that."""

_SHORT = 1_000_000
"""Offsets: a job that reads no more has little to do once it has started."""


class JobReport(Protocol):
    """The report of a job."""

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""


R = TypeVar("R", bound=JobReport)


def _new_file(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check before the job runs that a file can be created."""
    if value is not None:
        directory = Path(value).absolute().parent
        if not directory.is_dir():
            raise click.BadParameter(f"{value}: there is no directory {directory}")
        if not os.access(directory, os.W_OK | os.X_OK):
            raise click.BadParameter(f"{value}: the directory {directory} cannot be written to")
    return value


def new_file_option(name: str, what: str) -> Callable[[F], F]:
    """Return an option for the name of a file to write."""
    path = click.Path(dir_okay=False, writable=True)
    return click.option(name, type=path, metavar="FILE", callback=_new_file, help=what)


def job_options(command: F) -> F:
    """
    Add the options of all jobs: Spark's master and settings, the report. Passes the command a :class:`Job`.

    An option that is found wrong ends the command with the status of wrong usage, 2, also where only the job finds it.
    """

    @wraps(command)
    def bound(
        master: str | None, spark: tuple[str, ...], report: str | None, quiet: bool, class_archive: bool, **given: Any
    ) -> Any:
        from logbus.pipeline import check_packages
        from logbus.pipeline.errors import OptionError

        name = str(click.get_current_context().info_name)
        settings = parse_pairs(spark, "--spark", "spark.driver.memory=2g")
        try:
            _check_masters(master, settings)
            check_packages()  # before the command imports them
            _check_namenodes(given.values(), settings)
            return command(job=Job(name, master, settings, report, quiet, class_archive), **given)
        except OptionError as e:
            print_error(str(e))
            click.get_current_context().exit(WRONG_USAGE)

    for option in (
        click.option(
            "--class-archive",
            is_flag=True,
            help="Leave an archive of Spark's classes in the cache directory, from which later jobs start in half the "
            "processor time. To write it takes this job up to a minute.",
        ),
        click.option("--quiet", is_flag=True, help="Print no progress on standard error."),
        new_file_option("--report", "A file for the report, which is JSON."),
        click.option("--spark", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated."),
        click.option(
            "--master",
            metavar="URL",
            help="Where Spark runs, such as local[2] or spark://host:7077; else all cores of this machine.",
        ),
    ):
        bound = option(bound)
    return cast(F, bound)


def _check_masters(master: str | None, settings: Mapping[str, str]) -> None:
    """
    Check where Spark is to run.

    :raise OptionError: Spark knows no such master; it names the option.
    """
    from logbus.pipeline.session import check_master

    for option, given in (("--master", master), ("--spark spark.master", settings.get("spark.master"))):
        if given is not None:
            check_master(given, option)


def _check_namenodes(given: Iterable[Any], settings: Mapping[str, str]) -> None:
    """
    Check the URLs of HDFS among the values of options and arguments.

    :raise OptionError: one has no namenode, and none is the default.
    """
    from logbus.pipeline.lake.reachability import check_default_namenode

    for each in given:
        if isinstance(each, str):
            check_default_namenode(each, settings)


def kafka_options(command: F) -> F:
    """Add the options of the connection. Passes the command ``kafka``: options of ``format("logbus")``."""

    @wraps(command)
    def bound(bootstrap: str, kafka: tuple[str, ...], **given: Any) -> Any:
        return command(kafka=kafka_settings(bootstrap, kafka), **given)

    for option in (
        click.option(
            "--kafka",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of the connections, such as security.protocol=SSL; may be repeated.",
        ),
        bootstrap_option(),
    ):
        bound = option(bound)
    return cast(F, bound)


def kafka_settings(bootstrap: str, settings: tuple[str, ...], option: str = "--kafka") -> dict[str, str]:
    """Return the options of ``format("logbus")`` for a connection."""
    given = {"bootstrap.servers": bootstrap, **parse_pairs(settings, option, "security.protocol=SSL")}
    return {f"kafka.{key}": value for key, value in given.items()}


@frozen
class Job:
    """
    Runs a job in a Spark session, and writes its report.

    :ivar master: see :func:`logbus.pipeline.session.session`.
    :ivar settings: Spark's settings.
    :ivar report: a file for the report.
    :ivar quiet: whether to print no progress.
    :ivar class_archive: whether to write an archive of Spark's classes, if there is none.
    """

    name: str
    master: str | None = None
    settings: Mapping[str, str] = field(factory=dict)
    report: str | None = None
    quiet: bool = False
    class_archive: bool = False

    def run(
        self,
        work: Callable[[SparkSession, JobControl], R],
        check: Callable[[Callable[[str], None]], int | None] | None = None,
    ) -> R:
        """
        Run a job in its own session. The first SIGINT or SIGTERM stops it in order; the second ends the process.

        :param work: the job, with its options bound.
        :param check: checks what needs no Spark before that is started, and is given a function for messages. It
            returns the number of offsets to read; None: it is not known, or has no end.
        :returns: its report, which is also written to the file, even if the job failed after making it.
        :raise LogbusError: the job failed.
        """
        from logbus.pipeline.errors import PipelineError
        from logbus.pipeline.jobs.job_control import JobControl
        from logbus.pipeline.session import keep_on_sigterm, session

        settings = {"spark.ui.showConsoleProgress": "false", **self.settings}
        line = Progress()
        watch = JobControl() if self.quiet else _watched(self.name, line)
        has_begun = False

        def interrupt(number: int, frame: object) -> None:
            if watch.is_stopping or not has_begun:
                exit_by_signal(signal.Signals(number))
            watch.stop()  # First, since the next signal may come while this is told.
            watch.tell("stopping after what is under way; once more to stop at once")

        before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            # Python calls no handler while its main thread is in a call of a library, which may wait for a store for
            # minutes. Spark would install its own handler there, which calls Java in the middle of another call.
            with ThreadPoolExecutor(1) as other:
                to_read = None if check is None else _result(other.submit(check, watch.tell))
                name = f"logbus {self.name}"
                watch.tell("starts Spark")
                # Spark's own error is only of use to debug Spark.
                starting = other.submit(
                    session,
                    name,
                    master=self.master,
                    settings=settings,
                    quiet=True,
                    is_short=to_read is not None and to_read <= _SHORT,
                    class_archive=self.class_archive,
                )
                spark = _result(starting)
                keep_on_sigterm(spark)
                has_begun = True
                pages = spark.sparkContext.uiWebUrl
                master = spark.sparkContext.master
                watch.tell(f"Spark {spark.version} runs on {master}{(pages and f'; see {pages}') or ''}")
                done = _result(other.submit(_print_report, spark, work, watch))
        except PipelineError as e:
            if (report := getattr(e, "report", None)) is not None:
                self._write(report)
            raise
        finally:
            line.clear()
            for number, handler in before.items():
                signal.signal(number, handler)
        self._write(done.as_json())
        return done

    def _write(self, report: Mapping[str, Any]) -> None:
        if self.report is not None:
            Path(self.report).write_text(json.dumps(report, indent=2) + "\n")


def _result(future: Future[T]) -> T:
    while not wait([future], _LOOK_S).done:
        pass
    return future.result()


def _watched(name: str, line: Progress) -> JobControl:
    """What a job says goes to standard error; on a terminal batches move a bar there."""
    from logbus.pipeline.jobs.job_control import JobControl
    from logbus.pipeline.jobs.progress_bar import ProgressBar

    def tell(text: str) -> None:
        line.clear()
        click.echo(f"{name}: {text}", err=True)

    def show(text: str) -> None:
        line.show(f"{name}: {text}"[: shutil.get_terminal_size().columns - 1])

    return JobControl(tell, ProgressBar(show, time.monotonic) if line.is_on else None)


def _print_report(spark: SparkSession, work: Callable[[SparkSession, JobControl], R], watch: JobControl) -> R:
    # Spark is imported by now.
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from logbus.pipeline.error_text import short_message
    from logbus.pipeline.errors import PipelineError
    from logbus.pipeline.session import end_java, java_exit_message

    try:
        _silence_spark(spark)
        done = work(spark, watch)
    except (PySparkException, Py4JError, ConnectionError) as e:
        raise PipelineError(java_exit_message(spark, 0.5) or short_message(str(e))) from e
    finally:
        if not java_exit_message(spark):
            spark.stop()
    end_java(spark)  # Not of a job that failed, which may have needed few of the classes.
    return done


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return record.getMessage() != "Exception while sending command."


def _silence_spark(spark: SparkSession) -> None:
    """Keep Spark from logging a job's error with its Java stack trace; LOGBUS_DEBUG shows it."""
    if os.environ.get("LOGBUS_DEBUG"):
        return
    from pyspark.logger import PySparkLogger

    # Their messages at the end of Java repeat the job's error.
    cast(Any, spark.sparkContext)._accumulatorServer.handle_error = lambda *_: None
    logging.getLogger().addFilter(_not_of_py4j)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    log4j: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    for name in _NOISY_LOGGERS:
        log4j.core.config.Configurator.setLevel(f"org.apache.spark.{name}", log4j.Level.OFF)
