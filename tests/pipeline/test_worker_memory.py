"""Tests that what a Spark worker loads by its first task is not examined for garbage again."""

from __future__ import annotations

import gc

from logbus.pipeline.worker_memory import keeper


def test_twice() -> None:
    """What exists at the first two calls is kept, with modules of the first task: later garbage is collected."""
    keep_modules = keeper(gc.freeze)
    try:
        keep_modules()
        kept = gc.get_freeze_count()
        assert kept > 1000
        loaded = [[number] for number in range(1000)]
        keep_modules()
        assert gc.get_freeze_count() >= kept + len(loaded)
        kept = gc.get_freeze_count()
        more = [[number] for number in range(1000)]
        keep_modules()
        assert gc.get_freeze_count() <= kept + 100, len(more)
    finally:
        gc.unfreeze()
