"""Says whether ``logbus`` accepts a command line, without running it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from logbus.cli.app import app


def accepts(words: Sequence[str]) -> bool:
    """Whether the commands and options of ``logbus WORDS`` exist, with values of their types."""
    command: click.Command | None = app
    left = list(words)
    while isinstance(command, click.Group) and left:
        command = command.get_command(click.Context(command), left.pop(0))
    if command is None:
        return False
    try:
        command.make_context("logbus", left)
    except click.UsageError:
        return False
    return True
