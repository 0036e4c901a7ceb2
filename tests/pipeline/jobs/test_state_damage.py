"""Tests what a failure because of a damaged state is called."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from logbus.pipeline.jobs.state_damage import state_damage
from logbus.pipeline.lake.file_system import LocalFileSystem
from tests.pipeline.jobs.test_checkpoint_files import checksums

DELTA = "state/0/1/left-keyToNumValues/2.delta"
SCHEMA = "state/0/0/left-keyToNumValues/_metadata/schema"
LOADING = (
    "batch 2: org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.{}] An error occurred during loading state. "
)
ENDED = f"{LOADING.format('UNCATEGORIZED')} SQLSTATE: 58030: java.io.EOFException: Stream ended prematurely"


@pytest.fixture
def checkpoint(tmp_path: Path) -> LocalFileSystem:
    """A checkpoint with a state whose files have checksums."""
    for name in (DELTA, SCHEMA):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"what it is")
        path.with_name(f".{path.name}.crc").write_bytes(checksums(b"what it is"))
    return LocalFileSystem(tmp_path)


def said(checkpoint: LocalFileSystem, problem: str) -> str:
    """What the error says of a checkpoint named ``c``; "": it is left as it is."""
    return str(state_damage(checkpoint, "c", problem) or "")


def test_a_file_is_missing(checkpoint: LocalFileSystem) -> None:
    """It is named as the user knows the checkpoint, in the words of each of Spark's stores."""
    for kind, words, file in (
        ("CANNOT_READ_DELTA_FILE_NOT_EXISTS", "delta file file:", DELTA),
        ("CANNOT_READ_STREAMING_STATE_FILE", "streaming state file of file:", "state/0/0/default/7.changelog"),
    ):
        of = f"{checkpoint.root}/{file}"
        problem = (
            f"{LOADING.format(kind)}Error reading {words}{of} of HDFSStateStoreProvider[stateStoreProviderId=x]: "
            f"file:{of} does not exist. SQLSTATE: 58030: java.io.FileNotFoundException: File file:{of} does not exist"
        )
        assert said(checkpoint, problem).startswith(f"c/{file} is damaged: it is missing; restore all of")
        assert said(checkpoint, re.sub(r" of HDFS.*?: file:\S+", "", problem)).startswith(
            f"c/{file} is damaged: it is mis"
        )


def test_all_of_it_is_missing(checkpoint: LocalFileSystem) -> None:
    """Spark does not say where it should be."""
    words = "c/state is damaged: it is missing or empty, and there are batches; restore"
    problem = "[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY] Cannot restart streaming query"
    assert said(checkpoint, problem).startswith(words)
    shutil.rmtree(checkpoint.root / "state")
    problem = "file:///x/c: the query's state cannot be read: [STDS_FAILED_TO_READ_STATE_SCHEMA] Failed to read"
    assert said(checkpoint, problem).startswith(words)


def test_a_file_is_damaged(checkpoint: LocalFileSystem) -> None:
    """Spark does not name it; its checksum does."""
    (checkpoint.root / DELTA).write_bytes(b"what it")
    for problem in (ENDED, f"file://c: the query's state cannot be read: {ENDED}"):
        assert said(checkpoint, problem).startswith(
            f"c/{DELTA} is damaged: its content has not the checksum in .2.delta.crc, "
        )
    # One that a repeated batch writes again may be newer than its checksum, if the job was killed in between.
    assert said(checkpoint, "batch 2: the disk is full") == ""


def test_no_file_is_known_to_be_damaged(checkpoint: LocalFileSystem) -> None:
    """The cause is told, and what to do if it is a damage."""
    for problem in (ENDED, f"file:///x/c: the query's state cannot be read: {ENDED}"):
        assert said(checkpoint, problem) == (
            "c/state cannot be read: Stream ended prematurely; if it is damaged, restore all of the checkpoint from a "
            "copy, or start over with another checkpoint and other outputs"
        )


def test_the_schema_is_damaged(checkpoint: LocalFileSystem) -> None:
    """Spark's error does not even tell that it is about the state."""
    problem = "malformed input around byte 107 SQLSTATE: XXKST"
    assert said(checkpoint, problem) == ""
    (checkpoint.root / SCHEMA).write_bytes(b"what it was")
    assert said(checkpoint, problem).startswith(
        f"c/{SCHEMA} is damaged: its content has not the checksum in .schema.crc"
    )


def test_a_file_that_was_being_written(checkpoint: LocalFileSystem) -> None:
    """Spark never reads it again: that it is not whole, as on a full disk or after a kill, is no damage."""
    draft = checkpoint.root / "state/0/0/left-keyToNumValues/_metadata/.schema.abd02587-bebe.tmp"
    draft.write_bytes(b"")
    draft.with_name(f".{draft.name}.crc").write_bytes(checksums(b"what it was to be"))
    assert said(checkpoint, "Fail to write schema file") == ""
