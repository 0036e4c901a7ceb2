"""Says of brokers that do not answer that they do not, long before attempts to reach them end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 5.0
"""Seconds without an answer after which that is told."""

_log = logging.getLogger(__name__)


def warn(sentence: str) -> None:
    """Tell it in the log, which of a Spark worker is Spark's standard error."""
    _log.warning("%s", sentence)


@contextmanager
def telling(sentence: str, tell: Callable[[str], None] = warn, patience: float = PATIENCE) -> Iterator[None]:
    """A context that is left when brokers have answered, or none has until the time is over; the sentence tells."""
    # A thread, since an attempt may itself wait for longer, such as for a host that drops packets.
    timer = threading.Timer(patience, tell, [sentence])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def unsaid() -> Iterator[None]:
    """A context in which nothing is told in the log: the caller has better words."""
    before, _log.disabled = _log.disabled, True
    try:
        yield
    finally:
        _log.disabled = before
