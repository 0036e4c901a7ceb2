"""
Chooses between the compiled and the Python implementation of the offset map.

The environment variable ``LOGBUS_PURE`` disables the compiled one.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from logbus.storage.cleaner import offset_map


def _chosen() -> Any:
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
else:
    OffsetMap = _chosen().OffsetMap

IS_COMPILED: bool = OffsetMap is not offset_map.OffsetMap
