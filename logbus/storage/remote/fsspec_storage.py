"""
An object store behind fsspec: S3 (s3fs), Google Cloud Storage (gcsfs), or a directory.

fsspec and its file systems are imported when a store is opened: they take a part of a second.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from attrs import define, field

from logbus.errors import ConfigError
from logbus.extras import install_hint
from logbus.portability import sync_directory
from logbus.storage.remote.iremote_storage import ObjectMissing, RemoteStorage, RemoteStorageError

if TYPE_CHECKING:
    from logbus.storage.remote.signed_reads import SignedReads

_LOCAL = frozenset({"file", "local"})

_GOOGLE = frozenset({"gs", "gcs"})

_SIGNS = frozenset({"s3", "s3a"})
"""Where URLs can be signed without another request."""

_PROBLEMS = (OSError, ValueError, RuntimeError, TimeoutError, KeyError)
"""What file systems raise when a store is away, besides the errors of their own libraries."""


@define(eq=False)
class FsspecStorage(RemoteStorage):
    """
    The objects below one URL.

    :ivar where: the URL.
    """

    _fs: Any
    _root: str
    where: str
    _is_local: bool = False
    _signed: SignedReads | None = None
    _made: set[str] = field(factory=set, init=False)

    @classmethod
    def open(cls, uri: str, options: Mapping[str, Any]) -> FsspecStorage:
        """
        Open the store at a URL. Connects to nothing yet.

        :param options: of its file system, as fsspec takes them (``storage_options``).
        :raise ConfigError: there is no such kind of store, or what it takes is not installed.
        """
        key = "remote.log.storage.uri"
        protocol, colon, _ = uri.partition("://")
        if not colon:
            raise ConfigError(
                f"{key}: {uri!r} is not valid; accepted: a URL such as s3://bucket/logs, gs://bucket/logs or "
                "file:///mnt/logs"
            )
        try:
            import fsspec
        except ImportError:
            raise ConfigError(f"{key}: {uri} takes fsspec; {install_hint('tiered')}") from None
        if protocol in _GOOGLE:
            # Unless it is wanted, gcsfs shall not ask by gRPC for what kind of bucket it is: where only the HTTP API is
            # reached, as behind a proxy, that takes a minute for each bucket, and we need none of what it is for.
            os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
        try:
            fs, root = fsspec.core.url_to_fs(uri, **options)
        except ImportError as problem:
            raise ConfigError(f"{key}: {uri} takes more: {problem}; {install_hint('tiered')}") from None
        except (ValueError, TypeError) as problem:
            raise ConfigError(f"{key}: {uri} is not valid: {problem}") from None
        if not root.strip("/"):
            raise ConfigError(f"{key}: {uri} names no bucket or directory")
        signed: SignedReads | None = None
        if protocol in _SIGNS:
            # Imports an HTTP client.
            from logbus.storage.remote.signed_reads import SignedReads, are_usual

            signed = SignedReads(fs.sign) if are_usual(options) else None
        return cls(fs, root.rstrip("/"), uri, protocol in _LOCAL, signed)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def _errors(self, what: str, name: str) -> Iterator[None]:
        try:
            yield
        except RemoteStorageError:
            raise
        except Exception as problem:
            # Each library has its own root of errors; only programming errors are none of the store's.
            if isinstance(problem, (TypeError, AttributeError, NameError)) and not isinstance(problem, _PROBLEMS):
                raise
            raise RemoteStorageError(
                f"{self.where}/{name} cannot be {what}: {problem or type(problem).__name__}"
            ) from problem

    def write(self, name: str, parts: Iterable[bytes]) -> None:
        path = self._path(name)
        with self._errors("written", name):
            if self._is_local and (parent := path.rpartition("/")[0]) not in self._made:
                os.makedirs(parent, exist_ok=True)
                self._made.add(parent)
            try:
                self._write(path, parts)
            except FileNotFoundError:
                # Somebody removed the directory meanwhile.
                self._made.clear()
                raise

    def _write(self, path: str, parts: Iterable[bytes]) -> None:
        with self._fs.open(path, "wb") as file:
            for part in parts:
                file.write(part)
            if self._is_local:
                file.flush()
                os.fsync(file.fileno())
        if self._is_local:
            sync_directory(path.rpartition("/")[0])

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        if self._signed is not None and end is not None:
            found = self._signed.read(self._path(name), start, end)
            if found is not None:
                return found
        with self._errors("read", name):
            try:
                data: bytes = self._fs.cat_file(self._path(name), start=start or None, end=end)
            except FileNotFoundError:
                raise ObjectMissing(f"{self.where}/{name} is missing") from None
            return data

    def open_file(self, name: str) -> int | None:
        if not self._is_local:
            return None
        with self._errors("read", name):
            try:
                return os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                raise ObjectMissing(f"{self.where}/{name} is missing") from None

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with self._errors("deleted", name), suppress(FileNotFoundError):
                self._fs.rm_file(self._path(name))

    def names(self, directory: str) -> Iterator[str]:
        with self._errors("listed", directory):
            try:
                # A listing from the cache of the file system would hide what other brokers wrote.
                self._fs.invalidate_cache()
                found = self._fs.ls(self._path(directory), detail=False)
            except FileNotFoundError:
                return
        for path in found:
            if name := path.rpartition("/")[2]:
                yield name
