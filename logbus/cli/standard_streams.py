"""Standard input, output and error that were closed before the start: Python has None in their places."""

from __future__ import annotations

import os
import sys

_STREAMS = (("stdin", 0, os.O_WRONLY, "r"), ("stdout", 1, os.O_WRONLY, "w"), ("stderr", 2, os.O_WRONLY, "w"))


def open_closed_streams() -> None:
    """
    Open what is closed, so that no file or connection gets its number: what is printed there is lost, as it was asked
    for, and reading from standard input fails.
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
