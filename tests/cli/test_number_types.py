"""Tests of :mod:`logbus.cli.number_types`."""

from __future__ import annotations

import click
import pytest

from logbus.cli.number_types import FloatRange, IntRange
from tests.cli.command_line import run
from tests.cli.test_empty_values import commands


@pytest.mark.parametrize("text", ["nan", "inf", "x", "1,5", "1h"])
def test_no_numbers(text: str) -> None:
    """They are refused in words that a user knows, whatever the bounds."""
    with pytest.raises(click.BadParameter, match=f"'{text}' is not a valid number"):
        FloatRange(min=-1).convert(text, None, None)
    with pytest.raises(click.BadParameter, match=f"'{text}' is not a valid integer"):
        IntRange(min=-1).convert(text, None, None)


def test_bounds() -> None:
    """What is within them is taken, and else they are named."""
    assert (FloatRange(min=0).convert("2.5", None, None), IntRange(0, 9).convert("9", None, None)) == (2.5, 9)
    with pytest.raises(click.BadParameter, match="is not in the range 0<=x<=9"):
        IntRange(0, 9).convert("10", None, None)


def test_all_commands() -> None:
    """They have these types."""
    from logbus.cli.app import app

    plain = {click.IntRange, click.FloatRange, click.types.FloatParamType}
    found = [
        f"{path} {parameter.name}"
        for path, command in commands(app)
        for parameter in command.params
        if type(parameter.type) in plain
    ]
    assert found == []


def test_hours() -> None:
    """A token's time that is no number is no internal error."""
    result = run("tokens", "create", "--max-hours", "nan")
    assert (result.status, result.out) == (2, "")
    assert result.err.endswith("Error: Invalid value for '--max-hours': 'nan' is not a valid number.\n")
