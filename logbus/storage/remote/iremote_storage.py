"""The interface of an object store (Kafka: RemoteStorageManager), and its errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from logbus.errors import LogbusError


class RemoteStorageError(LogbusError):
    """The object store did not do what it was asked to, or not now."""


class ObjectMissing(RemoteStorageError):
    """There is no object of that name."""


class ObjectCorrupt(RemoteStorageError):
    """An object is not what was written."""


class RemoteStorage(Protocol):
    """An object store. All methods block, and are called in threads, several at a time."""

    @property
    def where(self) -> str:
        """Where the objects are, for messages."""

    def write(self, name: str, parts: Iterable[bytes]) -> None:
        """
        Write an object, or replace it: it is durable when this returns.

        :raise RemoteStorageError: it may be there in part.
        """

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """
        Read an object, or the bytes from ``start`` to ``end``; fewer if it is shorter.

        :raise ObjectMissing: there is none.
        :raise RemoteStorageError: it cannot be read now.
        """

    def open_file(self, name: str) -> int | None:
        """
        A descriptor of an object that is a file of this machine, for the caller to close; None: it is none.

        :raise ObjectMissing, RemoteStorageError: as :meth:`read`.
        """
        return None

    def delete(self, names: Iterable[str]) -> None:
        """
        Delete objects; missing ones are ignored.

        :raise RemoteStorageError: some may be left.
        """

    def names(self, directory: str) -> Iterator[str]:
        """
        The names of a directory's objects, without the directory.

        :raise RemoteStorageError: it cannot be listed.
        """
