"""
A query's checkpoint: whose it is, and whether its last run failed.

Spark keeps in a checkpoint how far a query is. Beside that, a file describes the query, so that no other one continues
from it, and another one is there if too many events of the last run were late.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING

from attrs import asdict

from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.checkpoint_files import check_files, damage, last_planned
from logbus.pipeline.jobs.late_events import LateEvents
from logbus.pipeline.jobs.query_definition import QueryDefinition, QuerySettings
from logbus.pipeline.lake.file_system import FileSystem, LocalFileSystem, file_system_at, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from logbus.pipeline.jobs.outputs import Output

IDENTITY_FILE = "logbus.json"
"""A file in a checkpoint that describes the query."""

RESULT = "result"
"""The setting with the types of the result."""

_ZONE, _UTC = "time zone", "UTC"
"""The setting with the time zone of the expressions, and its default."""

LATE_FILE = "logbus-late.json"
"""A file in a checkpoint: the last run failed, since too many events were late."""

WRITTEN = "logbus-written"
"""A directory in a checkpoint: a file with the number of the last batch with rows has the names of its outputs."""


def check_before_spark(name: str, identity: Mapping[str, str], checkpoint: str) -> None:
    """
    Check a local checkpoint before Spark is started; another one is left to :func:`check_identity`.

    :param identity: of the query, without its ``result`` and time zone, which only Spark knows.
    :raise OptionError: the checkpoint belongs to another query.
    :raise PipelineError: the checkpoint is damaged.
    """
    path = local_path(checkpoint)
    if path is not None and path.is_dir():
        _check(LocalFileSystem(path), {"job": name, **identity}, checkpoint, {RESULT, _ZONE})


def check_identity(spark: SparkSession, query: QueryDefinition, checkpoint: str) -> None:
    """
    Write the query's identity to the checkpoint, or compare it with the one there, and check Spark's files in it.

    :raise OptionError: the checkpoint belongs to another query.
    :raise PipelineError: the checkpoint is damaged.
    """
    files = file_system_at(spark, checkpoint)
    mine = {"job": query.name, **query.identity}
    zone = spark.conf.get("spark.sql.session.timeZone") or _UTC
    if query.open_state is not None and zone != _UTC:
        mine[_ZONE] = zone  # Expressions are computed in it. It is not there for UTC, as in checkpoints before it was.
    known = _check(files, mine, checkpoint)
    if known != mine:
        if known is not None:
            files.delete(IDENTITY_FILE)
        files.create(IDENTITY_FILE, json.dumps(mine, indent=1).encode())


def _check(
    files: FileSystem, mine: Mapping[str, str], checkpoint: str, without: Set[str] = frozenset()
) -> dict[str, str] | None:
    """Check a checkpoint; returns the identity in it, which may be another one if nothing was read yet."""
    other = f"{checkpoint} is the checkpoint of another query"
    try:
        known = json.loads(files.read(IDENTITY_FILE))
    except FileNotFoundError:
        if "metadata" in files.names(""):
            raise OptionError(f"{other}, which is no job of logbus: give this one a directory of its own") from None
        check_files(files, checkpoint)
        return None
    except ValueError as e:
        raise damage(f"{checkpoint}/{IDENTITY_FILE}", str(e)) from e
    if not isinstance(known, dict):
        raise damage(f"{checkpoint}/{IDENTITY_FILE}", "it is no object")
    check_files(files, checkpoint)
    if not files.names("offsets"):
        return known  # A mistyped setting may be corrected.
    for name in {**known, **mine}:
        without_it = _UTC if name == _ZONE else None
        if name not in without and known.get(name) != mine.get(name):
            raise OptionError(
                f"{other}: its {name} is {known.get(name, without_it)!r}, and now it is "
                f"{mine.get(name, without_it)!r}; give this one a directory of its own"
            )
    return known


def check_not_set_back(files: FileSystem, checkpoint: str, outputs: Sequence[Output]) -> None:
    """
    Check that no open output has a batch that the checkpoint does not know of, since Spark would plan it anew, with
    other records, and the output would skip it; and that none lacks a batch that was written to it.

    :raise PipelineError: one has, so the checkpoint is older than the output; or one lacks it.
    """
    if "metadata" not in files.names(""):
        return
    query = query_id(files, checkpoint)
    planned = last_planned(files)
    written, names = _last_written(files)
    for output in outputs:
        if output.name in names and (last := output.last_batch(query)) < written:
            raise PipelineError(
                f"{output.name} was set back, or made anew: batch {written} of this query was written to it, and the "
                f"last one that it has is {last if last >= 0 else 'none'}. What is missing there would not be written "
                "again; restore it, or start over with another checkpoint and other outputs"
            )
        if (last := output.last_batch(query)) > planned:
            raise PipelineError(
                f"{checkpoint} was set back, as by restoring an older copy, or another run is ahead of this one: "
                f"{output.name} has batch {last} of this query, and the last one in the checkpoint is "
                f"{planned if planned >= 0 else 'none'}. What was read since then would be left out there; restore a "
                "checkpoint that has the batch, or start over with another checkpoint and other outputs"
            )


def note_written(files: FileSystem, number: int, outputs: Sequence[Output]) -> None:
    """Write down that outputs have a batch with rows, as far as they keep its number."""
    names = [output.name for output in outputs if output.keeps_batch]
    if not names:
        return
    try:
        files.create(f"{WRITTEN}/{number}", json.dumps(names).encode())
    except FileExistsError:
        return  # The batch was repeated.
    for name in files.names(WRITTEN):
        if name != str(number):
            files.delete(f"{WRITTEN}/{name}")


def _last_written(files: FileSystem) -> tuple[int, Sequence[str]]:
    """
    The last batch of :func:`note_written`, and the outputs that have it; −1: there is none.

    :raise PipelineError: the checkpoint is damaged.
    """
    last = max((int(name) for name in files.names(WRITTEN) if name.isdigit()), default=-1)
    if last < 0:
        return last, ()
    try:
        return last, list(json.loads(files.read(f"{WRITTEN}/{last}")))
    except (OSError, ValueError, TypeError) as e:
        raise damage(f"{files.url}/{WRITTEN}/{last}", str(e)) from e


def query_id(files: FileSystem, checkpoint: str) -> str:
    """
    Spark's id of a query, which is the same after restarts; Spark writes it to a new checkpoint first.

    :raise PipelineError: the checkpoint is damaged.
    """
    try:
        return str(json.loads(files.read("metadata"))["id"])
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise damage(f"{checkpoint}/metadata", f"it does not say which query it is of ({e!r})") from e


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
        raise damage(f"{files.url}/{LATE_FILE}", str(e)) from e
    if found.share > running.max_late_share:
        raise query.too_many_late(found, running.max_late_share, asdict(found), earlier=True)
    files.delete(LATE_FILE)


def note_late(files: FileSystem, found: LateEvents) -> None:
    """Write down that the run failed with too many late events."""
    files.create(LATE_FILE, json.dumps(asdict(found)).encode())
