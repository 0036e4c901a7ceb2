"""
The program of a broker in a process of its own: ``twistd``, with a broker that follows its test.

It connects before it serves, so that faults hold from the first request on; without its test it goes on as it is.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory
from twisted.protocols.basic import LineOnlyReceiver

from logbus.testing.control.broker_controls import BrokerControls
from logbus.testing.control.channel_lines import (
    ADVANCE,
    DONE,
    ENVIRONMENT,
    HELLO,
    LONGEST,
    REBALANCE,
    SETTLE,
    STATE,
    ControlAddress,
    line_of,
    said_in,
)
from logbus.testing.control.told_history import ToldHistory, count_line
from logbus.testing.disk_filling import DiskFilling, FullDisk
from logbus.testing.faults.rule_book import ActiveRule, RuleBook
from logbus.testing.faults.rules import rule_from_json
from logbus.testing.offset_clock import OffsetClock
from logbus.workers import fork_client

if TYPE_CHECKING:
    from logbus.broker import Broker

CONNECT_SECONDS = 60.0


class ControlLink(LineOnlyReceiver):
    """The broker's end of the connection to its test."""

    delimiter = b"\n"
    MAX_LENGTH = LONGEST

    def __init__(self, reactor: Any) -> None:
        clock = OffsetClock()
        # Before the broker has timers.
        reactor.seconds = clock.seconds
        self._full: FullDisk | None = None
        book = RuleBook(self._count)
        self.controls = BrokerControls(reactor, clock, book, ToldHistory(self.tell, clock.wall), DiskFilling())

    def open(self, address: ControlAddress, broker_id: int, reactor: Any) -> None:
        """Connect, and take the test's settings over, before anything is served."""
        with socket.create_connection(("127.0.0.1", address.port), CONNECT_SECONDS) as connection:
            connection.sendall(line_of(HELLO, token=address.token, broker=broker_id))
            # Byte by byte: what follows is the reactor's.
            line = b""
            while not line.endswith(b"\n"):
                more = connection.recv(1)
                if not more:
                    raise ConnectionError("the test has ended")
                line += more
            self._follow(said_in(line))
            connection.setblocking(False)
            reactor.adoptStreamConnection(connection.fileno(), socket.AF_INET, Factory.forProtocol(lambda: self))

    def connectionMade(self) -> None:
        transport: Any = self.transport
        transport.setTcpNoDelay(True)

    def tell(self, line: bytes) -> None:
        """Send a line to the test, if it is there."""
        if self.transport is not None and self.connected:
            transport: Any = self.transport
            transport.write(line)
            # Not in the reactor's next turn: a client may have its answer in this one, and its test kill the broker.
            transport.doWrite()

    def lineReceived(self, line: bytes) -> None:
        said = said_in(line)
        if said["op"] == STATE:
            self._follow(said)
        elif said["op"] == SETTLE:
            self._done(said, None)
        elif said["op"] == REBALANCE:
            self._done(said, self.controls.force_rebalance(said["group"]))
        elif said["op"] == ADVANCE:
            passing = Deferred.fromCoroutine(self.controls.advance(said["seconds"]))
            passing.addBoth(lambda _: self._done(said, None))

    def _done(self, said: Mapping[str, Any], result: object) -> None:
        self.tell(line_of(DONE, id=said["id"], result=result))

    def _follow(self, said: Mapping[str, Any]) -> None:
        self.controls.book.replace(
            [(number, rule_from_json(rule), seen, hits) for number, rule, seen, hits in said["rules"]]
        )
        if said["full"] and self._full is None:
            self._full = self.controls.filling.fill()
        elif not said["full"] and self._full is not None:
            full, self._full = self._full, None
            full.free()

    def _count(self, active: ActiveRule) -> None:
        self.tell(count_line(active))


def controlled_broker(reactor: Any, config: Any, listeners: Any, **options: Any) -> Broker:
    """A broker that follows the test whose address is in the environment."""
    from logbus.broker import Broker
    from logbus.config.keys import BROKER_ID

    class ControlledBroker(Broker):
        """Tells its controls when it starts and stops."""

        def startService(self) -> Any:
            return super().startService().addCallback(self._has_started)

        def _has_started(self, result: Any) -> Any:
            link.controls.started()
            return result

        def stopService(self) -> Any:
            link.controls.stopping()
            return super().stopService()

    link = ControlLink(reactor)
    link.open(ControlAddress.parse(os.environ[ENVIRONMENT]), config.get(BROKER_ID), reactor)
    broker = ControlledBroker(reactor, config, listeners, **options, **link.controls.options(config))
    link.controls.service = broker
    return broker


def run(tap: Any) -> None:
    """
    Be ``twistd`` with such a broker, or with workers that are such.

    :param tap: the module :mod:`logbus.tap`, which the test kit does not know.
    """
    from twisted.scripts.twistd import run as run_twistd

    class ControlledRunner(tap.BrokerRunner):  # type: ignore[misc]
        """Runs such a broker in this process."""

        def _broker(self, reactor: Any) -> Broker:
            return controlled_broker(reactor, self.config, self.listeners, release=self._release)

    tap.BrokerRunner = ControlledRunner
    fork_client.FORK_SERVER = "logbus.testing.control.controlled_fork_server"
    run_twistd()
