"""
Keeps Spark's Python processes from examining all loaded modules for garbage after each task.

Spark's workers call ``gc.collect()`` when a task or a plan is done. With pandas, pyarrow and pyspark loaded that takes
30 to 50 ms of processor time, which is more than a small task. A first task loads a third of the modules itself.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import count

_TASKS = 2


def keeper(freeze: Callable[[], None]) -> Callable[[], None]:
    """Make what :func:`keep_modules` is, of a function that keeps all that exists."""
    calls = count()

    def keep() -> None:
        if next(calls) < _TASKS:
            freeze()

    return keep


keep_modules = keeper(gc.freeze)
"""
Have the garbage collector pass over all that exists now, which are modules and what belongs to them.

It is called at the beginning of each task. Only the first two calls in a process have an effect, so that what tasks
leave behind is collected as always.
"""
