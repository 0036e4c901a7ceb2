"""
Finds the classes of handlers in this package, and builds them.

A class belongs to them if one of its methods is marked by :func:`.serves`. So a new API is a new module, and no table.

A module is imported when the first request of one of its APIs comes, if its source says all that a broker must know
before (:func:`declared_apis`): most APIs are never asked for, and all together are a tenth of a start and 2 MB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Protocol, Self

import logbus.handlers
from logbus.attrs_code import kept_attrs_code
from logbus.config import keys
from logbus.handlers.authorization.guard import GuardedHandlers, all_guards
from logbus.handlers.broker_loggers import INCREMENTAL_ALTER_CONFIGS, LoggerChanges, divided_changes
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.forward_to_controller import ForwardToController
from logbus.handlers.request_log import RequestLog
from logbus.handlers.request_router import Handler, RequestRouter, ServedApi, marks
from logbus.late_imports import import_late, keep_descriptor
from logbus.net.connection_limits import WarningLimiter
from logbus.wire.kafka_releases import DEFAULT_RELEASE, release_table
from logbus.wire.messages import api_keys
from logbus.wire.version_range import VersionRange

_DECLARATION = re.compile(r"serves\((\d+), (\d+), (\d+)(?:, (forwarded|waits_for_metadata)=True)?\)")
"""A declaration that can be read from the source: with numbers, and at most one of these flags."""


class ApiHandlers(Protocol):
    """A class of handlers."""

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        """Make the handlers of a broker."""


def handler_modules() -> Iterator[tuple[str, str | None]]:
    """
    The names of the modules in this package, and their sources, each None where there is none.
    """
    for finder, name, is_package in iter_modules(logbus.handlers.__path__, "logbus.handlers."):
        if not is_package:
            spec = finder.find_spec(name, None)
            loader = None if spec is None else spec.loader
            yield name, Path(loader.path).read_text("utf-8") if isinstance(loader, SourceFileLoader) else None


def declared_apis(source: str) -> list[ServedApi] | None:
    """
    The APIs that a module serves, by its source.

    :returns: None if the module must be imported to know what it serves: a declaration has more than plain numbers and
        a flag, there are fast paths, or metrics.
    """
    apis: list[ServedApi] = []
    if "def register_metrics(" in source:
        return None
    for text in source.split("\n    @")[1:]:
        line = text.partition("\n")[0]
        if not line.startswith(("serves", "prepares")):
            continue
        found = _DECLARATION.fullmatch(line)
        if found is None:
            return None
        key, first, last = map(int, found.groups()[:3])
        flag = found[4]
        apis.append(
            ServedApi(
                key,
                VersionRange(first, last),
                forwarded=flag == "forwarded",
                waits_for_metadata=flag == "waits_for_metadata",
            )
        )
    return apis


def handler_classes() -> Iterator[type[ApiHandlers]]:
    """The classes of handlers, each from the module that defines it; imports all modules."""
    for name, _ in handler_modules():
        yield from defined_in(import_module(name))


@cache
def defined_in(module: ModuleType) -> tuple[type[ApiHandlers], ...]:
    """Those of one module.  A process of tests starts many brokers, and the search takes a tenth of a start."""
    return tuple(
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__ and any(marks(value))
    )


def _build(name: str, broker: BrokerParts) -> Sequence[ApiHandlers]:
    """Build the handlers of a module, which is imported."""
    with kept_attrs_code():
        module = import_late(name)
    return [cls.build(broker) for cls in defined_in(module)]


def build_router(broker: BrokerParts) -> RequestRouter:
    """
    Build all handlers, and fill the broker's router.

    :raises ValueError: two handlers serve the same API, an API has no messages, or the release is not known.
    """
    router = broker.router
    keep_descriptor()
    release_table(broker.release or DEFAULT_RELEASE)
    # All are read before any is imported: what is imported stays, and memory between texts would be left over.
    declared = [(name, None if source is None else declared_apis(source)) for name, source in handler_modules()]
    for name, apis in declared:
        if apis is None:
            for handlers in _build(name, broker):
                router.add(handlers)
        else:
            router.add_later(apis, name, partial(_build, name, broker))
    if unknown := router.apis.keys() - api_keys():
        raise ValueError(f"no module of logbus.wire.messages has the messages of the APIs {sorted(unknown)}")
    loggers: Handler = LoggerChanges(broker.log_levels, broker.config)
    if broker.authorization is not None:
        # Before the others: a forwarded request is authorized where it is served, by the controller.
        guarded = GuardedHandlers(broker.authorization, all_guards())
        router.wrap_each(guarded.wrap)
        loggers = guarded.wrap(INCREMENTAL_ALTER_CONFIGS, loggers)
    router.wrap(lambda api: api.forwarded, ForwardToController(broker.forwarder).wrap)
    # Loggers belong to the process, so that their changes are not forwarded.
    router.wrap(lambda api: api.api_key == INCREMENTAL_ALTER_CONFIGS, lambda others: divided_changes(loggers, others))
    router.wrap(lambda api: api.waits_for_metadata, broker.startup_gate.wrap)
    threshold = broker.config.get(keys.LOGGER_REQUEST_MS)
    if threshold >= 0:
        log = RequestLog(threshold / 1000, broker.reactor.seconds, WarningLimiter(broker.reactor.seconds))
        router.wrap_each(log.wrap)
        router.wrap_fast(log.wrap_fast)
    return router
