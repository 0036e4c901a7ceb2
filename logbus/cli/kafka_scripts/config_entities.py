"""The entities and the changes that options of ``kafka-configs`` name. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

from attrs import frozen

from logbus.cli.kafka_scripts.option_parser import ParsedOptions, UsageError

TYPES = ("topics", "clients", "users", "brokers", "ips", "groups", "broker-loggers")
QUOTA_TYPES = {"users": "user", "clients": "client-id", "ips": "ip"}
"""The types that have quotas, and what requests call them."""

DEFAULT = ""
"""The name of the default entity."""

_SHORT = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "group": "groups",
}
_SHORT_DEFAULTS = {
    "client-defaults": "clients",
    "user-defaults": "users",
    "broker-defaults": "brokers",
    "ip-defaults": "ips",
}
_BETWEEN = re.compile(r",(?![^\[\]]*\])")
"""A comma that is not in brackets."""


@frozen
class Entity:
    """
    A topic, a broker, a user, …

    :ivar type: one of :data:`TYPES`.
    :ivar name: :data:`DEFAULT`: the default one; None: all.
    """

    type: str
    name: str | None


def entities_of(options: ParsedOptions, *, names_required: bool) -> list[Entity]:
    """
    The entities that options name.

    :param names_required: each needs a name.
    :raise UsageError: they are wrong, too many or too few.
    """
    types, names = options.values("entity-type"), _names(options)
    for kind in types:
        if kind not in TYPES:
            raise UsageError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(TYPES)} with a "
                "--bootstrap-server argument"
            )
    short = [
        Entity(_SHORT[name], value) if name in _SHORT else Entity(_SHORT_DEFAULTS[name], DEFAULT)
        for name, value in options.given
        if name in _SHORT or name in _SHORT_DEFAULTS
    ]
    if short and (types or names):
        raise UsageError("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    if not types and not short:
        raise UsageError("At least one entity type must be specified")
    if len(names) > len(types):
        raise UsageError("--entity-name or --entity-default must be specified with --entity-type, at most one for each")
    found = short or [Entity(kind, names[index] if index < len(names) else None) for index, kind in enumerate(types)]
    kinds = [each.type for each in found]
    if len(set(kinds)) < len(kinds):
        raise UsageError(f"Duplicate entity type(s) specified: {', '.join(sorted(set(kinds)))}")
    if len(kinds) > 1 and set(kinds) != {"users", "clients"}:
        raise UsageError(f"Only '{'users'}' and '{'clients'}' entity types may be specified together")
    if names_required and any(each.name is None for each in found):
        raise UsageError("--entity-name or --entity-default must be specified with --alter of " + ", ".join(kinds))
    for each in found:
        if each.type in ("topics", "groups", "broker-loggers") and each.name == DEFAULT:
            raise UsageError(f"--entity-default must not be specified for {each.type}")
        if each.type in ("brokers", "broker-loggers") and each.name and not each.name.isdigit():
            raise UsageError(
                f"The entity name for {each.type} must be a valid integer broker id, but it is: {each.name}"
            )
    return found


def singular(kind: str) -> str:
    """The name of one entity of a type."""
    return kind.removesuffix("s")


def configs_to_add(texts: Iterable[str]) -> dict[str, str]:
    """
    Parse ``name=value,name=[value1,value2]``.

    :raise UsageError: one is not of this form.
    """
    found = {}
    for text in texts:
        for pair in _BETWEEN.split(text):
            if not pair.strip():
                continue
            name, equals, value = pair.partition("=")
            if not equals or not name.strip():
                raise UsageError(
                    "requirement failed: Invalid entity config: all configs to be added must be in the format "
                    '"key=val" or  "key=[val1,val2]" to group values which contain commas.'
                )
            found[name.strip()] = re.sub(r"^\[(.*)\]$", r"\1", value.strip(), flags=re.DOTALL)
    return found


def configs_to_delete(texts: Iterable[str]) -> list[str]:
    """Parse ``name,name``."""
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def java_double(number: float) -> str:
    """A number as Java prints a ``double``: 1024.0, 1.048576E7."""
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(float(number))
    sign, digits, _ = Decimal(repr(float(number))).normalize().as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{Decimal(repr(float(number))).adjusted()}"


def _names(options: ParsedOptions) -> Sequence[str]:
    found: list[str] = []
    for name, value in options.given:
        if name == "entity-name":
            found.append(value or "")
        elif name == "entity-default":
            found.append(DEFAULT)
    return found
