"""SIGTERM as an exception, for commands that work without the reactor and have something to undo."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from logbus.cli.app import exit_by_signal


class _Terminated(BaseException):
    """The process got SIGTERM."""


@contextmanager
def raised_sigterm() -> Iterator[None]:
    """Have SIGTERM raise an exception within the block, as Ctrl-C does; after the block the process ends by it."""

    def terminate(number: int, frame: FrameType | None) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except _Terminated:
        exit_by_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
