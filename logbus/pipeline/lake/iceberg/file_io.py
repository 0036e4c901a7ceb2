"""
PyIceberg's way to files by Arrow, which says of a store that it is silent, and of Azure's understands the URLs that
other engines write, too: ``abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from pyiceberg.io import ADLS_ACCOUNT_NAME
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT

from logbus.pipeline.blocking.patience import PATIENCE, telling
from logbus.pipeline.lake.object_store import AZURE_SCHEMES


class _StoreStream:
    """A file being written to a store, which takes it when it is closed."""

    def __init__(self, stream: Any, telling: Callable[[], AbstractContextManager[None]]) -> None:
        self._stream, self._telling = stream, telling

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def close(self) -> None:
        with self._telling():
            self._stream.close()

    def __enter__(self) -> _StoreStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _StoreFile(PyArrowFile):
    """A file of a store that may be silent: Arrow makes a request ten times, which takes minutes."""

    def _telling(self) -> Any:
        return telling(f"{self.location}: its store has not answered for {PATIENCE:g} s; still trying")

    def _file_info(self) -> Any:
        with self._telling():
            return super()._file_info()

    def open(self, seekable: bool = True) -> Any:
        with self._telling():
            return super().open(seekable)

    def create(self, overwrite: bool = False) -> Any:
        if not overwrite and self.exists():
            raise FileExistsError(f"{self.location} is there already")
        with self._telling():
            return _StoreStream(super().create(overwrite=True), self._telling)


class LakeFileIO(PyArrowFileIO):
    """Named by a catalog's property ``py-io-impl``, and made with its properties."""

    @staticmethod
    def parse_location(location: str, properties: Mapping[str, str] = EMPTY_DICT) -> tuple[str, str, str]:
        """
        The scheme of a URL, its host, and the path on the file system.

        :param properties: of the catalog.
        """
        scheme, host, path = PyArrowFileIO.parse_location(location, dict(properties))
        if scheme in AZURE_SCHEMES and "@" in host:
            path = host.partition("@")[0] + path.removeprefix(host)
        return scheme, host, path

    def new_input(self, location: str) -> PyArrowFile:
        """A file to read."""
        return self._told(super().new_input(location))

    def new_output(self, location: str) -> PyArrowFile:
        """A file to write."""
        return self._told(super().new_output(location))

    def _told(self, file: PyArrowFile) -> PyArrowFile:
        if self.parse_location(file.location, self.properties)[0] == "file":
            return file
        return _StoreFile(file.location, file._path, file._filesystem, file._buffer_size)

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> Any:
        account = (netloc or "").partition("@")[2].partition(".")[0]
        if scheme in AZURE_SCHEMES and account:
            return PyArrowFileIO({**self.properties, ADLS_ACCOUNT_NAME: account})._initialize_azure_fs()
        return super()._initialize_fs(scheme, netloc)
