"""Loads the source of a module that may be compiled, beside what is imported."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import Any

from logbus.compiled import source


def interpreted(name: str) -> Any:
    """The module ``name``, interpreted, as another module; types in it are others, too."""
    alias = f"{name}_interpreted"
    if alias not in sys.modules:
        spec = spec_from_loader(alias, SourceFileLoader(alias, str(source(name))))
        assert spec is not None and spec.loader is not None
        module = sys.modules[alias] = module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[alias]
