"""
Records to bytes and back, by the compiled kernel where it was built, else by the same source as it is.

The environment variable ``LOGBUS_PURE`` says to do without the compiled one.
"""

from __future__ import annotations

import os
from importlib import import_module

from logbus.records import kernel


def _chosen() -> object:
    if not os.environ.get("LOGBUS_PURE"):
        try:
            compiled = import_module("logbus.records._kernel")
        except ImportError:
            return kernel  # The installation found no compiler.
        # In a checkout it may have been compiled from another source.
        if getattr(compiled, "REVISION", 0) == kernel.REVISION:
            return compiled
    return kernel


_kernel = _chosen()

IS_COMPILED = _kernel is not kernel

encode_record = kernel.encode_record
decode_records = kernel.decode_records
if IS_COMPILED:
    encode_record = _kernel.encode_record  # type: ignore[attr-defined]
    decode_records = _kernel.decode_records  # type: ignore[attr-defined]
