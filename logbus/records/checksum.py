"""
CRC-32C (Castagnoli), the checksum of record batches and of our own files.

The native function is exported directly: a wrapper would cost more than checking a small batch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

_NATIVE = "crc32c._crc32c"


def _native() -> Any:
    """
    The module of the native function.

    Its package imports its own command, and its version by :mod:`importlib.metadata`: with these, a tenth of the
    client's import. So the module is imported without its package, if it is where it is expected.
    """
    if _NATIVE not in sys.modules:
        package = PathFinder.find_spec("crc32c")
        found = None if package is None else PathFinder.find_spec(_NATIVE, package.submodule_search_locations)
        if found is None or found.loader is None:
            import crc32c

            return crc32c
        module = module_from_spec(found)
        found.loader.exec_module(module)
        # So that the package, if it is imported later, has the same.
        sys.modules[_NATIVE] = module
    return sys.modules[_NATIVE]


crc32c: Callable[..., int] = _native().crc32c
"""
``crc32c(data: Buffer, value: int = 0) -> int``: checksum of ``data`` as an unsigned 32-bit number; ``value`` is the
checksum of the data before it (RFC 3720, appendix B.4). Releases the interpreter lock for large data.
"""
