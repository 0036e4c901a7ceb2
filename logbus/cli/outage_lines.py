"""Says on standard error that a broker cannot be reached any more, and that it can be again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import frozen
from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, globalLogPublisher
from zope.interface import implementer

from logbus.cli.app import print_error
from logbus.client.cluster.broker_connections import BrokerConnections

_NAMESPACE = f"{BrokerConnections.__module__}.{BrokerConnections.__qualname__}"


@implementer(ILogObserver)
@frozen
class _OutageObserver:
    """Prints the outages that connections log."""

    prepare: Callable[[], object]

    def __call__(self, event: LogEvent) -> None:
        if event.get("log_namespace") == _NAMESPACE:
            self.prepare()
            print_error(formatEvent(event) + ("; still trying" if event["log_level"] is LogLevel.warn else ""))


@contextmanager
def outage_lines(prepare: Callable[[], object]) -> Iterator[None]:
    """
    Print a line when an outage of a broker begins, and when it is over, for a command that goes on meanwhile.

    :param prepare: called before each line.
    """
    observer = _OutageObserver(prepare)
    globalLogPublisher.addObserver(observer)
    try:
        yield
    finally:
        globalLogPublisher.removeObserver(observer)
