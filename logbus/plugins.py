"""Finds installed plugins, as :func:`twisted.plugin.getPlugins` does, and remembers them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from twisted.plugin import getPlugins

import twisted.plugins
from logbus.attrs_code import kept_attrs_code

_found: dict[Any, tuple[object, list[Any]]] = {}


def installed_plugins(interface: Any) -> Iterable[Any]:
    """
    All plugins that provide an interface.

    They are looked for again when a directory of plugins has changed: to read Twisted's lists of them takes a tenth of
    the start of a broker in a process of tests, which starts many.

    :param interface: that of the plugins, beside Twisted's ``IPlugin``.
    """
    seen = [(path, _changed(path)) for path in twisted.plugins.__path__]
    known, plugins = _found.get(interface, (None, []))
    if known != seen:
        with kept_attrs_code():
            plugins = list(getPlugins(interface))
        _found[interface] = seen, plugins
    return plugins


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:  # Python's search path may name what does not exist
        return 0
