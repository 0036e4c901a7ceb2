"""Passes on what the client logs, by Twisted's logger, to :mod:`logging`, by the names of the client's modules."""

from __future__ import annotations

import logging
from typing import Any

from twisted.logger import ILogObserver, LogLevel, formatEvent, globalLogBeginner
from zope.interface import provider

from logbus.client.cluster.last_resort import has_begun_logging

_LEVELS = {
    LogLevel.debug: logging.DEBUG,
    LogLevel.info: logging.INFO,
    LogLevel.warn: logging.WARNING,
    LogLevel.error: logging.ERROR,
    LogLevel.critical: logging.CRITICAL,
}


def forward() -> None:
    """
    Pass on events to :mod:`logging`, unless the process has begun Twisted's logging: then they go where it says.

    Otherwise Twisted would keep the first thousands of events in memory until its logging begins.
    """
    if not has_begun_logging():
        globalLogBeginner.beginLoggingTo([_observe], discardBuffer=True, redirectStandardIO=False)


@provider(ILogObserver)
def _observe(event: dict[str, Any]) -> None:
    logger = logging.getLogger(event.get("log_namespace") or "twisted")
    level = _LEVELS.get(event.get("log_level"), logging.INFO)
    if not logger.isEnabledFor(level):
        return
    failure = event.get("log_failure")
    error = None if failure is None else failure.value
    logger.log(level, "%s", formatEvent(event), exc_info=error)
