"""Tests the look at local directories before Spark starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.local_directory import check_writable


@pytest.fixture(autouse=True)
def _paths_are_local(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


def test_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is there, and one that can be made with those above it; and whatever is not local."""
    (tmp_path / "link").symlink_to(tmp_path)
    for url in (tmp_path, tmp_path / "a" / "b", f"file://{tmp_path}/a", tmp_path / "link" / "a"):
        check_writable(str(url))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link"], "a check makes nothing"
    monkeypatch.chdir(tmp_path)
    check_writable("a/b")
    for url in ("hdfs://host/lake", "s3://bucket/lake", "hdfs:///lake"):
        check_writable(url)


def test_no_directory(tmp_path: Path) -> None:
    """A file, or a link to nowhere, is where it or one above it would be."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    for below in ("", "/a", "/a/b"):
        with pytest.raises(
            LakeError, match=rf"^{tmp_path}/file{below}: {tmp_path}/file is a file, and has to be a dir"
        ):
            check_writable(f"{tmp_path}/file{below}")
        with pytest.raises(LakeError, match=rf"^{tmp_path}/link{below}: {tmp_path}/link is a link to something that "):
            check_writable(f"{tmp_path}/link{below}")


def test_no_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that this user, who may be root in a test, cannot change."""
    closed = tmp_path / "closed"
    closed.mkdir()
    asked = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed and asked(path, mode))
    with pytest.raises(
        LakeError, match=rf"^{closed}: the directory cannot be written to: this user has no right to, or"
    ):
        check_writable(str(closed))
    with pytest.raises(
        LakeError, match=rf"^file://{closed}/a/b: the directory is not there, and cannot be created in "
    ):
        check_writable(f"file://{closed}/a/b")
    check_writable(str(tmp_path / "open"))


def test_a_file_system_that_refuses() -> None:
    """Root has all rights in /proc, which nevertheless takes no new directory."""
    for url, place in (("/proc/x", "/proc"), ("/proc/x/y", "/proc"), ("/proc/self", "/proc/self")):
        with pytest.raises(
            LakeError, match=rf"^{url}: the directory .*: (this user has no|a new directory in {place} )"
        ):
            check_writable(url)


def test_nothing_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that may be of Spark's default file system, which another one than this machine's may be."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    check_writable("/nowhere-at-all/lake")
    with pytest.raises(LakeError, match=r"cannot be created in /: this user has no right to"):
        check_writable("file:///nowhere-at-all/lake")
