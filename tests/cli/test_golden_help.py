"""The help of each command, on a terminal of 80 and of 60 columns, as it was looked at."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator

import click
import pytest

from logbus.cli.app import app, run_app
from tests.cli.golden_files import GOLDEN, compare

WIDTHS = (80, 60)
#: It is there to be copied, and so may be wide.
EXAMPLE = re.compile(r"^  Example:\n(?: {4}.*\n)+", re.MULTILINE)
#: The release of click whose layout the files have; that of others may differ a little.
CLICK = "8.5"


def paths(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """A command and all below it."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from paths(below, (*path, name))


def forget_help(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have click make a command's --help anew: it keeps the one of a test that called the command by itself."""
    command: click.Command | None = app
    monkeypatch.setattr(app, "_help_option", None, raising=False)
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
        monkeypatch.setattr(command, "_help_option", None, raising=False)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints."""
    try:
        status: object = run_app(arguments)
    except SystemExit as e:  # of the broker's own parser
        status = e.code
    assert status == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["", *app.lazy])
def test_help(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what the file has, of the command and of those below it; lines fit, but for examples to be copied."""
    command = app.get_command(click.Context(app), name) if name else None
    text = []
    for columns in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(columns))
        for path in paths(command, (name,)) if command is not None else [()]:
            forget_help(path, monkeypatch)
            said = shown(capsys, *path, "--help")
            wide = [line for line in EXAMPLE.sub("", said).splitlines() if len(line) > columns]
            assert wide == [], path
            text.append(f"$ COLUMNS={columns} logbus {' '.join([*path, '--help'])}\n{said}")
    is_same_layout = importlib.metadata.version("click").startswith(f"{CLICK}.")
    compare(f"help/{name or 'logbus'}.txt", "\n".join(text), words_only=not is_same_layout)


def test_no_file_is_left_over() -> None:
    """Each file is of a command that there is."""
    assert {file.stem for file in (GOLDEN / "help").iterdir()} == {"logbus", *app.lazy}
