"""What surrounds a run in its process: the garbage collector, warnings, and the log records of the application."""

from __future__ import annotations

import gc
import logging
import warnings
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_NOT_THE_APPLICATIONS = ("logbus", "twisted", "asyncio")


@contextmanager
def collected_at_the_end() -> Iterator[None]:
    """
    Collect no garbage meanwhile, since when that happens differs from run to run. What was there before is left out, as
    it would be looked through after each run.
    """
    enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()


@contextmanager
def silence() -> Iterator[None]:
    """Neither warn nor log, as coroutines and clients of killed processes do when they are collected."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(disabled)


@contextmanager
def logged_to(tell: Callable[[str, str], None]) -> Iterator[None]:
    """
    Have log records of the application go into the history, and to no other handler of the root logger.

    :param tell: called with the name of the process, empty if it is not known, and the line.
    """
    root = logging.getLogger()
    handlers = root.handlers[:]
    root.handlers[:] = [_Teller(tell)]
    try:
        yield
    finally:
        root.handlers[:] = handlers


class _Teller(logging.Handler):
    def __init__(self, tell: Callable[[str, str], None]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith(_NOT_THE_APPLICATIONS):
            loop = events._get_running_loop()
            line = f"logs {record.levelname} {record.name}: {record.getMessage()}"
            self._tell(getattr(loop, "process_name", ""), line)
