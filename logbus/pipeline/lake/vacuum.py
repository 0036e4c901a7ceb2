"""Deletes what only readers of old versions of a table need, after a number of days."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from logbus.pipeline.errors import OptionError

if TYPE_CHECKING:
    from logbus.pipeline.lake.target import LoadTarget, VacuumReport

_DAY_MS = 86_400_000


def check_vacuum(days: float) -> None:
    """
    Check a number of days, after which files of old versions are deleted; 0: never.

    :raise OptionError: it is less than one: readers, and jobs that have not committed yet, need younger files.
    """
    if days != 0 and not 1 <= days < 1e6:
        raise OptionError(
            f"vacuum is {days:g}; it takes days, from 1, as readers and running jobs need younger files; or 0 for never"
        )


OLD_DAYS = 7
"""Of what is spoken, where nothing is deleted by itself."""


def old_versions(table: LoadTarget) -> VacuumReport:
    """What a table keeps that no version of the last :data:`OLD_DAYS` days needs."""
    return table.replaced(before_ms=int(time.time() * 1000 - OLD_DAYS * _DAY_MS))


def vacuum_table(table: LoadTarget, days: float) -> VacuumReport:
    """Delete what is older; see :meth:`.LoadTarget.vacuum`."""
    return table.vacuum(before_ms=int(time.time() * 1000 - days * _DAY_MS))
