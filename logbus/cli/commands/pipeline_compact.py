"""The ``logbus pipeline compact`` command: merges small files of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from logbus.cli.number_types import IntRange
from logbus.cli.output import print_json
from logbus.cli.pipeline_job import Job, job_options
from logbus.cli.pipeline_options import option_of_catalog, option_of_vacuum, store_of, store_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from logbus.pipeline.jobs.job_control import JobControl
    from logbus.pipeline.lake.target import CompactionReport


@click.command()
@click.option(
    "--table", required=True, metavar="DIR", help="The directory or URL that 'logbus pipeline load' loads into."
)
@click.option(
    "--min-files",
    type=IntRange(min=2),
    default=4,
    show_default=True,
    help="Merge if there are this many small files.",
)
@click.option("--target-mb", type=IntRange(min=1), default=128, show_default=True, help="Size of the new files.")
@option_of_vacuum
@store_options
@option_of_catalog
@job_options
def compact(
    table: str,
    min_files: int,
    store_settings: tuple[str, ...],
    catalog: str,
    target_mb: int,
    vacuum: float,
    job: Job,
) -> None:
    """Merge small files of a table into large ones. Of the format parquet this makes a running load of the same table
    fail: use 'load --compact' instead.

    \b
    Example:
      logbus pipeline compact --table lake/events
      logbus pipeline compact --table lake.views --catalog demo --vacuum 7
    """
    from logbus.pipeline.lake.formats import check_exists, existing_table
    from logbus.pipeline.lake.local_directory import check_writable
    from logbus.pipeline.lake.vacuum import check_vacuum, vacuum_table

    check_vacuum(vacuum)

    def work(spark: SparkSession, watch: JobControl) -> CompactionReport:
        found = existing_table(spark, table, store_of(store_settings), catalog)
        if found.optimizes_by_claim:
            found.claim()
        done = found.optimize(min_files=min_files, target_bytes=target_mb << 20)
        return done.after_vacuum(vacuum_table(found, vacuum)) if vacuum else done

    def check(tell: Callable[[str], None]) -> None:
        check_exists(table, "", store_of(store_settings), catalog)
        if not catalog:
            check_writable(table)

    done = job.run(work, check)
    print_json(done.as_json())
