"""Standard input, output and error as commands use them, whatever the process was started with."""

from __future__ import annotations

import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

OUTPUT = "standard output"
"""Named as a file in errors of writing to it."""

_STREAMS = (("stdin", 0, os.O_WRONLY, "r"), ("stdout", 1, os.O_WRONLY, "w"), ("stderr", 2, os.O_WRONLY, "w"))


def open_closed_streams() -> None:
    """
    Open what was closed before the start, where Python has None, so that no file or connection gets its number: what is
    printed there is lost, as it was asked for, and reading from standard input fails.
    """
    for name, number, flags, mode in _STREAMS:
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
        else:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))


class _StandardOutput(FileIO):
    """Names itself in errors, which would not say what cannot be written."""

    def write(self, data: ReadableBuffer, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as e:
            e.filename = OUTPUT
            raise


def set_up_output() -> None:
    """
    Have standard output say that it is what cannot be written, and print text in UTF-8, as records and JSON are,
    whatever the locale. A file's name that is not UTF-8 is escaped.
    """
    if not isinstance(sys.stdout, TextIOWrapper):
        return
    # With PYTHONUNBUFFERED nothing is between text and file.
    given = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
    if isinstance(given, FileIO) and given.fileno() == 1:
        raw = _StandardOutput(1, "wb", closefd=False)
        sys.stdout = TextIOWrapper(
            raw if sys.stdout.buffer is given else BufferedWriter(raw),
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=sys.stdout.line_buffering,
            write_through=sys.stdout.write_through,
        )


def forget_unwritable() -> None:
    """
    Forget what standard output holds back if it cannot be written: Python would try again at the end of the process,
    and print a traceback.
    """
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
