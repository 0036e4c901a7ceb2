"""Files that are copied, or linked to an earlier copy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logbus.cli.backup import file_copy
from logbus.cli.backup.file_copy import FileCopy


def test_copied_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces, with its time, and with progress."""
    monkeypatch.setattr(file_copy, "CHUNK", 1000)
    source, shown = tmp_path / "source", list[int]()
    source.write_bytes(data := os.urandom(5000))
    os.utime(source, ns=(1, 2_000_000_007))
    copy = FileCopy(shown.append)
    copy.copy(source, tmp_path / "target", 4500)
    assert (tmp_path / "target").read_bytes() == data[:4500]
    assert (tmp_path / "target").stat().st_mtime_ns == 2_000_000_007
    assert shown == [1000, 2000, 3000, 4000, 4500, 4500]
    assert (copy.copied, copy.linked) == (4500, 0)
    with pytest.raises(EOFError, match="has 5000 bytes of 5001"):
        copy.copy(source, tmp_path / "longer", 5001)


def test_linked(tmp_path: Path) -> None:
    """Only to a file of the same size and time; what is copied is another file."""
    source, earlier, other = tmp_path / "source", tmp_path / "earlier", tmp_path / "other"
    source.write_bytes(b"12345")
    FileCopy().copy(source, earlier, 5)
    copy = FileCopy()
    copy.copy(source, tmp_path / "same", 5, earlier)
    assert (tmp_path / "same").samefile(earlier)
    assert (copy.copied, copy.linked) == (0, 5)
    os.utime(source, ns=(1, 1))
    copy.copy(source, other, 5, earlier)
    assert not other.samefile(earlier)
    copy.copy(source, tmp_path / "shorter", 4, other)
    assert (tmp_path / "shorter").read_bytes() == b"1234"
    copy.copy(source, tmp_path / "first", 5, tmp_path / "nothing")
    assert (tmp_path / "first").read_bytes() == b"12345"
    assert (copy.copied, copy.linked) == (14, 5)
