"""Where the HTTP API of a broker is, as options say it."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from logbus.cli.admin_api import AdminApi
from logbus.cli.backup.backup_format import BackupError
from logbus.cli.backup.backup_source import READ_SECONDS, BackupSource
from tests.cli.command_line import run


@pytest.mark.parametrize("address", ["", "http://", "ftp://here", "here:port", "here:99999", "[::1"])
def test_no_address(address: str) -> None:
    """What is no address is refused."""
    with pytest.raises(click.BadParameter, match="is not an address such as http"):
        AdminApi.of(address, "", None, None, 1.0)


def test_no_certificates(tmp_path: Path) -> None:
    """A file of certificates that cannot be read, or has none, is named."""
    file = tmp_path / "ca.pem"
    file.write_text("nothing")
    for path, why in ((file, "there are no certificates in it"), (tmp_path, "Is a directory"), (file / "x", "Not a ")):
        with pytest.raises(click.BadParameter, match=re.escape(f"{path}: {why}")):
            AdminApi.of("https://127.0.0.1:1", "", None, path, 1.0)


def test_no_password(tmp_path: Path) -> None:
    """The line of error is as any other."""
    done = run("backup", str(tmp_path / "b"), "--user", "ann", "--password-file", str(tmp_path / "p"))
    assert (done.status, done.out) == (1, "")
    assert done.err == f"logbus: {tmp_path}/p: the password cannot be read: No such file or directory\n"


def test_backup_asks_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup does not wait for minutes for an answer, only for a snapshot."""
    asked: list[tuple[str, float | None]] = []

    def ask(self: AdminApi, method: str, path: str, body: object = None, timeout: float | None = None) -> None:
        asked.append((method, timeout))
        raise TimeoutError("timed out")

    monkeypatch.setattr(AdminApi, "ask", ask)
    source = BackupSource(AdminApi.of("http://127.0.0.1:1", "", None, None, 300.0))
    with pytest.raises(BackupError, match="timed out; is this the admin listener"):
        source.brokers()
    with pytest.raises(BackupError), source.snapshots_of((0,)):
        pass
    assert asked == [("GET", READ_SECONDS), ("POST", None)]
