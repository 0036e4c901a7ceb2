"""Watches the log for errors that no injected fault explains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define
from twisted.internet.defer import FirstError
from twisted.logger import ILogObserver, LogLevel
from zope.interface import implementer

from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.metastore.operations import DatabaseFull, StoreUnusable
from logbus.testing.simulation.environment.garbage_collector_watch import GarbageCollectorWatch
from logbus.testing.simulation.environment.inodes import Crashed

_DISK_ERRORS = frozenset({ErrorCode.KAFKA_STORAGE_ERROR})


@implementer(ILogObserver)
@define(eq=False)
class ErrorLog:
    """
    An observer of the log.

    :ivar found: called with the traceback of each error that it finds.
    """

    collector: GarbageCollectorWatch
    found: Callable[[str], object]

    def __call__(self, event: Any) -> None:
        """Observe a log event."""
        failure = event.get("log_failure")
        if self.collector.is_running or failure is None or event["log_level"] < LogLevel.critical:
            return
        if failure.check(FirstError):
            failure = failure.value.subFailure
        if failure.check(Crashed):
            return
        error = failure.value
        if (isinstance(error, StorageError | StoreUnusable) and not isinstance(error, DatabaseFull)) or (
            isinstance(error, ApiError) and error.code in _DISK_ERRORS
        ):
            # The messages of injected errors. No work may fail for want of room in the metadata store: it is tried
            # again, or refused.
            return
        self.found(failure.getTraceback())
