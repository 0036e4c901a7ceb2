"""
Checks the files that Spark keeps in a checkpoint, before Spark reads them: its own errors do not say what to do.

``metadata`` has the query's id. ``offsets`` has a file for each planned batch, and ``commits`` one for each finished
batch: a line with the format's version, and lines of JSON. Spark goes on from the last of them. On a local
disk each has a file of checksums, which Spark does not compare.
"""

from __future__ import annotations

import json
import re

from logbus.pipeline.errors import PipelineError
from logbus.pipeline.jobs.checksum_files import checksum_problem
from logbus.pipeline.lake.file_system import FileSystem

_READ = 2
"""The last files of a directory that Spark reads."""

_VERSION = re.compile(r"v\d+")
_CHECKSUMS = re.compile(r"\.(\d+)\.crc")

ADVICE = "restore all of the checkpoint from a copy, or start over with another checkpoint and other outputs"


def damage(file: str, why: str) -> PipelineError:
    """The error that a file of a checkpoint is damaged."""
    return PipelineError(f"{file} is damaged: {why}; {ADVICE}")


def check_files(checkpoint: FileSystem, url: str) -> None:
    """
    Check that Spark can go on from a checkpoint.

    :param url: of the checkpoint, as the user named it.
    :raise PipelineError: a file is damaged or missing; the error names it.
    """
    batches = {directory: _batches(checkpoint, directory) for directory in ("offsets", "commits")}
    if "metadata" in checkpoint.names(""):
        try:
            content = checkpoint.read("metadata")
            known = json.loads(content)["id"]
        except (ValueError, KeyError, TypeError) as e:
            raise damage(f"{url}/metadata", f"it does not say which query it is of ({_short(e)})") from e
        if not isinstance(known, str):
            raise damage(f"{url}/metadata", "it does not say which query it is of")
        if problem := checksum_problem(checkpoint, "metadata", content):
            raise damage(f"{url}/metadata", problem)
    elif any(batches.values()):
        raise damage(f"{url}/metadata", "it is missing, and there are batches")
    for directory, numbers in batches.items():
        for number in numbers[-_READ:]:
            file = f"{directory}/{number}"
            content = checkpoint.read(file)
            if problem := _problem(content) or checksum_problem(checkpoint, file, content):
                raise damage(f"{url}/{file}", problem)
    if batches["commits"] and batches["commits"][-1] not in batches["offsets"]:
        raise damage(f"{url}/offsets/{batches['commits'][-1]}", "it is missing, and the batch is finished")
    for directory, numbers in batches.items():
        left = [int(found[1]) for name in checkpoint.names(directory) if (found := _CHECKSUMS.fullmatch(name))]
        if (last := max(left, default=-1)) > max(numbers, default=-1):
            # Spark would take the file that it cannot create for another query's.
            raise damage(f"{url}/{directory}/{last}", f"it is missing, and its checksums are there, in .{last}.crc")


def last_planned(checkpoint: FileSystem) -> int:
    """The number of the last batch that was planned, finished or not; −1: there is none."""
    return max(_batches(checkpoint, "offsets"), default=-1)


def _batches(checkpoint: FileSystem, directory: str) -> list[int]:
    return sorted(int(name) for name in checkpoint.names(directory) if name.isdigit())


def _problem(content: bytes) -> str:
    """The problem of a file of offsets or commits; "": there is none."""
    try:
        version, *lines = content.decode().splitlines() or [""]
    except UnicodeDecodeError as e:
        return f"it is no text ({_short(e)})"
    if not _VERSION.fullmatch(version):
        return "it is empty" if not content.strip(b"\0") else f"it begins with {version[:20]!r}, and not with a version"
    if not lines:
        return "it ends after its first line"
    if version != "v1":
        return ""
    for number, line in enumerate(lines, 2):
        try:
            if line != "-":
                json.loads(line)
        except ValueError as e:
            return f"line {number} is no JSON ({_short(e)})"
    return ""


def _short(error: Exception) -> str:
    return f"no {error}" if isinstance(error, KeyError) else str(error)
