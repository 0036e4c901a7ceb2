"""The test's end of the connections to a broker in a process of its own, or to each of its workers."""

from __future__ import annotations

import hmac
import itertools
import socket
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from logbus.testing.control.channel_lines import (
    ADVANCE,
    ANSWER,
    COUNT,
    HELLO,
    LONGEST,
    REBALANCE,
    REQUEST,
    SETTLE,
    STATE,
    ControlAddress,
    line_of,
    said_in,
)
from logbus.testing.disk_filling import DiskFilling
from logbus.testing.errors import BrokerFailed
from logbus.testing.faults.rule_book import RuleBook
from logbus.testing.requests.history import RequestHistory
from logbus.testing.requests.recorded import RecordedRequest

SETTLE_SECONDS = 60.0
"""A broker on a busy machine answers in this time."""
HELLO_SECONDS = 60.0
OF_ONE_WORKER = 1_000_000_000
"""Connections of the next worker have numbers higher by this."""


class ControlChannel:
    """
    Keeps the brokers of a test at what the test wants, and writes down what they tell.

    :param book: what happens to requests; each process has a copy.
    :param history: where they are recorded.
    :param filling: whether the disk is full.

    :ivar address: where brokers connect.
    :ivar is_frozen: no answer is waited for: the broker stands still.
    """

    def __init__(self, book: RuleBook, history: RequestHistory, filling: DiskFilling) -> None:
        self.is_frozen = False
        self._book = book
        self._history = history
        self._filling = filling
        self._lock = threading.Lock()
        self._links: list[_Link] = []
        # Also those that have not said hello, or have ended but for the last of their thread.
        self._all: list[_Link] = []
        # By broker id and rule: what it has seen, and how often it has happened.
        self._counts: dict[tuple[int, int], tuple[int, int]] = {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = ControlAddress(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name="logbus-test-control", daemon=True)
        self._thread.start()
        book.changed = filling.changed = self._tell_state
        book.settle = history.settle = self.settle

    def close(self) -> None:
        """Close all connections, and wait for their threads."""
        self._book.changed = self._filling.changed = self._book.settle = self._history.settle = _nothing
        # Wakes up accept(), which close() alone does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for link in list(self._all):
            link.close()
            link.thread.join()

    def settle(self) -> None:
        """
        Wait until everything is here that the broker has told so far.

        :raise BrokerFailed: it does not answer.
        """
        if not self.is_frozen:
            self._ask(SETTLE, SETTLE_SECONDS)

    def advance(self, seconds: float, timeout: float) -> None:
        """Let so many seconds pass in all processes."""
        self._ask(ADVANCE, timeout, seconds=seconds)

    def force_rebalance(self, group_id: str, timeout: float) -> bool:
        """Have the members of a group join again; False: no process has it."""
        return any(self._ask(REBALANCE, timeout, group=group_id))

    def _ask(self, op: str, timeout: float, **values: Any) -> list[Any]:
        """Tell all processes something; what they answer, those that end meanwhile not."""
        until = time.monotonic() + timeout
        asked = [link.ask(op, **values) for link in self._live()]
        answers = []
        for future in asked:
            try:
                answers.append(future.result(max(0.0, until - time.monotonic())))
            except ConnectionError:
                pass  # it has ended, and everything that it had told is here
            except FutureTimeout:
                raise BrokerFailed(f"the broker did not answer its test within {timeout:g} s") from None
        return answers

    def _tell_state(self) -> None:
        for link in self._live():
            link.send(self._state(link.broker_id))
        self.settle()

    def _state(self, broker_id: int) -> bytes:
        rules = [
            (each.number, each.rule.as_json(), *self._counts.get((broker_id, each.number), (0, 0)))
            for each in self._book.active
        ]
        return line_of(STATE, rules=rules, full=self._filling.is_full)

    def _live(self) -> list[_Link]:
        with self._lock:
            return list(self._links)

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            self._all = [each for each in self._all if each.thread.is_alive()]
            self._all.append(_Link(self, accepted))

    # For the links, each in its own thread.

    def joined(self, link: _Link, said: Mapping[str, Any]) -> bool:
        """A process has connected; whether it may."""
        if said["op"] != HELLO or not hmac.compare_digest(str(said["token"]), self.address.token):
            return False
        link.broker_id = said["broker"]
        with self._lock:
            link.send(self._state(link.broker_id))
            self._links.append(link)
        return True

    def left(self, link: _Link) -> None:
        """A process has ended."""
        with self._lock:
            if link in self._links:
                self._links.remove(link)

    def told(self, link: _Link, said: Mapping[str, Any]) -> None:
        """A process has told something."""
        if said["op"] == REQUEST:
            connection = said["connection"] + link.broker_id * OF_ONE_WORKER
            subjects = tuple((topic, partition) for topic, partition in said["subjects"])
            link.open[said["number"]] = self._history.add(
                said["api"], said["version"], said["client"], connection, subjects, received=said["at"]
            )
        elif said["op"] == ANSWER:
            request = link.open.pop(said["number"], None)
            if request is not None:
                self._history.answered(request, tuple(said["codes"]), at=said["at"])
        elif said["op"] == COUNT:
            self._counted(link.broker_id, said["number"], said["seen"], said["hits"])

    def _counted(self, broker_id: int, number: int, seen: int, hits: int) -> None:
        self._counts[broker_id, number] = seen, hits
        per_process = [count for (_, each), (_, count) in self._counts.items() if each == number]
        times = next((each.rule.times for each in self._book.active if each.number == number), None)
        processes = {link.broker_id for link in self._live()}
        spent = times is not None and all(
            self._counts.get((each, number), (0, 0))[1] >= times for each in processes | {broker_id}
        )
        self._book.count(number, sum(per_process), spent)


class _Link:
    """
    A connection, read in a thread of its own.

    :ivar open: requests without an answer so far, by the process's numbers.
    """

    def __init__(self, channel: ControlChannel, connection: socket.socket) -> None:
        self.broker_id = -1
        self.open: dict[int, RecordedRequest] = {}
        self._channel = channel
        self._connection = connection
        self._sending = threading.Lock()
        self._waiting: dict[int, Future[Any]] = {}
        self._numbers = itertools.count()
        self._has_ended = False
        self.thread = threading.Thread(target=self._run, name="logbus-test-control-link", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        """Read until the process ends."""
        self._connection.settimeout(HELLO_SECONDS)
        with self._connection, self._connection.makefile("rb") as lines:
            try:
                if self._channel.joined(self, said_in(lines.readline(LONGEST))):
                    self._connection.settimeout(None)
                    for line in lines:
                        self._take(said_in(line))
            except (OSError, ValueError, KeyError):
                pass  # it was killed in the middle of a line, or is no broker
        self._channel.left(self)
        with self._sending:
            self._has_ended = True
            waiting = list(self._waiting.values())
        for future in waiting:
            future.set_exception(ConnectionError())

    def ask(self, op: str, **values: Any) -> Future[Any]:
        """Say something that is answered; the answer, or ConnectionError: it ended before."""
        future: Future[Any] = Future()
        with self._sending:
            if self._has_ended:
                future.set_exception(ConnectionError())
                return future
            number = next(self._numbers)
            self._waiting[number] = future
        self.send(line_of(op, id=number, **values))
        return future

    def send(self, line: bytes) -> None:
        """Say something, if the process has not ended."""
        try:
            with self._sending:
                self._connection.sendall(line)
        except OSError:
            pass  # its thread notices

    def close(self) -> None:
        """End the connection; its thread ends then."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended by itself

    def _take(self, said: Mapping[str, Any]) -> None:
        if "id" not in said:
            self._channel.told(self, said)
            return
        with self._sending:
            future = self._waiting.pop(said["id"])
        future.set_result(said["result"])


def _nothing() -> None:
    """There is no broker any more."""
