"""Tests of ``docs/explanation/architecture.rst``: its picture has every package, and its walks name what exists."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs" / "explanation" / "architecture.rst"
NAME = re.compile(r"``((?:\w+\.)+\w+)``")
PACKAGES = {path.name for path in (CHECKOUT / "logbus").iterdir() if (path / "__init__.py").exists()}


@pytest.fixture(scope="module")
def layers() -> ModuleType:
    """The Sphinx extension."""
    spec = importlib.util.spec_from_file_location("layers", CHECKOUT / "docs" / "ext" / "layers.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def names() -> list[str]:
    """The dotted names in the walks, and behind them, that begin with one of the packages."""
    walks = PAGE.read_text().split("\nWalks\n")[1]
    found = {name.removeprefix("logbus.") for name in NAME.findall(walks)}
    return sorted(name for name in found if name.split(".")[0] in PACKAGES)


def exists(name: str) -> bool:
    """Whether a dotted name below ``logbus`` is a module, or something in one."""
    parts = ["logbus", *name.split(".")]
    for count in range(len(parts), 1, -1):
        module = ".".join(parts[:count])
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        if found:
            here: object = importlib.import_module(module)
            for attribute in parts[count:]:
                if not hasattr(here, attribute):
                    return attribute in getattr(here, "__annotations__", {})
                here = getattr(here, attribute)
            return True
    return False


def test_the_picture_has_every_package(layers: ModuleType) -> None:
    """Each package and top-level module of the tree is in the picture once, in its layer."""
    drawing = ElementTree.fromstring(layers.svg(layers.contract()))
    drawn = [element.text for element in drawing.iter() if element.tag.endswith("text")]
    modules = {path.stem for path in (CHECKOUT / "logbus").glob("*.py")} - {"__init__"}
    assert sorted(drawn) == sorted(PACKAGES | modules)


def test_layers_have_the_package_docstrings(layers: ModuleType) -> None:
    """A sentence each, from its docstring."""
    lines = list(layers.table(layers.contract()))
    for name in PACKAGES:
        row = lines.index(f"   * - ``logbus.{name}``")
        assert len(lines[row + 1].strip("- ").strip()) > 10, name


def test_names_in_walks_exist() -> None:
    """Every module, class and function that a step names is in the code."""
    found = names()
    assert len(found) > 50
    missing = [name for name in found if not exists(name)]
    assert not missing, missing
    assert not exists("storage.log.Log.no_such_method")
    assert "logbus.storage.log" in sys.modules
