"""
The address of a UNIX socket, also where its path is longer than the system takes in one.
"""

from __future__ import annotations

import os
from pathlib import Path

from attrs import define, field

LONGEST = 107
"""Bytes of a socket's path on Linux (``sun_path``), without the NUL at its end."""


@define(eq=False)
class SocketPath:
    """The address of a socket file; a long one goes through a descriptor of its directory."""

    path: Path
    _directory: int | None = field(default=None, init=False)

    def address(self) -> str:
        """
        An address that the system takes; valid until :meth:`close`.

        :raise OSError: there is no such directory.
        """
        if len(os.fsencode(self.path)) <= LONGEST:
            return str(self.path)
        if self._directory is None:
            self._directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._directory}/{self.path.name}"

    def close(self) -> None:
        """Close the descriptor, if there is one."""
        directory, self._directory = self._directory, None
        if directory is not None:
            os.close(directory)
