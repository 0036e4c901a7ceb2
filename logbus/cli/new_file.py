"""
Files that commands write: they have their names once they are complete, and what is there stays unless told otherwise.

Pipes, devices and standard output by a name such as ``/dev/stdout`` are written as they are.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO

from logbus.cli.runner import CommandFailed
from logbus.portability import UNSUPPORTED, sync_directory

_STREAM = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,6})")
_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}


def check_new_file(name: str, *, overwrite: bool) -> None:
    """
    Check that a file can be written, before the work that it is for.

    :param overwrite: whether one that is there may be replaced.
    :raises CommandFailed: it is there, or it cannot be made.
    """
    if is_stream(name):
        return
    path = Path(name)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        check_parent(path)
        return
    if stat.S_ISDIR(mode):
        raise CommandFailed(f"{name} is a directory; give the name of a file in it")
    if stat.S_ISREG(mode) and not overwrite:
        raise CommandFailed(f"{name} exists already; choose another name, or replace it by --overwrite")


def check_parent(path: Path) -> None:
    """
    Check that there is the directory that something is made in: a missing one may be a misspelt name.

    :raises CommandFailed: there is none.
    """
    if not path.parent.is_dir():
        raise CommandFailed(f"{path}: there is no directory {path.parent}") from None


def write_new_file(name: str, content: bytes, *, overwrite: bool) -> None:
    """
    Write a file as a whole.

    :raises CommandFailed: as :func:`check_new_file`, or it cannot be written, as for want of space.
    """
    new = NewFile(name, overwrite=overwrite)
    try:
        with named_errors(name):
            new.file.write(content)
            new.keep()
    finally:
        new.discard()


@contextmanager
def named_errors(name: str) -> Iterator[None]:
    """
    Name a file in errors of writing to it, which do not have its name.

    :raises CommandFailed: instead of these.
    """
    try:
        yield
    except OSError as e:
        if e.filename is not None:
            raise
        raise CommandFailed(f"{name}: it cannot be written: {e.strerror or e}") from None


class NewFile:
    """
    A file that has its name once it is complete.

    :ivar file: what to write to.
    :param overwrite: whether one that is there is replaced then.
    :raises CommandFailed: as :func:`check_new_file`.
    """

    file: IO[bytes]

    def __init__(self, name: str, *, overwrite: bool = False) -> None:
        check_new_file(name, overwrite=overwrite)
        self._part: Path | None = None
        self._name, self._overwrite = name, overwrite
        # A link stays one, to the new file.
        self._path = Path(os.path.realpath(name))
        try:
            self.file = self._open()
        except OSError as e:
            where = "" if self._part is None else f" in {self._path.parent}"
            raise CommandFailed(f"{name}: no file can be written{where}: {e.strerror}") from None

    def _open(self) -> IO[bytes]:
        if (stream := _stream_of(self._name)) is not None:
            # Its own offset and mode: what was appended to stays.
            return os.fdopen(os.dup(stream), "wb")
        if self._path.exists() and not self._path.is_file():
            return self._path.open("wb")
        self._part = self._path.with_name(f"{self._path.name}.{token_hex(4)}.part")
        file = self._part.open("xb")
        if self._path.exists():
            os.fchmod(file.fileno(), stat.S_IMODE(self._path.stat().st_mode))
        return file

    def keep(self) -> None:
        """
        Give it its name.

        :raises CommandFailed: another one has got it meanwhile.
        """
        self.file.flush()
        if self._part is not None:
            os.fsync(self.file.fileno())
        self.file.close()
        if self._part is not None:
            check_new_file(self._name, overwrite=self._overwrite)
            self._part.replace(self._path)
            _keep_names(self._path.parent)

    def discard(self) -> None:
        """Delete it, unless it was kept."""
        try:
            self.file.close()
        except OSError:
            # What could not be written, such as for want of space, cannot be now.
            pass
        if self._part is not None:
            self._part.unlink(missing_ok=True)


def _keep_names(path: Path) -> None:
    """Have a new name in a directory outlast a power cut: whoever wrote a backup may delete what it is of."""
    try:
        sync_directory(path)
    except PermissionError:
        pass  # Files may be made in it, but it cannot be read.
    except OSError as error:
        # Some file systems, such as those over a network, cannot.
        if error.errno not in UNSUPPORTED:
            raise


def is_stream(name: str) -> bool:
    """Whether a name stands for a stream that is open, such as standard output."""
    return _stream_of(name) is not None


def _stream_of(name: str) -> int | None:
    """Return the file descriptor that a name stands for."""
    found = _STREAM.fullmatch(name)
    return int(found[1]) if found else _STREAMS.get(name)
