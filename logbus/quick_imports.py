"""
Makes the first imports of a process cheap: those of a client, of the commands, and of brokers in tests.

Within :func:`quick_imports`, what attrs compiles is kept (see :mod:`logbus.attrs_code`), the garbage collector rests,
and Twisted does not load two modules: ``http.cookiejar``, which its ``twisted.python.compat`` only passes on, and which
brings ``urllib.request``, ``http.client`` and ``email`` with it; and ``asyncio``, of which its ``defer`` uses one
function, and which brings ``ssl`` with it. These are a fifth of the client's import, and 5 MB. Commands do without
them as well (:func:`import_less`); ``twistd`` has imported both before it looks for us.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

from logbus.attrs_code import kept_attrs_code

COOKIES = "http.cookiejar"
COMPAT = "twisted.python.compat"
"""The module of Twisted that imports it; the name that it gives it is used nowhere else in Twisted."""
ASYNCIO = "asyncio"
DEFER = "twisted.internet.defer"
"""The module of Twisted that imports it: for ``iscoroutine``, and for two classes in annotations."""


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


def import_defer() -> None:
    """Import Twisted's module without the other, which is imported as ever by whoever asks for it."""
    if DEFER in sys.modules or ASYNCIO in sys.modules:
        return
    package = PathFinder.find_spec(ASYNCIO)
    path = None if package is None else package.submodule_search_locations
    spec = None if path is None else PathFinder.find_spec(f"{ASYNCIO}.coroutines", path)
    if spec is None or spec.loader is None:
        return
    # A copy of the module, which needs no others of the package.
    coroutines = module_from_spec(spec)
    spec.loader.exec_module(coroutines)
    later: Any = LaterModule(ASYNCIO)
    later.__path__ = path  # asked for by each import from a module
    later.iscoroutine = coroutines.iscoroutine
    later.AbstractEventLoop = later.Future = Any
    sys.modules[ASYNCIO] = later
    try:
        import_module(DEFER)
    finally:
        if sys.modules.get(ASYNCIO) is later:
            del sys.modules[ASYNCIO]


def import_less() -> None:
    """Import both modules of Twisted without what they hardly use."""
    import_compat()
    import_defer()


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
        import_less()
        yield
