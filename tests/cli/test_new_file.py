"""Tests files that commands write."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread

import pytest

from logbus.cli.new_file import NewFile, write_new_file
from logbus.cli.runner import CommandFailed


def content(directory: Path) -> dict[str, bytes]:
    """What is in a directory."""
    return {each.name: each.read_bytes() for each in directory.iterdir() if each.is_file()}


def test_complete(tmp_path: Path) -> None:
    """A file has its name once it is complete; until then one that was there stays, and after a failure, too."""
    name = tmp_path / "orders.jsonl"
    name.write_bytes(b"before")
    name.chmod(0o640)
    cut = NewFile(str(name), overwrite=True)
    cut.file.write(b"cut")
    cut.discard()
    assert content(tmp_path) == {"orders.jsonl": b"before"}
    write_new_file(str(name), b"whole", overwrite=True)
    assert content(tmp_path) == {"orders.jsonl": b"whole"}
    assert name.stat().st_mode & 0o777 == 0o640


def test_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is synced before it has its name, and the name before the command says that it is there."""
    synced: list[list[str]] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append([os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")), *os.listdir(tmp_path)])
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    write_new_file(str(tmp_path / "orders"), b"whole", overwrite=False)
    [[part, same], directory] = synced
    assert part == same
    assert part.endswith(".part")
    assert directory == [tmp_path.name, "orders"]


def test_kept(tmp_path: Path) -> None:
    """A file that is there, or comes to be there meanwhile, is not replaced untold."""
    name = tmp_path / "orders.jsonl"
    late = NewFile(str(name))
    late.file.write(b"late")
    write_new_file(str(name), b"first", overwrite=False)
    for write in (late.keep, lambda: NewFile(str(name))):
        with pytest.raises(CommandFailed, match=r"orders.jsonl exists already; .* by --overwrite"):
            write()
    late.discard()
    assert content(tmp_path) == {"orders.jsonl": b"first"}


def test_link(tmp_path: Path) -> None:
    """What a link names is replaced, and it stays a link."""
    (tmp_path / "data").mkdir()
    link = tmp_path / "latest"
    link.symlink_to("data/orders")
    write_new_file(str(link), b"one", overwrite=False)
    write_new_file(str(link), b"two", overwrite=True)
    assert link.is_symlink()
    assert content(tmp_path / "data") == {"orders": b"two"}


def test_pipe(tmp_path: Path) -> None:
    """A pipe stays one, and who reads it gets the bytes."""
    name, got = tmp_path / "pipe", list[bytes]()
    os.mkfifo(name)
    reader = Thread(target=lambda: got.append(name.read_bytes()))
    reader.start()
    write_new_file(str(name), b"through", overwrite=False)
    reader.join(60)
    assert got == [b"through"]
    assert name.is_fifo()


def test_stream(tmp_path: Path) -> None:
    """What an open stream has stays before what is written to it by its name."""
    with (tmp_path / "all").open("ab", buffering=0) as file:
        file.write(b"before ")
        write_new_file(f"/dev/fd/{file.fileno()}", b"after", overwrite=False)
    assert content(tmp_path) == {"all": b"before after"}


def test_refusals(tmp_path: Path) -> None:
    """What is no place for a file is named, and so is what would be one."""
    for name, part in (
        (str(tmp_path), "is a directory; give the name of a file in it"),
        (f"{tmp_path}/absent/orders", f"there is no directory {tmp_path}/absent"),
        (f"{tmp_path}/{'x' * 250}", "no file can be written in .*: File name too long"),
        ("/dev/fd/999999", "no file can be written: Bad file descriptor"),
    ):
        with pytest.raises(CommandFailed, match=part):
            NewFile(name)


def test_no_space() -> None:
    """A device that is full is named."""
    with pytest.raises(CommandFailed, match="/dev/full: it cannot be written: No space left on device"):
        write_new_file("/dev/full", b"x", overwrite=False)
