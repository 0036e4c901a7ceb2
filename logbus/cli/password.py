"""Passwords, from a file or the terminal; never from the command line, which other users of the machine can see."""

from __future__ import annotations

import sys
from pathlib import Path

import click


def read_password(file: Path | None, what: str, *, confirm: bool = True) -> str:
    """
    Read a password.

    :param file: its first line is the password; ``-``: standard input; None: ask on the terminal.
    :param confirm: ask twice, as for a new password.
    :raise click.ClickException: there is none.
    """
    if file is None:
        return str(click.prompt(f"Password of {what}", hide_input=True, confirmation_prompt=confirm))
    try:
        text = sys.stdin.readline() if str(file) == "-" else file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise click.ClickException(f"{file}: the password cannot be read: it is not UTF-8") from None
    except OSError as e:
        raise click.ClickException(f"{file}: the password cannot be read: {e.strerror}") from None
    password = text.partition("\n")[0].rstrip("\r")
    if not password:
        raise click.ClickException(f"{file}: the first line is empty; it has the password")
    return password
