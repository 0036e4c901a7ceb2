"""The ``logbus pipeline`` group: jobs on Spark, and ``pipeline script``."""

from __future__ import annotations

import sys

import click

from logbus.cli.app import LazyGroup

pipeline = LazyGroup(
    name="pipeline",
    help="""Run jobs on Spark: load topics into a lake of Parquet files, count, join, and check that nothing was lost.

    \b
    Example:
      logbus pipeline load events --table lake/events
      spark-submit --master spark://host:7077 "$(logbus pipeline script)" load events --table hdfs:///lake/events

    They need Java 17 or newer, and, in the source directory of logbus: pip install '.[spark]'
    """,
    lazy={
        "load": (
            "logbus.cli.commands.pipeline_load:load",
            "Load topics into a table of Parquet files, each record once.",
        ),
        "compact": (
            "logbus.cli.commands.pipeline_compact:compact",
            "Merge small files of such a table.",
        ),
        "windows": ("logbus.cli.commands.pipeline_windows:windows", "Aggregate topics by time windows."),
        "join": ("logbus.cli.commands.pipeline_join:join", "Join a topic with another, or with a table."),
        "audit": (
            "logbus.cli.commands.pipeline_audit:audit",
            "Compare published and consumed records with tables.",
        ),
        "mirror-check": (
            "logbus.cli.commands.pipeline_mirror_check:mirror_check",
            "Check that two clusters hold the same records.",
        ),
        "script": ("logbus.cli.commands.pipeline:script", "Print the file to give to spark-submit."),
    },
)


@click.command()
def script() -> None:
    """Print the file to give to spark-submit; it takes the arguments of 'logbus pipeline'.

    \b
    Example:
      spark-submit --master spark://host:7077 "$(logbus pipeline script)" load events --table hdfs:///lake/events
    """
    from logbus.cli import spark_submit

    sys.stdout.write(f"{spark_submit.__file__}\n")
