"""
The options of ``logbus mirror`` that brokers have as configuration keys, made of the declarations of these keys: names,
types, defaults and help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
from attrs import frozen

from logbus.config import keys
from logbus.config.config_key import ConfigKey
from logbus.config.kinds import ConfigType
from logbus.errors import ConfigError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

CONNECTIONS: Mapping[ConfigKey[Any], str] = {
    keys.MIRROR_SOURCE_BOOTSTRAP_SERVERS: "--from",
    keys.MIRROR_SOURCE_CONFIG: "--from-config",
    keys.MIRROR_TARGET_BOOTSTRAP_SERVERS: "--to",
    keys.MIRROR_TARGET_CONFIG: "--to-config",
}
"""Keys whose options are declared elsewhere, since both clusters are named by each command."""

_NAMES: Mapping[ConfigKey[Any], tuple[str, ...]] = {
    keys.MIRROR_SOURCE_NAME: ("--from-name",),
    keys.MIRROR_TARGET_NAME: ("--to-name",),
    keys.MIRROR_TOPICS: ("--topics", "-t"),
    keys.MIRROR_TOPICS_EXCLUDE: ("--exclude", "-x"),
    keys.MIRROR_GROUPS: ("--groups", "-g"),
    keys.MIRROR_GROUPS_EXCLUDE: ("--exclude-groups",),
    keys.MIRROR_SYNC_SETTINGS: ("--no-sync-settings",),
}
"""Names of options that are not those of their keys."""
_METAVARS = {
    keys.MIRROR_SOURCE_NAME: "ALIAS",
    keys.MIRROR_TARGET_NAME: "ALIAS",
    keys.MIRROR_RATE: "BYTES",
}
_HELP = {keys.MIRROR_SYNC_SETTINGS: "Do not copy changes of topics' settings."}
"""Help of an option that says the contrary of its key."""
_TYPES = {ConfigType.INT: "INTEGER", ConfigType.LONG: "INTEGER", ConfigType.DOUBLE: "FLOAT", ConfigType.LIST: "REGEX"}

OPTIONS = tuple(
    key
    for key in vars(keys).values()
    if isinstance(key, ConfigKey) and key.name.startswith("mirror.") and key not in CONNECTIONS
)
"""The keys of which options are made."""


class _KeyType(click.ParamType):  # type: ignore[type-arg]
    """Parses a value as the key does."""

    def __init__(self, key: ConfigKey[Any]) -> None:
        self.name = _METAVARS.get(key) or _TYPES.get(key.type, "TEXT")
        self._key = key

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._key.kind.parse(value.strip())
        except ValueError:
            self.fail(f"{value!r} is not valid; accepted: {self._key.kind.accepts}", param, ctx)


def option_name(key: ConfigKey[Any]) -> str:
    """The option of a key: ``--on-too-large`` of ``mirror.on.too.large``."""
    return CONNECTIONS.get(key) or _names(key)[0]


def mirror_key_options(command: F) -> F:
    """Add the options; the command gets the values by the names of their keys, such as ``mirror_on_too_large``."""
    for key in reversed(OPTIONS):
        command = _option(key)(command)
    return command


@frozen
class GivenSettings:
    """
    The settings that were given, as :class:`.MirrorSettings`.

    :ivar values: the arguments of the command, of which those of other options do not matter.
    """

    values: Mapping[str, Any]

    def get(self, key: ConfigKey[T]) -> T:
        """Return a value."""
        value: Any = self.values[_argument(key)]
        if _is_negated(key):
            return not value  # type: ignore[return-value]
        if key.type is ConfigType.LIST:
            value = tuple(each for part in value for each in part) or key.default
        return value  # type: ignore[no-any-return]

    def name_of(self, key: ConfigKey[Any]) -> str:
        """Return the option."""
        return option_name(key)


def mirror_options_of(values: Mapping[str, Any], flow: str | None, until_end: bool) -> Any:
    """
    Return the :class:`.MirrorOptions` of what was given.

    :raises click.UsageError: a value is wrong.
    """
    from logbus.mirror.mirror_keys import mirror_options
    from logbus.mirror.mirror_options import check_flow

    try:
        if flow is not None:
            check_flow("--flow", flow)
        return mirror_options(GivenSettings(values), flow=flow, until_end=until_end)
    except ConfigError as e:
        raise click.UsageError(str(e)) from None


def _option(key: ConfigKey[Any]) -> Callable[[F], F]:
    what: dict[str, Any] = {"help": _HELP.get(key) or key.doc.replace("``", "")}
    if key.type is ConfigType.BOOLEAN:
        what["is_flag"] = True
    elif key.kind.choices:
        what |= {"type": click.Choice(key.kind.choices), "default": key.default, "show_default": True}
    elif key.type is ConfigType.LIST:
        what |= {"type": _KeyType(key), "multiple": True, "show_default": "all" if key.default else False}
    else:
        what |= {"type": _KeyType(key), "default": key.default, "show_default": True}
    return click.option(*_names(key), _argument(key), **what)


def _is_negated(key: ConfigKey[Any]) -> bool:
    return key.type is ConfigType.BOOLEAN and bool(key.default)


def _names(key: ConfigKey[Any]) -> tuple[str, ...]:
    plain = key.name.removeprefix("mirror.").removesuffix(".seconds").replace(".", "-")
    return _NAMES.get(key) or (f"--{plain}",)


def _argument(key: ConfigKey[Any]) -> str:
    return key.name.replace(".", "_")
