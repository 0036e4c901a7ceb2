"""
An archive of Spark's classes (class data sharing, JEP 350), from which its Java starts in half the processor time.

A session that is asked to has Java write the archive as it ends, which takes longer than one start saves; later ones
map it into memory. The file's name depends on the runtime and on the jars, so that others get an archive of their own,
and Java itself ignores an archive that does not fit. It is in the user's cache directory: nobody else may write what a
Java process takes for its code.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from attrs import frozen

_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Java would list the classes that it cannot archive, on standard output."""

_UNFIT = frozenset('"\\ \t\n')
"""Characters that Spark takes apart in Java's options."""


@frozen
class ClassArchive:
    """
    An archive, which may not exist yet.

    :ivar path: its file.
    :ivar draft: what Java writes as it ends, until it is complete; one for each process.
    """

    path: Path
    draft: Path

    @property
    def exists(self) -> bool:
        """Whether there is an archive to start from."""
        return self.path.is_file()

    @property
    def java_options(self) -> str:
        """The options with which Java uses the archive, or writes it."""
        used = f"-XX:SharedArchiveFile={self.path}" if self.exists else f"-XX:ArchiveClassesAtExit={self.draft}"
        return f"-Xshare:auto {used} {_SILENT}"

    def keep(self, status: int) -> None:
        """
        Keep what Java has written, if that is all: Java crashes where an archive is cut off.

        :param status: with which Java has ended.
        """
        with contextlib.suppress(OSError):
            if status != 0:
                self.draft.unlink(missing_ok=True)
                return
            with self.draft.open("rb") as file:
                os.fsync(file.fileno())
            self.draft.replace(self.path)


def archive_for(environ: Mapping[str, str], java: str, jars: Path, process: int) -> ClassArchive | None:
    """
    The archive for a Java runtime and a directory of jars.

    :param java: says which runtime it is.
    :param process: the number of this process.
    :returns: None: there is no directory for it that is this user's own.
    """
    directory = cache_directory(environ)
    if directory is None:
        return None
    try:
        name = f"spark-{_fingerprint(java, jars)}.jsa"
        _delete_drafts(directory.glob(f"{name}.*"))
    except OSError:
        return None
    return ClassArchive(directory / name, directory / f"{name}.{process}")


def cache_directory(environ: Mapping[str, str]) -> Path | None:
    """The user's directory for what processes share and run; None: there is none that nobody else may write to."""
    cache = environ.get("XDG_CACHE_HOME") or (f"{environ['HOME']}/.cache" if environ.get("HOME") else "")
    if not cache.startswith("/") or _UNFIT & set(cache):
        return None
    directory = Path(cache, "logbus")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
    except OSError:
        return None
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return None
    return directory


def _fingerprint(java: str, jars: Path) -> str:
    files = sorted((each.name, each.stat().st_size, each.stat().st_mtime_ns) for each in jars.glob("*.jar"))
    return hashlib.sha256(repr((java, str(jars), files)).encode()).hexdigest()[:16]


def _delete_drafts(drafts: Iterable[Path]) -> None:
    """Delete those of processes that have ended."""
    for draft in drafts:
        process = draft.suffix[1:]
        if process.isdigit() and not Path("/proc", process).exists():
            draft.unlink(missing_ok=True)
