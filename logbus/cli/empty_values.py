"""
Refuses empty values of options and arguments, for all commands.

An empty value is mostly a shell's variable that is not set. A command that took it for none given would do something
else than it was told.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

import click
from click.core import ParameterSource

C = TypeVar("C", bound=click.Command)


class AnyText(click.types.StringParamType):
    """The type of a parameter that may be empty."""


def refuse_empty_values(command: C) -> C:
    """
    Have a command, and those of a group, refuse empty values before it begins.

    :returns: the same command.
    """
    if isinstance(command, click.Group):
        for each in command.commands.values():
            refuse_empty_values(each)
    for parameter in command.params:
        # Before the conversion, which makes of an empty path the working directory.
        if not isinstance(parameter.type, AnyText) and "consume_value" not in vars(parameter):
            vars(parameter)["consume_value"] = partial(_not_empty, parameter)
    return command


def _not_empty(
    parameter: click.Parameter, context: click.Context, given: Mapping[str, Any]
) -> tuple[Any, ParameterSource]:
    """
    Return the value of a parameter, and where it is from.

    :raises click.BadParameter: it is empty on the command line, or one of its values is.
    """
    value, source = type(parameter).consume_value(parameter, context, given)
    values = value if isinstance(value, list | tuple) else [value]
    if source is ParameterSource.COMMANDLINE and "" in values:
        what = parameter.make_metavar(context).strip("[].")
        or_not = "" if parameter.required else ", or leave it out"
        raise click.BadParameter(f"it is empty; give {what}{or_not}", context, parameter)
    return value, source
