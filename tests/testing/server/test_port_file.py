"""The file that tells where a test server is."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from logbus.testing.server.port_file import PortFile, PortFileError


def test_content(tmp_path: Path) -> None:
    """It has what was written, for its owner only, and no draft is left beside it."""
    file = PortFile(tmp_path / "server.json")
    file.check()
    assert not list(tmp_path.iterdir())
    file.write({"pid": 3})
    assert json.loads(file.path.read_text()) == {"pid": 3}
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file.path]
    file.remove()
    file.remove()
    assert not list(tmp_path.iterdir())


def test_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written on file systems that have no links, too."""

    def link(source: object, target: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    file = PortFile(tmp_path / "server.json")
    file.write({"pid": 3})
    assert list(tmp_path.iterdir()) == [file.path]


def test_existing(tmp_path: Path) -> None:
    """A file that exists is left as it is, whenever it was made."""
    file = PortFile(tmp_path / "server.json")
    file.path.write_text("another's")
    for step in (file.check, lambda: file.write({"pid": 3})):
        with pytest.raises(PortFileError, match=r"^--port-file .*server\.json: exists already; remove it"):
            step()
    file.remove()
    assert file.path.read_text() == "another's"
    assert list(tmp_path.iterdir()) == [file.path]


@pytest.mark.parametrize(
    ("place", "why"), [("missing/server.json", "No such file or directory"), ("plain/server.json", "Not a directory")]
)
def test_unwritable(tmp_path: Path, place: str, why: str) -> None:
    """Where it cannot be written, that is said before anything is started, and afterwards."""
    (tmp_path / "plain").write_text("")
    file = PortFile(tmp_path / place)
    for step in (file.check, lambda: file.write({"pid": 3})):
        with pytest.raises(PortFileError, match=rf"^--port-file \S+server\.json: cannot be written: {why}$"):
            step()
