"""Checks before Spark starts that a local directory, of a table or a checkpoint, can be written to."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.file_system import local_path


def check_writable(url: str) -> None:
    """
    Check that a directory can be written to, or else, with the directories above it that are missing, created.

    :param url: or a path; one that is not certain to be local is left to others.
    :raise LakeError: it cannot.
    """
    path = local_path(url)
    if path is None:
        return
    absolute = path.absolute()
    for place in (absolute, *absolute.parents):
        if os.path.lexists(place):
            if place == Path("/") and not url.startswith("file:"):
                # Nothing of it is here: Spark's default file system may be another one.
                return
            _check(url, place, is_it=place == absolute)
            return


def _check(url: str, place: Path, *, is_it: bool) -> None:
    """Check the nearest directory that exists; ``is_it``: it is the wanted one."""
    if not place.exists():
        raise LakeError(f"{url}: {place} is a link to something that is not there")
    if not place.is_dir():
        raise LakeError(f"{url}: {place} is a file, and has to be a directory")
    if os.access(place, os.W_OK | os.X_OK):
        try:
            os.rmdir(tempfile.mkdtemp(prefix=".logbus-", dir=place))  # Root has all rights, also in /proc.
            return
        except OSError as e:
            why = f"a new directory in {place} is refused ({e.strerror})"
    else:
        why = "this user has no right to, or its file system is read-only"
    if is_it:
        raise LakeError(f"{url}: the directory cannot be written to: {why}")
    raise LakeError(f"{url}: the directory is not there, and cannot be created in {place}: {why}")
