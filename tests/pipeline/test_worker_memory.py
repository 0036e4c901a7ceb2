"""Tests that what a Spark worker loads at its start is not examined for garbage again."""

from __future__ import annotations

import gc

from logbus.pipeline.worker_memory import keep_modules


def test_once() -> None:
    """Only what exists at the first call is kept: later garbage is collected."""
    keep_modules.cache_clear()
    try:
        keep_modules()
        kept = gc.get_freeze_count()
        assert kept > 1000
        more = [[number] for number in range(1000)]
        keep_modules()
        assert gc.get_freeze_count() <= kept + 100, len(more)
    finally:
        gc.unfreeze()
