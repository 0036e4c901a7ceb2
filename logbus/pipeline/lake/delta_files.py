"""Files of a Delta Lake table that this project reads and writes itself: states of loads, and versions of the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrs import frozen

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.delta_actions import STATES, Position
from logbus.pipeline.lake.file_system import LocalFileSystem
from logbus.pipeline.lake.object_store import ArrowStore
from logbus.pipeline.lake.store_patience import waiting

KEEP = 20
"""States before the last that are kept, for readers that are under way."""

_HISTORY = 100
"""Versions that are looked through for other programs' changes."""


@frozen
class DeltaFiles:
    """
    :ivar store: the table's directory.
    """

    store: ArrowStore

    def history(self, last: int, after: int = -1) -> Iterator[dict[str, Any]]:
        """
        What the log says of versions, newest first, as far as it is kept; delta-rs' own reads many more of them.

        :param last: the first one;  ``after``: the one behind the last.
        """
        for version in range(last, max(after, last - _HISTORY), -1):
            try:
                lines = self.read(f"_delta_log/{version:020}.json").splitlines()
            except FileNotFoundError:
                return
            infos = [info for line in lines if (info := json.loads(line).get("commitInfo")) is not None]
            yield {**(infos[0] if infos else {}), "version": version}

    def read(self, path: str) -> bytes:
        """
        All of a file; its path is relative to the table's directory.

        :raise FileNotFoundError: there is none.
        :raise LakeError: it cannot be read.
        """
        with (
            self._naming(path, "read"),
            self.store.file_system().open_input_stream(f"{self.store.root()}/{path}") as file,
        ):
            return bytes(file.read())

    def write(self, path: str, content: bytes) -> None:
        """
        Write a file, and flush a local one to disk.

        :raise LakeError: it cannot be written.
        """
        files, target = self.store.file_system(), f"{self.store.root()}/{path}"
        with self._naming(path, "written"):
            if self.store.local_root() is not None:
                files.create_dir(target.rpartition("/")[0])
            with files.open_output_stream(target) as file:
                file.write(content)
            if (root := self.store.local_root()) is not None:
                LocalFileSystem(root).sync([path])

    @contextmanager
    def _naming(self, path: str, done: str) -> Iterator[None]:
        """A context whose errors name the table's file, except that there is none; a silent store is told."""
        url = f"{self.store.url}/{path}"
        try:
            with waiting(url, f"to have this file {done}"):
                yield
        except FileNotFoundError:
            raise
        except OSError as e:
            why = " ".join((e.strerror or str(e)).split())
            raise LakeError(f"{url} cannot be {done}: {why}") from e

    def sync(self, version: int) -> None:
        """Flush a version of a local table to disk."""
        if (root := self.store.local_root()) is not None:
            LocalFileSystem(root).sync([f"_delta_log/{version:020}.json"])

    def clean_up(self, last: Position) -> None:
        """Delete states long before the last one, every :data:`KEEP` commits."""
        from pyarrow import fs

        if last.commit % KEEP:
            return
        files = self.store.file_system()
        found = files.get_file_info(fs.FileSelector(f"{self.store.root()}/{STATES}", allow_not_found=True))
        name = last.path.rpartition("/")[2]
        for each in sorted(each.base_name for each in found if each.base_name < name)[:-KEEP]:
            try:
                files.delete_file(f"{self.store.root()}/{STATES}/{each}")
            except FileNotFoundError:
                pass
