"""What surrounds a run in its process: the garbage collector, warnings, and the log records of the application."""

from __future__ import annotations

import gc
import inspect
import logging
import sys
import warnings
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import CORO_CREATED, CORO_SUSPENDED
from types import CoroutineType

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
    disabled, hook = logging.root.manager.disable, sys.unraisablehook
    logging.disable(logging.CRITICAL)
    sys.unraisablehook = lambda _: None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            sys.unraisablehook = hook
            logging.disable(disabled)


_MOST_STEPS = 100
"""Of ``finally`` blocks that wait for something: each is told once that it waits in vain."""


def close_coroutines() -> None:
    """
    Close what is left of the coroutines of a run, all that the collector has not frozen.

    They would be closed when they are collected, which may be in the middle of something else, and those whose
    ``finally`` blocks wait would complain there.
    """
    for each in gc.get_objects():
        if isinstance(each, CoroutineType) and inspect.getcoroutinestate(each) in (CORO_CREATED, CORO_SUSPENDED):
            for _ in range(_MOST_STEPS):
                try:
                    each.close()
                    break
                except BaseException:
                    # It waits on, or raises another error: nobody is there to see it.
                    continue


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
