"""
Makes the first imports of a process cheap: those of a client, of the commands, and of brokers in tests.

Within :func:`quick_imports`, what attrs compiles is kept (see :mod:`logbus.attrs_code`), the garbage collector rests,
and Twisted does not load ``http.cookiejar``, which its ``twisted.python.compat`` only passes on. That module brings
``urllib.request``, ``http.client`` and ``email`` with it, a tenth of the client's import.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from logbus.attrs_code import kept_attrs_code

COOKIES = "http.cookiejar"
COMPAT = "twisted.python.compat"
"""The module of Twisted that imports it; the name that it gives it is used nowhere else in Twisted."""


class LaterModule(ModuleType):
    """Stands for a module, which is imported when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:  # another thread imports it at this moment
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def import_compat() -> None:
    """Import Twisted's module without the other, which is imported as ever by whoever asks for it."""
    if COMPAT in sys.modules or COOKIES in sys.modules:
        return
    later = sys.modules[COOKIES] = LaterModule(COOKIES)
    try:
        import_module(COMPAT)
    finally:
        if sys.modules.get(COOKIES) is later:
            del sys.modules[COOKIES]


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the garbage collector away: almost all that an import makes stays, and there is nothing to collect."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import within the context what is slow to import."""
    with kept_attrs_code(), no_collection():
        import_compat()
        yield
