"""Tests of ``docs/ext/versions.py``."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def versions() -> ModuleType:
    path = Path(__file__).parent.parent.parent / "docs" / "ext" / "versions.py"
    spec = importlib.util.spec_from_file_location("versions", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_site(versions: ModuleType, tmp_path: Path) -> None:
    """The newest version comes first, by its numbers, and is where the site begins; other files are no versions."""
    for name in ("0.9.0", "main", "0.10.0", "0.10.1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text(name)
    (tmp_path / "pictures").mkdir()
    assert versions.index(tmp_path) == ["0.10.1", "0.10.0", "0.9.0", "main"]
    listed = json.loads((tmp_path / "versions.json").read_text())
    assert listed[0] == {"version": "0.10.1", "url": "0.10.1/", "preferred": True}
    assert [each["preferred"] for each in listed[1:]] == [False] * 3
    assert "url=0.10.1/" in (tmp_path / "index.html").read_text()


def test_what_it_was_built_from(versions: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit, that which is said, or nothing where there is no git."""
    monkeypatch.setenv("LOGBUS_COMMIT", "abc")
    assert versions.built_from() == "abc"
    monkeypatch.delenv("LOGBUS_COMMIT")
    monkeypatch.setenv("PATH", "")
    assert versions.built_from() == ""
