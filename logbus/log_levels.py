"""
Levels of loggers, by Kafka's names, which may change while the process runs (Kafka: LoggingController).

A logger is a namespace of Twisted's log, in general the name of a module or of a class in it. One without a level has
that of the next namespace above it: ``logbus.net.protocol``, ``logbus.net``, ``logbus``, ``root``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field
from twisted.logger import ILogFilterPredicate, LogEvent, LogLevel, PredicateResult
from zope.interface import implementer

from logbus.errors import ConfigError

ROOT = "root"
LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
"""From all to the least. Nothing is logged below DEBUG, so TRACE means the same."""
WORKER = "log_worker"
"""The key of events that a worker has sent, whose own levels they have passed."""
NAMED = ("logbus.audit", "logbus.request")
"""Loggers that are not named after a module."""

_RANKS: Mapping[Any, int] = {
    LogLevel.debug: 1,
    LogLevel.info: 2,
    LogLevel.warn: 3,
    LogLevel.error: 4,
    LogLevel.critical: 5,
}
_OURS = ("logbus", "twisted")


@implementer(ILogFilterPredicate)
@define(eq=False)
class LogLevels:
    """
    The levels of a process's loggers.

    :ivar modules: the modules of the process by name; those of ours are loggers.
    """

    _modules: Mapping[str, object] = field(factory=lambda: sys.modules)
    _levels: dict[str, str] = field(factory=lambda: {ROOT: "INFO"}, init=False)
    _configured: dict[str, str] = field(factory=lambda: {ROOT: "INFO"}, init=False)
    _ranks: dict[str, int] = field(factory=dict, init=False)

    def __call__(self, event: LogEvent) -> Any:
        """Whether an event is logged (ILogFilterPredicate)."""
        rank = _RANKS.get(event.get("log_level"), 5)
        if rank >= self._rank(event.get("log_namespace") or ROOT) or WORKER in event:
            return PredicateResult.yes
        return PredicateResult.no

    def configure(self, levels: Mapping[str, str]) -> None:
        """Take the levels of the configuration, in place of all that were set."""
        self._configured = {ROOT: "INFO", **{_name(name): level for name, level in levels.items()}}
        self._levels = dict(self._configured)
        self._ranks.clear()

    def level(self, name: str) -> str:
        """The level in effect for a logger."""
        name = _name(name)
        while name not in self._levels:
            name = name.rpartition(".")[0] or ROOT
        return self._levels[name]

    def is_set(self, name: str) -> bool:
        """Whether a logger has a level of its own that the configuration does not have."""
        name = _name(name)
        return name in self._levels and self._levels[name] != self._configured.get(name)

    def set(self, name: str, level: str) -> None:
        """
        Set the level of a logger, and of those below it without their own.

        :raise ConfigError: there is no such logger, or no such level.
        """
        self.check(name, level)
        self._levels[_name(name)] = level
        self._ranks.clear()

    def unset(self, name: str) -> None:
        """
        Give a logger the level that the configuration has for it, if any, or else that of the next one above.

        :raise ConfigError: there is no such logger.
        """
        self.check(name)
        name = _name(name)
        self._levels.pop(name, None)
        if name in self._configured:
            self._levels[name] = self._configured[name]
        self._ranks.clear()

    def check(self, name: str, level: str | None = None) -> None:
        """
        Check a logger and a level.

        :raise ConfigError: there is no such logger, or no such level.
        """
        if level is not None and level not in LEVELS:
            raise ConfigError(f"{name[:200]}: {level[:50]!r} is not a level; there are {', '.join(LEVELS)}")
        name = _name(name)
        if name in self._levels or name == ROOT or name in NAMED:
            return
        module, _, attribute = name.rpartition(".")
        exists = name in self._modules or hasattr(self._modules.get(module), attribute or ".")
        if not exists or name.partition(".")[0] not in _OURS:
            raise ConfigError(
                f"there is no logger {name[:200]!r}; loggers are root, logbus, twisted, their modules and classes"
            )

    def names(self) -> Iterable[str]:
        """The loggers to show, in order: root, our packages of the first two levels, and those with a level."""
        shown = {
            name
            for name, module in list(self._modules.items())
            if name in _OURS
            or (name.startswith("logbus.") and name.count(".") <= 2 and getattr(module, "__path__", None) is not None)
        }
        return [ROOT, *sorted({*shown, *NAMED, *self._levels} - {ROOT})]

    def _rank(self, namespace: str) -> int:
        rank = self._ranks.get(namespace)
        if rank is None:
            if len(self._ranks) >= 10_000:
                self._ranks.clear()  # namespaces are the code's, but a plugin's could be anything
            rank = self._ranks[namespace] = LEVELS.index(self.level(namespace))
        return rank


def _name(name: str) -> str:
    """Return the name of a logger; Kafka's tools also know ``ROOT``."""
    return ROOT if name.lower() == ROOT else name


process_levels = LogLevels()
"""Those of this process, since it has one log."""
