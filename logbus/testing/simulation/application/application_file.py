"""Finds an application by ``MODULE:FUNCTION``."""

from __future__ import annotations

import importlib
import os
import sys
import traceback

from logbus.errors import ConfigError
from logbus.testing.simulation.application.simulated_application import SimulatedApplication, check_function


def load(name: str) -> SimulatedApplication:
    """
    Import an application.

    :param name: ``MODULE:FUNCTION``; the module is also looked for in the current directory.
    :returns: a plain function becomes an application without topics, input or checks.
    :raises ConfigError: there is none of that name, or it is no application.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module_name.split("."), *attribute.split("."))):
        raise ConfigError(f"{name!r} is no application; give MODULE:FUNCTION, such as billing:billing")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as e:
        if e.name is not None and (module_name == e.name or module_name.startswith(f"{e.name}.")):
            raise ConfigError(f"there is no module {module_name!r} in {here} or where Python is installed") from None
        raise ConfigError(f"{module_name} cannot be imported: {_told(e)}") from None
    except Exception as e:
        raise ConfigError(f"{module_name} cannot be imported: {_told(e)}") from None
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ConfigError(f"{module_name} has no {attribute!r}{_others(found)}") from None
    if isinstance(found, SimulatedApplication):
        return found
    check_function(found, name)
    return SimulatedApplication(found, {}, 1, ())  # type: ignore[arg-type]  # it was checked


def _told(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({os.path.relpath(where.filename)}:{where.lineno})"


def _others(module: object) -> str:
    names = sorted(name for name, value in vars(module).items() if isinstance(value, SimulatedApplication))
    return f"; it has {', '.join(names)}" if names else ""
