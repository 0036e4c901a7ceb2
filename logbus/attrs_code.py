"""
Keeps the compiled methods of attrs classes beside Python's bytecode, for the start of a process.

attrs writes the source of ``__init__``, ``__eq__`` and others of each class, and compiles it at every import: a third
of a broker's start. Python keeps the bytecode of modules in files, and so does this, for what attrs compiles. A method
whose source changed is compiled anew.

The source of ``__hash__`` has a number in it that tells classes apart, another in each process. Any will do, so that of
the process that compiled it is kept.
"""

from __future__ import annotations

import builtins
import linecache
import marshal
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from importlib.util import MAGIC_NUMBER, cache_from_source
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import Struct
from types import CodeType, ModuleType
from typing import Any

import attr._make

from logbus.attrs_classes import small_classes

MAX_ENTRIES = 4096
"""With more, only those that were used are kept: others may be of versions that are gone."""

_HEADER = Struct("<4sI")
"""Python's magic number, and the number of entries; they follow, and then the code."""

_ENTRY = Struct("<16sII")
"""The hash of a source, and where its code is: the offset and the size."""

_CLASS_NUMBER = re.compile(r"hash\(\(\n *-?\d+,")
"""The number of a class in the source of its ``__hash__``: Python's hash of its name, which is random."""


class CodeFile:
    """
    Compiled code by its source, in a file.

    A file that cannot be read is none, and one that cannot be written is left out, as those of Python's bytecode are.

    :ivar added: the compiled code that is not in the file, by the hash of its source.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # Mapped, so that code that is not used costs no memory.
        self._data: mmap | bytes = b""
        self._known: dict[bytes, tuple[int, int]] = {}
        self._used: set[bytes] = set()
        self.added: dict[bytes, bytes] = {}
        self._open()

    def compile(self, source: Any, filename: Any, mode: str, *args: Any, **options: Any) -> Any:
        """Stand for the built-in ``compile``."""
        if not isinstance(source, str) or not isinstance(filename, str) or mode != "exec" or args or options:
            return builtins.compile(source, filename, mode, *args, **options)
        lasting = _CLASS_NUMBER.sub("", source)
        key = blake2b(f"{filename}\0{lasting}".encode(), digest_size=16).digest()
        self._used.add(key)
        # attrs has put the source there for tracebacks: 3 KB a class.
        linecache.cache.pop(filename, None)
        if key in self._known:
            with suppress(ValueError, EOFError, TypeError):
                start, size = self._known[key]
                code = marshal.loads(memoryview(self._data)[start : start + size])
                if isinstance(code, CodeType):
                    return code
        code = builtins.compile(source, filename, mode)
        self.added[key] = marshal.dumps(code)
        return code

    def close(self) -> None:
        """Write the file anew, if something was added."""
        if self.added and not sys.dont_write_bytecode:
            kept = self._known.keys() - self.added.keys()
            if len(kept) + len(self.added) > MAX_ENTRIES:
                kept &= self._used
            self._write({key: self._bytes(key) for key in kept} | self.added)
        if isinstance(self._data, mmap):
            self._data.close()

    def _bytes(self, key: bytes) -> bytes:
        start, size = self._known[key]
        return self._data[start : start + size]

    def _open(self) -> None:
        with suppress(OSError, ValueError), self._path.open("rb") as file:
            magic, count = _HEADER.unpack(file.read(_HEADER.size).ljust(_HEADER.size, b"\0"))
            table = file.read(min(count, 2 * MAX_ENTRIES) * _ENTRY.size)
            if magic == MAGIC_NUMBER and len(table) == count * _ENTRY.size:
                self._data = mmap(file.fileno(), 0, access=ACCESS_READ)
                self._known = {key: (start, size) for key, start, size in _ENTRY.iter_unpack(table)}

    def _write(self, codes: dict[bytes, bytes]) -> None:
        offset = _HEADER.size + len(codes) * _ENTRY.size
        parts = [_HEADER.pack(MAGIC_NUMBER, len(codes))]
        for key, data in codes.items():
            parts.append(_ENTRY.pack(key, offset, len(data)))
            offset += len(data)
        partial = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(b"".join([*parts, *codes.values()]))
            partial.replace(self._path)
        except OSError:
            with suppress(OSError):
                partial.unlink()


def code_path() -> Path:
    """The file, beside the bytecode of this module."""
    return Path(cache_from_source(__file__)).with_suffix(".attrs")


@contextmanager
def kept_attrs_code(path: Callable[[], Path] = code_path, module: ModuleType = attr._make) -> Iterator[None]:
    """
    Take what attrs compiles within the context from the file, and write what is new to it; and make the classes small
    (:mod:`logbus.attrs_classes`). Tracebacks do not show the lines of these methods.

    :param module: the module of attrs that calls ``compile``: it is given another one. Where it calls none, nothing
        happens.
    """
    if sys.implementation.cache_tag is None or hasattr(module, "compile"):
        yield
        return
    code = CodeFile(path())
    vars(module)["compile"] = code.compile
    try:
        with small_classes():
            yield
    finally:
        # Another thread that began at the same moment may have ended before.
        vars(module).pop("compile", None)
        code.close()
