"""What a backup says of itself, and damaged backups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logbus.cli.backup.backup_format import (
    Backup,
    BackupError,
    BrokerBackup,
    LogFiles,
    read_backup,
    read_manifest,
)
from logbus.model import TopicPartition
from logbus.storage.log_snapshots import BACKUP, MANIFEST

WHERE = Path("backup.json")
BROKER = BrokerBackup(3, 0, ["broker-3/0"], ["/data"])
WHOLE = Backup("2026-01-02T03:04:05+00:00", "c" * 22, True, [BROKER])
LOG = LogFiles("a-0", TopicPartition("a", 0), 1, 9, 8, 4, 2, {"00000000000000000001.log": 77})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_round_trip() -> None:
    """What was written is read."""
    assert Backup.decode(WHOLE.encode(), WHERE) == WHOLE
    assert LogFiles.decode(LOG.encode(), WHERE) == LOG


@given(st.text() | JSON.map(json.dumps), st.sampled_from([Backup.decode, LogFiles.decode]))
def test_arbitrary(text: str, decode: Any) -> None:
    """Other texts are refused with the file's name."""
    with pytest.raises(BackupError, match=r"backup\.json"):
        decode(text, WHERE)


@given(st.data())
def test_changed(data: st.DataObject) -> None:
    """A member that is missing, or another kind of value, is an error or a backup; never another exception."""
    for text, decode in ((WHOLE.encode(), Backup.decode), (LOG.encode(), LogFiles.decode)):
        told = json.loads(text)
        member = data.draw(st.sampled_from(sorted(told)))
        told[member] = data.draw(JSON)
        try:
            decode(json.dumps(told), WHERE)
        except BackupError as e:
            assert "backup.json" in str(e)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../b", ""])
def test_names_that_lead_out(name: str) -> None:
    """A manifest names files below its directory, wherever it is from."""
    told = json.loads(LOG.encode())
    for changed in ({**told, "directory": name}, {**told, "files": {name: 1}}):
        with pytest.raises(BackupError):
            LogFiles.decode(json.dumps(changed), WHERE)
    broker = {"broker": 0, "worker": 0, "directories": [name], "paths": ["/data"]}
    with pytest.raises(BackupError):
        Backup.decode(json.dumps({**json.loads(WHOLE.encode()), "brokers": [broker]}), WHERE)


def test_newer() -> None:
    """A backup of a newer release is told as such."""
    told = {**json.loads(WHOLE.encode()), "version": 2}
    with pytest.raises(BackupError, match="has version 2; this release reads 1"):
        Backup.decode(json.dumps(told), WHERE)


def test_files(tmp_path: Path) -> None:
    """Of an unfinished backup, one with a damaged manifest, and one without."""
    with pytest.raises(BackupError, match=r"not a backup, or one that was not finished: there is no backup\.json"):
        read_backup(tmp_path)
    (tmp_path / BACKUP).write_bytes(b"\xff")
    with pytest.raises(BackupError, match="damaged"):
        read_backup(tmp_path)
    with pytest.raises(BackupError, match="missing"):
        list(read_manifest(tmp_path))
    (tmp_path / MANIFEST).write_text(LOG.encode() + LOG.encode()[:20])
    with pytest.raises(BackupError, match="damaged"):
        list(read_manifest(tmp_path))
