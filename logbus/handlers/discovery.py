"""
Finds the classes of handlers in this package, and builds them.

A class belongs to them if one of its methods is marked by :func:`.serves`. So a new API is a new module, and no table.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Protocol, Self

import logbus.handlers
from logbus.config import keys
from logbus.handlers.authorization.guard import GuardedHandlers, all_guards
from logbus.handlers.broker_loggers import INCREMENTAL_ALTER_CONFIGS, LoggerChanges, divided_changes
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.forward_to_controller import ForwardToController
from logbus.handlers.request_log import RequestLog
from logbus.handlers.request_router import Handler, RequestRouter, marks
from logbus.net.connection_limits import WarningLimiter
from logbus.wire.messages import api_keys


class ApiHandlers(Protocol):
    """A class of handlers."""

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        """Make the handlers of a broker."""


def handler_classes() -> Iterator[type[ApiHandlers]]:
    """The classes of handlers, each from the module that defines it."""
    for found in iter_modules(logbus.handlers.__path__, "logbus.handlers."):
        yield from _defined_in(import_module(found.name))


@cache
def _defined_in(module: ModuleType) -> tuple[type[ApiHandlers], ...]:
    """Those of one module.  A process of tests starts many brokers, and the search takes a tenth of a start."""
    return tuple(
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__ and any(marks(value))
    )


def build_router(broker: BrokerParts) -> RequestRouter:
    """
    Build all handlers, and fill the broker's router.

    :raises ValueError: two handlers serve the same API, or an API has no messages.
    """
    router = broker.router
    for cls in handler_classes():
        router.add(cls.build(broker))
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
