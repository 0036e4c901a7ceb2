"""
Explains the failure of a query whose state is damaged: Spark's error names no file, or does not say what to do.

The state is in the checkpoint's directory ``state``, with a directory for each operator, partition and store. It may be
large, so it is looked at only once a query has failed.
"""

from __future__ import annotations

import re

from logbus.pipeline.errors import PipelineError
from logbus.pipeline.jobs.checkpoint_files import ADVICE, damage
from logbus.pipeline.jobs.checksum_files import checksum_problem
from logbus.pipeline.lake.file_system import FileSystem

_NO_DIRECTORY = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
_NOT_LOADED = "CANNOT_LOAD_STATE_STORE"
_UNREADABLE = "the query's state cannot be read"
"""The error of :mod:`~logbus.pipeline.jobs.open_state`."""

_MISSING = re.compile(r"/(state/\d+/\d+/[^\s\]]+) does not exist")
_CAUSE = re.compile(rf"(?:.*{_UNREADABLE}: )?(?:.*SQLSTATE: \w+: )?(?:[\w.$]+(?:Exception|Error): )?(.*)", re.DOTALL)
_MOST = 256 << 20
"""Bytes of a file that is still read to compare its checksums."""


def state_damage(checkpoint: FileSystem, url: str, problem: str) -> PipelineError | None:
    """
    The error that a query failed because of its state; None: something else was wrong.

    :param url: of the checkpoint, as the user named it.
    :param problem: Spark's error.
    """
    is_of_state = _NOT_LOADED in problem or _UNREADABLE in problem
    if _NO_DIRECTORY in problem or (is_of_state and not any(checkpoint.walk("state"))):
        return damage(f"{url}/state", "it is missing or empty, and there are batches")
    if found := _first_damaged(checkpoint, everything=is_of_state):
        return damage(f"{url}/{found[0]}", found[1])
    if not is_of_state:
        return None
    if missing := _MISSING.search(problem):
        return damage(f"{url}/{missing[1]}", "it is missing")
    cause = _CAUSE.fullmatch(problem)
    assert cause is not None, "it matches everything"
    return PipelineError(f"{url}/state cannot be read: {cause[1]}; if it is damaged, {ADVICE}")


def _first_damaged(checkpoint: FileSystem, *, everything: bool) -> tuple[str, str] | None:
    """
    A file of the state that has not its checksum, and what is wrong.

    :param everything: also those that are written again when a batch is repeated. Of the others, which say what is in
        the state, Spark's errors do not tell that they are of it.
    """
    for path, size in sorted(checkpoint.walk("state")):
        if path.rpartition("/")[2].startswith("."):
            continue  # Checksums, and what Spark was writing when it ended: it reads none of the latter.
        if size > _MOST or not (everything or "/_metadata/" in path):
            continue
        if problem := checksum_problem(checkpoint, path, checkpoint.read(path)):
            return path, problem
    return None
