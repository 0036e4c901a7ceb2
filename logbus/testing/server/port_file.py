"""
The JSON file that tells a program where its test server is.

The file appears at once and whole, once the server is ready; or with the member ``error``, if it could not start.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import define, field

from logbus.errors import LogbusError


class PortFileError(LogbusError):
    """The file cannot be used."""


@define(eq=False)
class PortFile:
    """
    :param path: the file, which must not exist yet: a program that waits for it would read the addresses of another
        server.
    """

    path: Path
    _is_ours: bool = field(default=False, init=False)

    def check(self) -> None:
        """
        Check that the file can be written, before anything is started.

        :raise PortFileError: it exists, or its directory cannot be written.
        """
        if os.path.lexists(self.path):
            raise self._exists()
        try:
            self._draft.touch(mode=0o600)
            self._draft.unlink()
        except OSError as e:
            raise self._unwritable(e) from None

    def write(self, content: Mapping[str, Any]) -> None:
        """
        Write the file, readable for its owner only: it has a token.

        :raise PortFileError: somebody else has made it meanwhile, or it cannot be written.
        """
        draft = self._draft
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(content, file, indent=2)
                file.write("\n")
            try:
                # Unlike a rename, a link replaces nothing.
                os.link(draft, self.path)
                draft.unlink()
            except FileExistsError:
                draft.unlink()
                raise self._exists() from None
            except OSError:
                # A file system without links.
                draft.rename(self.path)
        except OSError as e:
            raise self._unwritable(e) from None
        self._is_ours = True

    def remove(self) -> None:
        """Remove the file, if :meth:`write` has made it."""
        if self._is_ours:
            self._is_ours = False
            with contextlib.suppress(OSError):
                self.path.unlink()

    @property
    def _draft(self) -> Path:
        return self.path.with_name(f".{self.path.name}.{os.getpid()}")

    def _exists(self) -> PortFileError:
        return PortFileError(
            f"--port-file {self.path}: exists already; remove it if its server has ended, or name another file"
        )

    def _unwritable(self, error: OSError) -> PortFileError:
        return PortFileError(f"--port-file {self.path}: cannot be written: {error.strerror}")
