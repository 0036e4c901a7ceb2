"""
Imports the optional extension modules: those of a ``.pyx`` file, or compiled beside an interpreted twin. Pure.

The modules that are compiled in place of their source are in :mod:`logbus.compiled`.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType


def extension_module(name: str, revision: int) -> ModuleType | None:
    """
    An extension module; None without it, or if the environment variable ``LOGBUS_PURE`` says that it is not wanted.

    :param name: the full name, such as ``logbus.net._send_threads``.
    :param revision: the ``REVISION`` that it must have: in a checkout it may have been compiled from an older source.
    """
    if os.environ.get("LOGBUS_PURE"):
        return None
    try:
        found = import_module(name)
    except ImportError:
        return None  # The installation found no compiler.
    return found if getattr(found, "REVISION", 0) == revision else None
