"""Says on standard error that a broker cannot be reached any more, and that it can be again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import frozen
from twisted.internet.task import LoopingCall
from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, globalLogPublisher
from zope.interface import implementer

from logbus.cli.app import print_error
from logbus.client.cluster.broker_connections import BrokerConnections
from logbus.client.cluster.cluster import Cluster

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


PATIENCE = 5.0
"""Seconds without a response after which that is told, as jobs on Spark do."""


@contextmanager
def outage_lines(cluster: Cluster, prepare: Callable[[], object]) -> Iterator[None]:
    """
    Print a line when a broker is silent, when an outage of it begins, and when it is over, for a command that goes on
    meanwhile.

    :param prepare: called before each line.
    """
    silent: set[str] = set()

    def look() -> None:
        late = {where for where, seconds in cluster.silences.items() if seconds >= PATIENCE}
        for where in late - silent:
            prepare()
            print_error(f"{where} has not answered for {PATIENCE:g} s; still waiting")
        silent.clear()
        silent.update(late)

    looking = LoopingCall(look)
    looking.clock = cluster.reactor
    looking.start(1.0, now=False)
    observer = _OutageObserver(prepare)
    globalLogPublisher.addObserver(observer)
    try:
        yield
    finally:
        globalLogPublisher.removeObserver(observer)
        looking.stop()
