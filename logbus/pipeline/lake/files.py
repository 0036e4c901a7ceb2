"""
The files of a table, wherever Spark keeps them: this machine's file system, or one that Hadoop knows.

What a table needs of a file system: that a file can appear whole or not at all, and only if there is none of its name.
Of this machine's that is a link; of Hadoop's a rename that does not overwrite (HDFS keeps that promise; object stores
such as S3 do not).
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from attrs import define, field

from logbus.pipeline.errors import LakeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNSAFE = frozenset({"s3", "s3a", "s3n", "gs", "wasb", "wasbs", "oss", "cosn"})
"""Schemes of stores whose rename is a copy, or overwrites."""


class Files(Protocol):
    """Files below one directory; paths are relative to it, with slashes."""

    @property
    def url(self) -> str:
        """The directory, as Spark is told it."""

    def names(self, directory: str) -> list[str]:
        """What is in a directory, sorted; nothing if it does not exist."""

    def walk(self, directory: str) -> Iterator[tuple[str, int]]:
        """The files below a directory, by their paths, with their sizes."""

    def read(self, path: str) -> bytes:
        """
        A file.

        :raise FileNotFoundError: there is none.
        """

    def create(self, path: str, content: bytes) -> None:
        """
        Make a file appear, whole, with its directories; it is durable then.

        :raise FileExistsError: there is one.
        """

    def move(self, source: str, target: str) -> None:
        """
        Move a file; done already if only the target is there.

        :raise FileNotFoundError: neither is there.
        """

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it, if it is there."""

    def sync(self, paths: Iterable[str]) -> None:
        """Make files that were written and closed durable."""


@define
class LocalFiles:
    """This machine's."""

    root: Path

    @property
    def url(self) -> str:
        return self.root.absolute().as_uri()

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
        draft = target.parent / f".{target.name}.{uuid.uuid4().hex}"
        try:
            with draft.open("xb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            os.link(draft, target)
            _sync(target.parent)
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
        directories = set()
        for path in paths:
            _sync(self.root / path)
            directories.add((self.root / path).parent)
        for directory in directories:
            _sync(directory)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@define
class HadoopFiles:
    """Those of a file system that Hadoop has a driver for, through Spark's own gateway to Java."""

    spark: SparkSession = field(repr=False)
    url: str
    _jvm: Any = field(init=False, repr=False)
    _fs: Any = field(init=False, repr=False)
    _context: Any = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._jvm = self.spark.sparkContext._jvm
        configuration = self.spark._jsparkSession.sessionState().newHadoopConf()
        root = self._path("")
        self._fs = root.getFileSystem(configuration)
        self._context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._fs.getUri(), configuration)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.url}/{path}" if path else self.url)

    def names(self, directory: str) -> list[str]:
        place = self._path(directory)
        if not self._fs.exists(place):
            return []
        return sorted(status.getPath().getName() for status in self._fs.listStatus(place))

    def walk(self, directory: str) -> Iterator[tuple[str, int]]:
        place = self._path(directory)
        if not self._fs.exists(place):
            return
        for status in self._fs.listStatus(place):
            path = f"{directory}/{status.getPath().getName()}" if directory else str(status.getPath().getName())
            if status.isDirectory():
                yield from self.walk(path)
            else:
                yield path, int(status.getLen())

    def read(self, path: str) -> bytes:
        place = self._path(path)
        if not self._fs.exists(place):
            raise FileNotFoundError(f"{self.url}/{path}")
        stream = self._fs.open(place)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def create(self, path: str, content: bytes) -> None:
        directory, _, name = path.rpartition("/")
        draft = self._path(f"{directory}/.{name}.{uuid.uuid4().hex}")
        stream = self._fs.create(draft, False)
        try:
            stream.write(bytearray(content))
            stream.hsync()
        finally:
            stream.close()
        try:
            self._rename(draft, self._path(path))
        except BaseException:
            self._fs.delete(draft, False)
            raise

    def _rename(self, source: Any, target: Any) -> None:
        from py4j.protocol import Py4JJavaError

        gateway: Any = self.spark.sparkContext._gateway
        none = gateway.new_array(self._jvm.org.apache.hadoop.fs.Options.Rename, 0)
        try:
            self._context.rename(source, target, none)
        except Py4JJavaError as e:
            kind = e.java_exception.getClass().getSimpleName()
            if kind == "FileAlreadyExistsException":
                raise FileExistsError(str(target)) from e
            if kind == "FileNotFoundException":
                raise FileNotFoundError(str(source)) from e
            raise

    def move(self, source: str, target: str) -> None:
        before, after = self._path(source), self._path(target)
        self._fs.mkdirs(after.getParent())
        try:
            self._rename(before, after)
        except (FileNotFoundError, FileExistsError):
            # Another job was before us: it is done if only the target is left.
            if self._fs.exists(before) or not self._fs.exists(after):
                raise

    def delete(self, path: str) -> None:
        self._fs.delete(self._path(path), True)

    def sync(self, paths: Iterable[str]) -> None:
        """A file of HDFS is durable when it is closed, as far as it is ever."""


def files_at(spark: SparkSession, url: str) -> Files:
    """
    The files at a URL or a path.

    :raise LakeError: they are in a store that cannot keep what a table promises.
    """
    path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(url)  # type: ignore[union-attr]
    fs = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    qualified = str(fs.makeQualified(path).toString()).rstrip("/")
    scheme = urlsplit(qualified).scheme
    if scheme == "file":
        return LocalFiles(Path(unquote(urlsplit(qualified).path)))
    if scheme in UNSAFE:
        raise LakeError(
            f"{url}: a {scheme}: store cannot make a file appear only if there is none; use a local directory or HDFS"
        )
    return HadoopFiles(spark, qualified)
