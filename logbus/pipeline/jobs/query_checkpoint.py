"""
A query's checkpoint: whose it is, and whether its last run failed.

Spark keeps in a checkpoint how far a query is. Beside that, a file describes the query, so that no other one continues
from it, and another one is there if too many events of the last run were late.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from attrs import asdict

from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.late_events import LateEvents
from logbus.pipeline.jobs.query_definition import QueryDefinition, QuerySettings
from logbus.pipeline.lake.file_system import FileSystem, file_system_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IDENTITY_FILE = "logbus.json"
"""A file in a checkpoint that describes the query."""

LATE_FILE = "logbus-late.json"
"""A file in a checkpoint: the last run failed, since too many events were late."""


def check_identity(spark: SparkSession, query: QueryDefinition, checkpoint: str) -> None:
    """
    Write the query's identity to the checkpoint, or compare it with the one there.

    :raise OptionError: the checkpoint belongs to another query.
    """
    other = f"{checkpoint} is the checkpoint of another query"
    mine = {"job": query.name, **query.identity}
    files = file_system_at(spark, checkpoint)
    try:
        known = json.loads(files.read(IDENTITY_FILE))
    except FileNotFoundError:
        if "metadata" in files.names(""):
            raise OptionError(f"{other}, which is no job of logbus: give this one a directory of its own") from None
        files.create(IDENTITY_FILE, json.dumps(mine, indent=1).encode())
        return
    except ValueError as e:
        raise PipelineError(f"{checkpoint}/{IDENTITY_FILE} is damaged: {e}") from e
    if not isinstance(known, dict):
        raise PipelineError(f"{checkpoint}/{IDENTITY_FILE} is damaged: it is no object")
    if known != mine and not files.names("offsets"):
        # Nothing was read yet: a mistyped setting may be corrected.
        files.delete(IDENTITY_FILE)
        files.create(IDENTITY_FILE, json.dumps(mine, indent=1).encode())
        return
    for name in {**known, **mine}:
        if known.get(name) != mine.get(name):
            raise OptionError(
                f"{other}: its {name} is {known.get(name)!r}, and now it is {mine.get(name)!r}; give this one a "
                "directory of its own"
            )


def query_id(spark: SparkSession, checkpoint: str) -> str:
    """
    Spark's id of a query, which is the same after restarts; Spark writes it to a new checkpoint first.

    :raise PipelineError: the checkpoint is damaged.
    """
    try:
        return str(json.loads(file_system_at(spark, checkpoint).read("metadata"))["id"])
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise PipelineError(f"{checkpoint}/metadata does not say which query it is of: {e!r}") from e


def check_last_run(files: FileSystem, query: QueryDefinition, running: QuerySettings) -> None:
    """
    Check whether the last run failed with too many late events: the next would continue as if nothing were missing.

    :raise TooManyLate: it did, and no greater share is allowed now.
    """
    try:
        found = LateEvents(**json.loads(files.read(LATE_FILE)))
    except FileNotFoundError:
        return
    except (ValueError, TypeError) as e:
        raise PipelineError(f"{files.url}/{LATE_FILE} is damaged: {e}") from e
    if found.share > running.max_late_share:
        raise query.too_many_late(found, running.max_late_share, asdict(found), earlier=True)
    files.delete(LATE_FILE)


def note_late(files: FileSystem, found: LateEvents) -> None:
    """Write down that the run failed with too many late events."""
    files.create(LATE_FILE, json.dumps(asdict(found)).encode())
