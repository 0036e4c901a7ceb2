"""Tests what is said of a full disk that an error of Spark's does not name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from logbus.pipeline.jobs.full_disk import is_full, places_of, with_free_space

FULL = "batch 3: java.io.IOException: No space left on device"


def spark(master: str, **settings: str) -> Any:
    """A session."""
    made = mock.Mock()
    made.sparkContext.master = master
    made.sparkContext.getConf.return_value = settings
    return made


def test_each_place_with_its_space(tmp_path: Path) -> None:
    """Whichever of them it is, it can be seen; one that is gone is no further error."""
    usage = mock.patch("shutil.disk_usage", return_value=mock.Mock(free=1_234_567_890))
    with usage:
        said = with_free_space(FULL, {"the checkpoint": tmp_path})
    assert said.startswith(f"{FULL}: the checkpoint, {tmp_path}, has 1,234.6 MB left. Make room, and run it again")
    gone = with_free_space(FULL, {"the checkpoint": tmp_path / "gone"})
    assert re.search(r"/gone, has an unknown space left \(No such file or directory\)\. Make room", gone)


def test_which_errors() -> None:
    """Those of the system, in Spark's words."""
    assert is_full(FULL)
    assert is_full("java.io.IOException: Disk quota exceeded")
    assert not is_full("batch 3: no such column")


def test_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint on this machine, and Spark's own directory, if it runs here."""
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert places_of(spark("spark://host:7077"), "hdfs://host/c") == {}
    local = places_of(spark("local[2]", **{"spark.local.dir": "/fast,/slow"}), "file:///lake/c")
    assert list(local.values()) == [Path("/lake/c"), Path("/fast")]
    assert list(places_of(spark("local"), "hdfs://host/c").values()) == [Path("/tmp")]
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/given")
    assert list(places_of(spark("local"), "hdfs://host/c").values()) == [Path("/given")]
