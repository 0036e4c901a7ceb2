"""Tests the checks of a checkpoint that need no Spark."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.checkpoint_files import check_files
from logbus.pipeline.jobs.checksum_files import is_equal
from logbus.pipeline.jobs.query_checkpoint import RESULT, check_before_spark
from logbus.pipeline.lake.file_system import LocalFileSystem

OFFSETS = b'v1\n{"batchWatermarkMs":0}\n{"offsets": {}}\n-'
IDENTITY = {"topics": "views", "kind": "inner"}


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are local ones."""
    for name in ("HADOOP_CONF_DIR", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint as Spark leaves it, of three batches, the last one unfinished."""
    whole = tmp_path / "c"
    for directory, numbers, content in (("offsets", range(3), OFFSETS), ("commits", range(2), b'v1\n{"x":0}')):
        (whole / directory).mkdir(parents=True)
        for number in numbers:
            (whole / directory / str(number)).write_bytes(content)
            (whole / directory / f".{number}.crc").write_bytes(b"crc")
    (whole / "metadata").write_text('{"id":"one"}')
    known = {"job": "join", **IDENTITY, RESULT: "struct<a:int>"}
    (whole / "logbus.json").write_text(json.dumps(known))
    return whole


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("metadata", lambda _: b"", r"it does not say which query it is of \("),
        ("metadata", lambda _: b"{}", r"it does not say which query it is of \(no 'id'\)"),
        ("metadata", lambda _: b"[]", "it does not say which query"),
        ("metadata", lambda _: b'{"id":1}', "it does not say which query it is of"),
        ("metadata", lambda _: None, "it is missing, and there are batches"),
        ("offsets/2", lambda _: b"", "it is empty"),
        ("offsets/2", lambda whole: b"\0" * len(whole), "it is empty"),
        ("offsets/2", lambda whole: whole[:2], "it ends after its first line"),
        ("offsets/2", lambda whole: whole[:-5], "line 3 is no JSON"),
        ("offsets/1", lambda whole: whole[:8], "line 2 is no JSON"),
        ("offsets/2", lambda whole: whole[1:], "it begins with '1', and not with a version"),
        ("offsets/2", lambda _: b"\xff", "it is no text"),
        ("commits/1", lambda whole: whole[:-1], "line 2 is no JSON"),
        ("commits/1", lambda _: b"", "it is empty"),
        ("commits/1", lambda _: None, r"it is missing, and its checksums are there, in \.1\.crc"),
        ("offsets/2", lambda _: None, r"it is missing, and its checksums are there, in \.2\.crc"),
        ("logbus.json", lambda whole: whole[:-1], ""),
        ("logbus.json", lambda _: b"[]", "it is no object"),
    ],
)
def test_damage(checkpoint: Path, file: str, change: Callable[[bytes], bytes | None], words: str) -> None:
    """It is told of with the file, and what to do."""
    check_before_spark("join", IDENTITY, str(checkpoint))
    path = checkpoint / file
    content = change(path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PipelineError, match=f"^{path} is damaged: {words}.*; restore all of the checkpoint"):
        check_before_spark("join", IDENTITY, str(checkpoint))


def checksums(content: bytes, size: int = 512) -> bytes:
    """As Hadoop writes them."""
    blocks = [content[at : at + size] for at in range(0, len(content), size)]
    return b"crc\0" + size.to_bytes(4) + b"".join(zlib.crc32(block).to_bytes(4) for block in blocks)


@pytest.mark.parametrize("file", ["metadata", "offsets/2", "offsets/1", "commits/1"])
def test_checksums(checkpoint: Path, file: str) -> None:
    """Of content that could be right, the checksum on a local disk tells whether it is: Spark does not compare it."""
    path = checkpoint / file
    content = path.read_bytes()
    beside = path.with_name(f".{path.name}.crc")
    beside.write_bytes(checksums(content))
    check_before_spark("join", IDENTITY, str(checkpoint))
    path.write_bytes(content.replace(b"0", b"7").replace(b"one", b"two"))
    with pytest.raises(PipelineError, match=f"^{path} is damaged: its content has not the checksum in {beside.name}, "):
        check_before_spark("join", IDENTITY, str(checkpoint))
    beside.unlink()
    check_before_spark("join", IDENTITY, str(checkpoint))


@given(st.binary(max_size=200), st.integers(min_value=1, max_value=50), st.data())
def test_any_change_is_found(content: bytes, size: int, data: st.DataObject) -> None:
    """Content has its checksums, whatever the size of a block, and content of another byte or length has not."""
    known = checksums(content, size)
    assert is_equal(known, content)
    assert not is_equal(known, content + b"x")
    if content:
        at = data.draw(st.integers(min_value=0, max_value=len(content) - 1))
        assert not is_equal(known, content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])


@pytest.mark.parametrize("beside", [b"", b"crc", b"crc\0\0\0\2", b"crc\0\0\0\0\0", b"no checksums", b"crc\0\0\0\2\0x"])
def test_no_checksums(beside: bytes) -> None:
    """A damaged file of checksums says nothing of the content."""
    assert is_equal(beside, b"content")


def test_missing_offsets(checkpoint: Path) -> None:
    """A batch that is finished has offsets."""
    for number in (1, 2):
        (checkpoint / "offsets" / str(number)).unlink()
    with pytest.raises(PipelineError, match="offsets/1 is damaged: it is missing, and the batch is finished"):
        check_files(LocalFileSystem(checkpoint), "c")


def test_other_formats(checkpoint: Path) -> None:
    """What a later Spark writes is left to it."""
    (checkpoint / "offsets" / "2").write_text("v2\nnothing known")
    check_files(LocalFileSystem(checkpoint), "c")


def test_another_query(checkpoint: Path) -> None:
    """It is refused before Spark is started; the types of the result are not known yet."""
    with pytest.raises(OptionError, match="another query: its kind is 'inner', and now it is 'left'"):
        check_before_spark("join", {**IDENTITY, "kind": "left"}, str(checkpoint))
    with pytest.raises(OptionError, match="another query: its job is 'join', and now it is 'windows'"):
        check_before_spark("windows", IDENTITY, str(checkpoint))
    (checkpoint / "logbus.json").unlink()
    with pytest.raises(OptionError, match="another query, which is no job of logbus"):
        check_before_spark("join", IDENTITY, str(checkpoint))


def test_nothing_read_yet(tmp_path: Path) -> None:
    """A new directory is no checkpoint yet, and of a query that has read nothing a setting can be corrected."""
    check_before_spark("join", IDENTITY, str(tmp_path / "new"))
    (tmp_path / "logbus.json").write_text('{"job": "windows"}')
    check_before_spark("join", IDENTITY, str(tmp_path))
    check_before_spark("join", IDENTITY, "hdfs://host/c")
