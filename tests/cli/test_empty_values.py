"""Tests of :mod:`logbus.cli.empty_values`, with all commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from logbus.cli.app import app
from logbus.cli.empty_values import AnyText
from tests.cli.command_line import run

_VALUE = "127.0.0.1:9092"


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


def value_of(parameter: click.Parameter, directory: Path) -> str:
    """One that the parameter takes."""
    kind: Any = parameter.type
    if isinstance(kind, click.Choice):
        return str(kind.choices[0])
    if isinstance(kind, click.IntRange | click.FloatRange | click.types.IntParamType | click.types.FloatParamType):
        return "1"
    if isinstance(kind, click.Path):
        return str(directory / "file" if kind.file_okay else directory)
    return _VALUE


def may_be_empty(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, AnyText) or (isinstance(parameter, click.Option) and parameter.is_flag)


@pytest.mark.parametrize("path", sorted(dict(commands(app))))
def test_empty_values(path: str, tmp_path: Path) -> None:
    """Each option and argument refuses it, and the command does not begin."""
    (tmp_path / "file").touch()
    found = dict(commands(app))[path]
    needed = [each for each in found.params if each.required]
    for parameter in found.params:
        if may_be_empty(parameter):
            continue
        arguments: list[str] = []
        for other in [each for each in needed if each is not parameter] + [parameter]:
            value = "" if other is parameter else value_of(other, tmp_path)
            if isinstance(other, click.Option):
                arguments = [other.opts[0], value, *arguments]
        values = [
            "" if each is parameter else value_of(each, tmp_path)
            for each in found.params
            if isinstance(each, click.Argument) and (each.required or each is parameter)
        ]
        with pytest.raises(click.UsageError) as refused:
            found.make_context(path, [*arguments, "--", *values])
        assert refused.value.exit_code == 2
        named = parameter.opts[0] if isinstance(parameter, click.Option) else parameter.make_metavar(refused.value.ctx)
        assert named.strip("[].") in refused.value.format_message(), (arguments, refused.value.format_message())


def test_messages() -> None:
    """Say what is right."""
    result = run("consume", "t", "--until", "")
    assert (result.status, result.out) == (2, "")
    assert result.err.endswith("Error: Invalid value for '--until': it is empty; give WHEN, or leave it out\n")
    result = run("topics", "delete", "")
    assert "Invalid value for 'TOPIC...': it is empty; give TOPIC\n" in result.err
    result = run("audit", "--topic", "")
    assert "Invalid value for '--topic': it is empty; give TEXT, or leave it out\n" in result.err


def test_an_empty_value_that_means_something() -> None:
    """A line that stands for null."""
    assert run("produce", "t", "--null", "", "-b", "127.0.0.1:1").status == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--registry", "http://127.0.0.1:1", "--registry-auth", "alice"],
            "it is not USER:PASSWORD: there is no colon",
        ),
        (["--registry-auth", "alice:secret"], "--registry-auth has the credentials for a registry: name that, too"),
        (["--registry", "127.0.0.1:8081"], "'127.0.0.1:8081' is no URL of a schema registry, such as http://"),
        (["--registry", "http://a:b@127.0.0.1:8081"], "--registry-auth has name and password"),
        (["--registry", "http://127.0.0.1:99999"], "is no URL of a schema registry"),
    ],
)
def test_registries(arguments: list[str], said: str) -> None:
    """What is wrong about a registry is said before anything begins, without the password."""
    result = run("consume", "t", *arguments)
    assert result.status == 2
    assert said in " ".join(result.err.split())
    assert "'alice'" not in result.err
