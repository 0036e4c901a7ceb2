"""A file system that Hadoop has a driver for, such as HDFS, used through Spark's Java gateway."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attrs import define, field

from logbus.pipeline.error_text import short_message
from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.file_system import draft_of
from logbus.pipeline.lake.store_patience import waiting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def java_errors(what: str) -> Iterator[None]:
    """Turn Java exceptions into Python's FileExistsError and FileNotFoundError, or LakeError."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as e:  # PySpark converts some Java exceptions, such as IllegalArgumentException.
        raise LakeError(f"{what}: {short_message(str(e))}") from e
    except Py4JJavaError as e:
        kind = e.java_exception.getClass().getSimpleName()
        if kind == "FileAlreadyExistsException":
            raise FileExistsError(what) from e
        if kind == "FileNotFoundException":
            raise FileNotFoundError(what) from e
        # A namenode's message is followed by the lines of its stack.
        said = short_message(str(e.java_exception.getMessage() or "no message"))
        raise LakeError(f"{what}: {kind}: {said}") from e


@contextmanager
def _asking(url: str, what: str) -> Iterator[None]:
    """
    As :func:`java_errors`; and says if it takes long, since Hadoop tries a silent namenode for a quarter of an hour.

    :param what: is done there, such as "to read this file".
    """
    with waiting(url, what), java_errors(url):
        yield


@define
class HadoopFileSystem:
    """See :class:`.FileSystem`; files are created by Hadoop's rename that does not overwrite."""

    spark: SparkSession = field(repr=False)
    url: str
    _jvm: Any = field(init=False, repr=False)
    _fs: Any = field(init=False, repr=False)
    _context: Any = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._jvm = self.spark.sparkContext._jvm
        configuration = self.spark._jsparkSession.sessionState().newHadoopConf()
        with java_errors(self.url):
            self._fs = self._path("").getFileSystem(configuration)
            self._context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._fs.getUri(), configuration)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.url}/{path}" if path else self.url)

    def names(self, directory: str) -> list[str]:
        return sorted(str(status.getPath().getName()) for status in self._list(directory))

    def _list(self, directory: str) -> Iterable[Any]:
        try:
            with _asking(f"{self.url}/{directory}", "to list this directory"):
                return list(self._fs.listStatus(self._path(directory)))
        except FileNotFoundError:
            return []

    def walk(self, directory: str) -> Iterator[tuple[str, int]]:
        for status in self._list(directory):
            path = f"{directory}/{status.getPath().getName()}" if directory else str(status.getPath().getName())
            if status.isDirectory():
                yield from self.walk(path)
            else:
                yield path, int(status.getLen())

    def read(self, path: str) -> bytes:
        with _asking(f"{self.url}/{path}", "to read this file"):
            stream = self._fs.open(self._path(path))
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def create(self, path: str, content: bytes) -> None:
        directory, _, name = path.rpartition("/")
        draft = self._path(f"{directory}/{draft_of(name)}")
        with _asking(f"{self.url}/{path}", "to create this file"):
            stream = self._fs.create(draft, False)
            try:
                stream.write(bytearray(content))
                stream.hsync()
            finally:
                stream.close()
            try:
                self._rename(draft, self._path(path))
            except FileNotFoundError as e:
                raise FileExistsError(path) from e
            finally:
                self._fs.delete(draft, False)

    def _rename(self, source: Any, target: Any) -> None:
        gateway: Any = self.spark.sparkContext._gateway
        none = gateway.new_array(self._jvm.org.apache.hadoop.fs.Options.Rename, 0)
        with java_errors(f"{source} to {target}"):
            self._context.rename(source, target, none)

    def move(self, source: str, target: str) -> None:
        before, after = self._path(source), self._path(target)
        with waiting(f"{self.url}/{source}", "to move this file"), java_errors(f"{self.url}/{source} to {target}"):
            self._fs.mkdirs(after.getParent())
            try:
                self._rename(before, after)
            except (FileNotFoundError, FileExistsError):
                # Another job was faster: the file is moved if only the target exists.
                if self._fs.exists(before) or not self._fs.exists(after):
                    raise

    def delete(self, path: str) -> None:
        with _asking(f"{self.url}/{path}", "to delete this"):
            self._fs.delete(self._path(path), True)

    def sync(self, paths: Iterable[str]) -> None:
        """Does nothing: HDFS makes a file as durable as it can when it is closed."""
