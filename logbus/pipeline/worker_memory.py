"""
Keeps Spark's Python processes from examining all loaded modules for garbage after each task.

Spark's workers call ``gc.collect()`` when a task or a plan is done. With pandas, pyarrow and pyspark loaded that takes
30 to 50 ms of processor time, which is more than a small task.
"""

from __future__ import annotations

import gc
from functools import cache


@cache
def keep_modules() -> None:
    """
    Have the garbage collector pass over all that exists now, which are modules and what belongs to them.

    Only the first call in a process has an effect, so that what tasks leave behind is collected as always.
    """
    gc.freeze()
