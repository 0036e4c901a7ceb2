"""Passwords for commands."""

from __future__ import annotations

import io
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from logbus.cli.password import read_password
from tests.cli.command_line import run


def test_file(tmp_path: Path) -> None:
    """The first line is the password, whatever ends it; blanks belong to it."""
    file = tmp_path / "password"
    for text in ("a b ", "a b \n", "a b \r\nmore\n"):
        file.write_bytes(text.encode())
        assert read_password(file, "ann") == "a b "


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """``-`` is standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO("secret\nmore\n"))
    assert read_password(Path("-"), "ann") == "secret"


def test_no_password(tmp_path: Path) -> None:
    """A file that is absent, empty or not text is named."""
    file = tmp_path / "password"
    for content in (None, b"", b"\nsecret", b"\xff"):
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(click.ClickException, match=str(file)):
            read_password(file, "ann")


@pytest.mark.parametrize("command", ["add", "alter"])
def test_before_the_broker(command: str, tmp_path: Path) -> None:
    """It is read before the reactor runs, which would keep Ctrl-C from the prompt."""
    file = tmp_path / "password"
    done = run("users", command, "ann", "--password-file", str(file), "--bootstrap", "127.0.0.1:1")
    assert done.status == 2
    assert f"'--password-file': File '{file}' does not exist." in done.err


def test_terminal() -> None:
    """Without a file it is asked for twice, and not shown."""
    command = click.command()(lambda: click.echo(len(read_password(None, "ann"))))
    result = CliRunner().invoke(command, input="secret\nsecret\n")
    assert result.exit_code == 0
    assert "Password of ann" in result.output
    assert "secret" not in result.output
    assert result.output.endswith("6\n")
