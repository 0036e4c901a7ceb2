"""
Modules that are compiled from the source that also runs interpreted.

``setup.py`` compiles them with Cython into files beside their sources, with the types in the ``.pxd`` files there;
Python prefers such a file to the source. This module makes it take the sources instead if ``LOGBUS_PURE`` is set, and
in a checkout whose sources have changed since: the build leaves a checksum of them. One module knows the types of
another, so all of them are compiled or none. Pure.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from zlib import crc32

MODULES = (
    "logbus.net.request_times",
    "logbus.records.batch_validation",
    "logbus.storage.appends.append_many",
    "logbus.storage.appends.log_validator",
    "logbus.wire.frame_buffer",
    "logbus.wire.request_template",
)
"""Those that are quicker compiled; much else is slower, see ``docs/explanation/performance/tried.rst``."""

_ROOT = Path(__file__).parent
_SUFFIX = EXTENSION_SUFFIXES[0]
CHECKSUM = f"compiled{_SUFFIX}.crc"
"""The file of the checksum, one for each version of Python, in the package ``logbus``."""


def source(name: str, root: Path = _ROOT) -> Path:
    """The source of a module, in the package ``logbus`` that is at ``root``."""
    return root.joinpath(*name.split(".")[1:]).with_suffix(".py")


def checksum(root: Path = _ROOT) -> str:
    """Of the sources and their types. Not of hashlib, whose import would load OpenSSL into every process."""
    found = 0
    for name in MODULES:
        path = source(name, root)
        for each in (path, path.with_suffix(".pxd")):
            if each.exists():
                found = crc32(each.read_bytes(), found)
    return f"{found:08x}"


def is_usable(root: Path = _ROOT) -> bool:
    """Whether all modules are compiled, from these sources."""
    try:
        if (root / CHECKSUM).read_text() != checksum(root):
            return False
    except OSError:
        return False
    return all(source(name, root).with_suffix(_SUFFIX).exists() for name in MODULES)


class InterpretedFinder:
    """Finds the sources of the modules, compiled or not; it stands in front of Python's own finders."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See :class:`importlib.abc.MetaPathFinder`."""
        return spec_from_file_location(name, source(name)) if name in MODULES else None


IS_USED = not os.environ.get("LOGBUS_PURE") and is_usable()
"""Whether the compiled modules are imported; otherwise their sources are."""

if not IS_USED and __name__ == "logbus.compiled":
    sys.meta_path.insert(0, InterpretedFinder())
