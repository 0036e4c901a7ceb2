"""
Chooses between the compiled and the Python implementation of the offset map.

The environment variable ``LOGBUS_PURE`` disables the compiled one.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from logbus.storage.cleaner import offset_map, record_filter


def compiled_module() -> Any:
    """The module of the implementation in use."""
    if not os.environ.get("LOGBUS_PURE"):
        try:
            compiled = import_module("logbus.storage.cleaner._offset_map")
        except ImportError:
            return offset_map  # The installation found no compiler.
        # In a checkout it may have been compiled from an older source.
        if compiled.REVISION == offset_map.REVISION:
            return compiled
    return offset_map


if TYPE_CHECKING:
    from logbus.storage.cleaner.offset_map import OffsetMap as OffsetMap
    from logbus.storage.cleaner.record_filter import index_points as index_points
else:
    OffsetMap = compiled_module().OffsetMap
    index_points = getattr(compiled_module(), "index_points", record_filter.index_points)

IS_COMPILED: bool = OffsetMap is not offset_map.OffsetMap
