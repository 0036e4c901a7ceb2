"""
The client of the fork server: starts it, has it fork workers, and is told which of them have ended.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from attrs import define, field
from twisted.internet.error import ProcessExitedAlready, ProcessTerminated
from twisted.internet.protocol import Factory, ProcessProtocol
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure

from logbus.workers.fork_server import CONTROL, HEADER, PING, WITHOUT_TLS
from logbus.workers.worker_plan import WorkerPlan

FORK_SERVER = "logbus.workers.fork_server"
"""The module that is run as it."""


class _Answers(LineOnlyReceiver):
    delimiter = b"\n"

    def __init__(self, client: ForkClient) -> None:
        self._client = client

    def lineReceived(self, line: bytes) -> None:
        message: dict[str, int] = json.loads(line)
        self._client.heard()
        if "pong" in message:
            return
        if "started" in message:
            self._client.has_started(message["index"], message["started"])
        else:
            self._client.ended(message["ended"], message["status"])


class _Process(ProcessProtocol):
    def __init__(self, client: ForkClient) -> None:
        self._client = client

    def processEnded(self, reason: Failure) -> None:
        self._client.process_ended(reason)


@define(eq=False)
class ForkClient:
    """
    Starts workers.

    :param started: called with the index and the process of a worker that was started.
    :param ended: called with the process of a worker that has ended, and its exit status, or −N for signal N.
    :param lost: called when the fork server has ended, which it should not; its workers go on.
    :param tls: whether workers may need TLS.
    """

    _reactor: Any
    started: Callable[[int, int], object]
    ended: Callable[[int, int], object]
    _lost: Callable[[], object]
    _tls: bool = True
    _control: socket.socket | None = field(default=None, init=False)
    _process: Any = field(default=None, init=False)
    # Plans that were not sent to it yet, and whether it is still starting the worker of the one sent last.
    _plans: deque[tuple[WorkerPlan, socket.socket]] = field(factory=deque, init=False)
    _has_plan: bool = field(default=False, init=False)
    # Seconds since a ping that it has not answered; None: there is no such ping.
    _silent: float | None = field(default=None, init=False)
    _log = Logger(namespace="logbus.workers")

    @property
    def running(self) -> bool:
        """Whether it was started, and has not ended."""
        return self._control is not None

    def start(self) -> None:
        """
        Start the fork server; plans that are given meanwhile wait for it.

        :raise OSError: there cannot be another process.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = self._reactor.spawnProcess(
                _Process(self),
                sys.executable,
                [sys.executable, "-m", FORK_SERVER, *([] if self._tls else [WITHOUT_TLS])],
                env=os.environ,
                childFDs={0: 0, 1: 1, 2: 2, CONTROL: theirs.fileno()},
            )
        self._reactor.adoptStreamConnection(ours.fileno(), ours.family, Factory.forProtocol(lambda: _Answers(self)))
        self._control, self._silent, self._has_plan = ours, None, False

    def ping(self, passed: float, patience: float) -> None:
        """
        See that the fork server answers; one that does not, stopped for example, is killed, and so started again.

        :param passed: seconds since the last call; ``patience``: seconds without an answer.
        """
        if self._control is None:
            return
        if self._silent is None:
            self._silent = 0.0
            # If it has ended, process_ended() is called soon; if it takes no more bytes, it counts as silent.
            with suppress(OSError):
                self._control.sendall(HEADER.pack(PING))
            return
        self._silent += passed
        if self._silent >= patience:
            self._log.error(
                "the process that starts workers ({pid}) has not answered for {seconds:g} s: it is killed",
                pid=self._process.pid,
                seconds=patience,
            )
            self._silent = 0.0
            with suppress(ProcessExitedAlready):
                self._process.signalProcess("KILL")

    def heard(self) -> None:
        """The fork server has answered."""
        self._silent = None

    def fork(self, plan: WorkerPlan, link: socket.socket) -> None:
        """Have a worker started with its end of the link, which is closed here; without a fork server, at once."""
        if self._control is None:
            link.close()
            return
        self._plans.append((plan, link))
        self._give_plan()

    def _give_plan(self) -> None:
        # One at a time. The socket, which does not block, has room for those of some tens of workers, and while the
        # fork server imports it takes none.
        if self._control is None or self._has_plan or not self._plans:
            return
        self._has_plan = True
        plan, link = self._plans.popleft()
        data = plan.encode()
        with link:
            try:
                socket.send_fds(self._control, [HEADER.pack(len(data)) + data], [link.fileno()])
            except OSError:
                # If it has ended, process_ended() is called soon. The link closes: the worker is started later.
                self._has_plan = False

    def has_started(self, index: int, pid: int) -> None:
        """The fork server has started a worker."""
        self._has_plan = False
        self.started(index, pid)
        self._give_plan()

    def _drop_plans(self) -> None:
        while self._plans:
            self._plans.popleft()[1].close()

    def stop(self) -> None:
        """Let the fork server end."""
        self._drop_plans()
        if self._control is not None:
            control, self._control = self._control, None
            control.shutdown(socket.SHUT_WR)
            control.close()

    def process_ended(self, reason: Failure) -> None:
        if self._control is None:
            return
        how = reason.value if reason.check(ProcessTerminated) else "it ended"
        self._log.error("the process that starts workers has ended: {how}; it is started again", how=how)
        self._control.close()
        self._control = None
        self._drop_plans()
        self._lost()
