"""Restoring a backup: what it makes, and that it leaves nothing half done."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from logbus.cli.app import app
from logbus.cli.backup.backup_format import Backup, BackupError, BrokerBackup, LogFiles
from logbus.cli.backup.file_copy import FileCopy
from logbus.cli.backup.restore import SKIPPED_PRODUCER_IDS, Restore
from logbus.cli.backup.snapshot_copy import SnapshotCopy
from logbus.cluster.broker_snapshots import METADATA
from logbus.errors import ConfigError
from logbus.metastore.cluster_znodes import ProducerIdBlock, ProducerIdBlockZnode
from logbus.metastore.metadata_file import Metadata, dump
from logbus.metastore.znodes import PRODUCER_ID_BLOCK
from logbus.model import TopicPartition
from logbus.preflight import try_directory
from logbus.storage import checkpoints
from logbus.storage.checkpoints import MetaProperties
from logbus.storage.log_snapshots import BACKUP, MANIFEST
from tests.metastore.test_metadata_file import nodes_of

LOG = LogFiles("t0-0", TopicPartition("t0", 0), 0, 9, 9, 0, 0, {"00000000000000000000.log": 700})


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup of one log of a broker that had two log directories."""
    made = tmp_path / "backup"
    names = ["broker-0/0", "broker-0/1"]
    for name, logs in zip(names, ([LOG], []), strict=True):
        directory = made / name
        directory.mkdir(parents=True)
        (directory / MANIFEST).write_text("".join(log.encode() for log in logs))
        for checkpoint in (
            checkpoints.RECOVERY_POINTS,
            checkpoints.LOG_START_OFFSETS,
            checkpoints.HIGH_WATERMARKS,
            checkpoints.CLEANED_OFFSETS,
        ):
            (directory / checkpoint).write_bytes(checkpoints.encode_offsets({}))
        (directory / checkpoints.META_PROPERTIES).write_bytes(MetaProperties(0, "c" * 22).encode())
        (directory / checkpoints.BOOT_ID).write_bytes(b"restored")
    (made / "broker-0/0/t0-0").mkdir()
    (made / "broker-0/0/t0-0/00000000000000000000.log").write_bytes(b"x" * 700)
    block = ProducerIdBlockZnode.encode(ProducerIdBlock(0, 5000, 5999))
    (made / METADATA).write_text(dump(Metadata(nodes_of(1, **{PRODUCER_ID_BLOCK: block}))))
    described = Backup("2026-01-01", "c" * 22, True, [BrokerBackup(0, 0, names, ["/one", "/two"])])
    (made / BACKUP).write_text(described.encode())
    return made


def restored(*words: Path) -> None:
    """Run the command in a process of its own, with a reactor of its own."""
    logbus = [sys.executable, "-c", "from logbus.cli import main; main()", "restore"]
    done = subprocess.run([*logbus, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_restored(backup: Path, tmp_path: Path) -> None:
    """The directories have the logs and checkpoints, and the first the metadata."""
    one, two = tmp_path / "one", tmp_path / "two"
    restored(backup, one, two)
    assert (one / "t0-0/00000000000000000000.log").read_bytes() == b"x" * 700
    assert {checkpoints.META_PROPERTIES, checkpoints.RECOVERY_POINTS} < {each.name for each in two.iterdir()}
    assert (one / "metadata.db").exists()
    assert not (two / "metadata.db").exists()
    assert not (one / MANIFEST).exists()
    try_directory(one, 0)
    try_directory(two, 0)


def test_misspelt_place(backup: Path, tmp_path: Path) -> None:
    """The directory that one is made in must be there: a misspelt path makes no tree, for a backup neither."""
    place = tmp_path / "nowhere" / "deep" / "data"
    for words in (["restore", str(backup), str(tmp_path / "one"), str(place)], ["backup", str(place)]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code != 0
        assert f"{place}: there is no directory {place.parent}" in str(done.exception)
    assert [each.name for each in tmp_path.iterdir()] == ["backup"]


def test_into_the_backup(backup: Path, tmp_path: Path) -> None:
    """A backup that had a broker's directories in it would be damaged by the broker."""
    for wrong in (backup / "in", backup):
        restore = Restore(backup, [tmp_path / "one", wrong], lambda done, total: None)
        with pytest.raises(BackupError, match=f"{wrong} is in the backup: restore it to a directory elsewhere"):
            restore.check()


@pytest.mark.parametrize("inside", [".", "broker-0/0"])
def test_broker_on_a_backup(backup: Path, inside: str) -> None:
    """No broker starts on a backup itself: it would delete what is there, as logs of topics that it does not have."""
    with pytest.raises(ConfigError, match=r"is a backup, .* make a data directory of it \(logbus restore\)"):
        try_directory(backup / inside, 0)


def test_backup_in_a_log_directory(tmp_path: Path) -> None:
    """A backup in a log directory is refused: the broker would take one called ``monday-1`` for a log of its own."""
    snapshot = tmp_path / "data" / ".snapshot"
    target = tmp_path / "data" / "monday-1"
    with pytest.raises(BackupError, match=r"monday-1 is in .*/data, a log directory of the broker"):
        SnapshotCopy(target, None, lambda done, total: None).make({0: [str(snapshot)]}, "2026-01-01")


def test_producer_ids(backup: Path, tmp_path: Path) -> None:
    """Those that were given out after the backup are given to nobody else."""
    nodes = Restore(backup, [tmp_path / "one", tmp_path / "two"], lambda done, total: None).metadata().nodes
    block = ProducerIdBlockZnode.decode(nodes[PRODUCER_ID_BLOCK])
    assert (block.first, block.last) == (5000 + SKIPPED_PRODUCER_IDS, 5999 + SKIPPED_PRODUCER_IDS)


def test_full_disk(backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left where there was nothing, so that it can be tried again."""

    def full(copy: FileCopy, source: Path, target: Path, size: int, earlier: Path | None = None) -> None:
        target.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(FileCopy, "copy", full)
        done = CliRunner().invoke(app, ["restore", str(backup), str(one), str(two)])
    assert done.exit_code != 0
    assert "No space left on device" in str(done.exception)
    assert not list(one.iterdir())
    restored(backup, one, two)


def test_killed(backup: Path, tmp_path: Path) -> None:
    """No broker starts on what a restore that was killed has left, since it would delete the logs."""
    one, two = tmp_path / "one", tmp_path / "two"
    Restore(backup, [one, two], lambda done, total: None).copy()
    for target in (one, two):
        with pytest.raises(ConfigError, match=f"{target}: a restore to it was not finished"):
            try_directory(target, 0)
    done = CliRunner().invoke(app, ["restore", str(backup), str(one), str(two)])
    assert "one: a restore to it was not finished: remove" in str(done.exception)
    assert "a restore was not finished" in CliRunner().invoke(app, ["verify", str(two)]).output.lower()


def test_sigterm(backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM has what was made removed, as Ctrl-C does, before the process ends by it."""

    def terminated(copy: FileCopy, source: Path, target: Path, size: int, earlier: Path | None = None) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    ended: list[signal.Signals] = []
    monkeypatch.setattr(FileCopy, "copy", terminated)
    monkeypatch.setattr("logbus.cli.termination.exit_by_signal", ended.append)
    one, two = tmp_path / "one", tmp_path / "two"
    CliRunner().invoke(app, ["restore", str(backup), str(one), str(two)])
    assert ended == [signal.SIGTERM]
    assert not list(one.iterdir())
    assert not list(two.iterdir())
