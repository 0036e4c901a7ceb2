"""Says which disks have no room left, where an error of Spark's says only that there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from logbus.pipeline.lake.file_system import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FULL = ("No space left on device", "Disk quota exceeded")
"""The system's words, with which Java's errors end as well."""


def is_full(problem: str) -> bool:
    """Whether an error is that of a full disk."""
    return any(words in problem for words in FULL)


def places_of(spark: SparkSession, checkpoint: str) -> dict[str, Path]:
    """The directories of this machine in which a query keeps something, for :func:`with_free_space`."""
    found = {"the checkpoint": local_path(checkpoint)}
    context = spark.sparkContext
    if (context.master or "").startswith("local"):
        given = os.environ.get("SPARK_LOCAL_DIRS") or context.getConf().get("spark.local.dir") or "/tmp"
        found["the directory of Spark's own files (spark.local.dir)"] = Path(given.partition(",")[0])
    return {what: path for what, path in found.items() if path is not None}


def with_free_space(problem: str, places: Mapping[str, Path]) -> str:
    """
    An error of a full disk, with the space that is left in directories of this machine, and what to do.

    :param places: by what they have, such as "the checkpoint".
    """
    left = "; ".join(f"{what}, {path}, has {_left(path)}" for what, path in places.items())
    return f"{problem}: {left}. Make room, and run it again: it goes on where it was"


def _left(path: Path) -> str:
    """The space that is left for a user's own files."""
    try:
        return f"{shutil.disk_usage(path).free / 1e6:,.1f} MB left"
    except OSError as e:
        return f"an unknown space left ({e.strerror})"
