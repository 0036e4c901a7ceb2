"""
Chooses between the compiled and the Python implementation of the offset map.

The environment variable ``LOGBUS_PURE`` disables the compiled one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logbus.extension_modules import extension_module
from logbus.storage.cleaner import offset_map
from logbus.storage.segments import index_entries

if TYPE_CHECKING:
    from logbus.storage.cleaner.offset_map import OffsetMap as OffsetMap
    from logbus.storage.segments.index_entries import index_batches as index_batches
else:
    _module: Any = extension_module("logbus.storage.cleaner._offset_map", offset_map.REVISION) or offset_map
    OffsetMap = _module.OffsetMap
    index_batches = getattr(_module, "index_batches", index_entries.index_batches)

IS_COMPILED: bool = OffsetMap is not offset_map.OffsetMap
