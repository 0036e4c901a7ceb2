"""
Limits how long a job waits for a store: says so meanwhile, and decides when a failed commit is not tried again.

The stores' clients repeat requests by themselves: delta-rs for up to three minutes, Arrow ten times, of which each may
take three seconds without a sign of life.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from attrs import define, field

from logbus.pipeline.blocking.patience import PATIENCE, telling
from logbus.pipeline.lake.object_store import split_scheme

FAILURES = 5
"""How often a commit may fail, one time after the other, for which no other program's commit is the reason."""

SECONDS = 60.0
"""After which a commit is not tried again that has failed so."""


def waiting(url: str, what: str, patience: float = PATIENCE) -> AbstractContextManager[None]:
    """
    A context in which a store is waited for, which is told if it takes long. Nothing is told of a local directory.

    :param url: of the table or the file;  ``what``: is done there, such as "a commit".
    :param patience: seconds.
    """
    if split_scheme(url)[0] in ("", "file"):
        return nullcontext()
    return telling(
        f"{url.rstrip('/')}: {what} takes longer than {patience:.0f} s; still waiting for its store", patience=patience
    )


@define
class FailedAttempts:
    """
    The failures of a commit for which no other program's commit is the reason; made when it is first tried.

    :param clock: seconds.
    """

    _clock: Callable[[], float] = time.monotonic
    _version: int = field(default=-1, init=False)
    _count: int = field(default=0, init=False)
    _began: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._began = self._clock()

    def is_last(self, version: int) -> bool:
        """
        Note a failure; whether it should not be tried again.

        :param version: of the table, on which the commit was to be; that it is another one shows that other programs
            commit.
        """
        if version != self._version:
            self._version, self._count = version, 0
        self._count += 1
        return self._count >= FAILURES or self._clock() - self._began > SECONDS
