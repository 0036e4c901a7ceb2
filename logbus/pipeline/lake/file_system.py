"""
The file system of a table: local, or one that Hadoop supports (Spark: CheckpointFileManager).

A table needs to create a file atomically, and only if there is none of that name. Locally that is a hard link; with
Hadoop a rename that does not overwrite, which HDFS guarantees and object stores such as S3 do not. So only these two
are allowed: two jobs on another store might replace each other's commits, without an error.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from attrs import define

from logbus.pipeline.errors import LakeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAFE_SCHEMES = ("file", "hdfs")
"""URL schemes of stores that create a file atomically, and only if there is none of that name."""

# As Hadoop's Path: a colon behind a slash is part of a name.
_SCHEME = re.compile("([^/:]*):")

_LOCAL = re.compile(r"(?:file:(?://)?)?([^:]+)")

_DRAFT = ".draft-"
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS})


class FileSystem(Protocol):
    """Files below one directory; paths are relative to it, with slashes."""

    @property
    def url(self) -> str:
        """The directory's URL, as Spark takes it."""

    def names(self, directory: str) -> list[str]:
        """The names in a directory, sorted; none if it does not exist."""

    def walk(self, directory: str) -> Iterator[tuple[str, int]]:
        """The paths and sizes of all files below a directory."""

    def read(self, path: str) -> bytes:
        """
        The content of a file.

        :raise FileNotFoundError: there is none.
        """

    def create(self, path: str, content: bytes) -> None:
        """
        Create a file atomically and durably, with its directories.

        :raise FileExistsError: there is one; or another job has deleted the draft meanwhile: refresh and retry.
        """

    def move(self, source: str, target: str) -> None:
        """
        Move a file; does nothing if only the target exists.

        :raise FileNotFoundError: neither exists.
        """

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with its content, if it exists."""

    def sync(self, paths: Iterable[str]) -> None:
        """Flush closed files and their directory entries to disk."""


@define
class LocalFileSystem:
    """Files below a local directory."""

    root: Path

    @property
    def url(self) -> str:
        # Not as_uri(): Hadoop does not decode percent-encoding.
        return f"file://{self.root.absolute()}"

    def names(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(self.root / directory))
        except FileNotFoundError:
            return []

    def walk(self, directory: str) -> Iterator[tuple[str, int]]:
        for place, _, names in os.walk(self.root / directory):
            for name in names:
                path = Path(place, name)
                yield path.relative_to(self.root).as_posix(), path.stat().st_size

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def create(self, path: str, content: bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.parent / draft_of(target.name)
        try:
            try:
                with draft.open("xb") as out:
                    out.write(content)
                    out.flush()
                    os.fsync(out.fileno())
            except OSError as e:
                # An error such as "disk full" lacks the file's name.
                raise OSError(e.errno, e.strerror, str(target)) from e
            try:
                os.link(draft, target)
            except FileNotFoundError as e:
                raise FileExistsError(str(target)) from e
            except OSError as e:
                if e.errno not in _NO_LINKS:
                    raise
                raise LakeError(f"{self.url} is on a file system without hard links, by which commits appear") from e
            self.sync([path])
        finally:
            draft.unlink(missing_ok=True)

    def move(self, source: str, target: str) -> None:
        before, after = self.root / source, self.root / target
        after.parent.mkdir(parents=True, exist_ok=True)
        try:
            before.replace(after)
        except FileNotFoundError:
            if not after.exists():
                raise

    def delete(self, path: str) -> None:
        target = self.root / path
        if target.is_dir():
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)

    def sync(self, paths: Iterable[str]) -> None:
        directories: set[Path] = set()
        for path in paths:
            _sync(self.root / path)
            above = (self.root / path).relative_to(self.root).parents
            directories.update(self.root / each for each in above)
        for directory in directories:
            _sync(directory)


def draft_of(name: str) -> str:
    """The temporary name of a file that will be called ``name``."""
    return f"{_DRAFT}{name}.{uuid.uuid4().hex}"


def is_draft(name: str) -> bool:
    """Whether a name is a temporary one, of a file that a killed job left."""
    return name.startswith(_DRAFT)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def local_path(url: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """
    The path of a URL or path that is certain, without Spark, to be a local one; None: it is not.

    :param environ: may tell Hadoop that paths are of another file system.
    """
    if environ.keys() & {"HADOOP_CONF_DIR", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR"}:
        return None
    local = _LOCAL.fullmatch(url)
    return None if local is None else Path(local[1])


def file_system_at(spark: SparkSession | None, url: str) -> FileSystem:
    """
    The file system at a URL or path.

    :param spark: None: the URL has a :func:`local_path`.
    :raise LakeError: it is on a store that is not allowed, or cannot be reached.
    """
    from logbus.pipeline.lake.hadoop_file_system import HadoopFileSystem, java_errors

    check_store(url)
    if spark is None:
        path = local_path(url)
        assert path is not None, url
        return LocalFileSystem(path)
    with java_errors(url):
        path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(url)  # type: ignore[union-attr]
        fs = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        qualified = str(fs.makeQualified(path).toString()).rstrip("/")
    scheme, _, rest = qualified.partition(":")
    if scheme == "file":
        return LocalFileSystem(Path(f"/{rest.lstrip('/')}"))
    check_store(qualified)  # Without a scheme a URL is on Hadoop's default store.
    return HadoopFileSystem(spark, qualified)


def check_store(url: str) -> None:
    """
    Check that a URL or path is on a store that a table or a checkpoint can be on.

    :raise LakeError: it is not known to be.
    """
    found = _SCHEME.match(url)
    if found and found[1] not in SAFE_SCHEMES:
        raise LakeError(
            f"{url}: {found[1]}: is not known to make a file appear only if there is none, as commits have to; "
            "use a local directory, such as /lake/views or file:///lake/views, or HDFS, such as hdfs://host/lake/views"
        )
