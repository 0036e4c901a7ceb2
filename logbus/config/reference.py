"""Generates the reference page of all configuration keys from their declarations."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from logbus.config.config_key import ConfigKey, Dynamic, Scope
from logbus.config.keys import (
    admin,
    broker,
    cleaner,
    groups,
    logging,
    mirror,
    network,
    quotas,
    remote_log,
    replication,
    security,
    share_coordinator,
    share_groups,
    storage,
    streams_groups,
    topics,
    transactions,
)
from logbus.config.keys.ignored import FOREIGN_TOPIC_KEYS, IGNORED_BROKER_KEYS, IGNORED_BROKER_PREFIXES

_CHAPTERS: tuple[tuple[str, ModuleType], ...] = (
    ("Broker", broker),
    ("Network", network),
    ("Topics", topics),
    ("Storage", storage),
    ("Cleaning", cleaner),
    ("Tiered storage", remote_log),
    ("Groups", groups),
    ("Share groups", share_groups),
    ("Streams groups", streams_groups),
    ("Transactions", transactions),
    ("Share coordinator", share_coordinator),
    ("Replication", replication),
    ("Quotas", quotas),
    ("Security", security),
    ("Admin listener", admin),
    ("Log of the process", logging),
    ("Mirror of another cluster", mirror),
)


def reference_rst() -> str:
    """Return the page as reStructuredText."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from _heading("Configuration keys", "=")
    yield "Names and units are Kafka's. A key that topics carry, too, is given with the topic's name for it; a topic's"
    yield "own value wins over the broker's. Where a key falls back on others, the first of them that is set counts."
    yield ""
    for title, module in _CHAPTERS:
        yield from _heading(title, "-")
        yield (module.__doc__ or "").strip()
        yield ""
        for value in vars(module).values():
            if isinstance(value, ConfigKey):
                yield from _key(value)
    yield from _heading("Keys that mean nothing here", "-")
    yield "They are accepted with a warning, so that a file written for Kafka starts a broker."
    yield ""
    prefixes = {f"{prefix}*": why for prefix, why in IGNORED_BROKER_PREFIXES.items()}
    for name, why in sorted({**IGNORED_BROKER_KEYS, **prefixes}.items()):
        yield f"``{name}``: {why}."
        yield ""
    for name, why in sorted(FOREIGN_TOPIC_KEYS.items()):
        yield f"``{name}`` (topic): {why}."
        yield ""


def _heading(title: str, line: str) -> list[str]:
    return [title, line * len(title), ""]


def _key(key: ConfigKey[Any]) -> Iterator[str]:
    yield f"``{key.name}``"
    yield f"    {key.doc}"
    yield ""
    facts = [key.type.name.lower()]
    default = key.text(key.default)
    facts.append("no default" if default is None else f"default ``{default}``" if default else "default empty")
    facts.append(f"accepted: {key.kind.accepts}")
    if key.scope is Scope.TOPIC:
        facts.append("topics only")
    elif key.scope is Scope.BOTH:
        facts.append(f"topics: ``{key.topic}``")
    if key.group is not None:
        facts.append("groups only" if key.scope is Scope.GROUP else f"groups: ``{key.group}``")
    if key.fallbacks:
        facts.append("falls back on " + ", ".join(f"``{fallback.key.name}``" for fallback in key.fallbacks))
    if key.per_listener:
        facts.append(f"per listener: ``listener.name.<name>.{key.name}``")
    if key.scope in (Scope.BROKER, Scope.BOTH):
        facts.append(
            "read-only" if key.dynamic is Dynamic.NO else f"can be changed while brokers run, {key.dynamic.value}"
        )
    if key.sensitive:
        facts.append("never shown")
    yield "    " + "; ".join(facts) + "."
    yield ""
