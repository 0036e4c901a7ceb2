"""
A process that has imported everything, and becomes workers by forking: they start in a fraction of the time, and share
the memory of all modules.

It has no reactor and no threads. On its control socket it gets plans, each with the descriptor of the worker's link,
and says which processes it has started and which have ended, a JSON object a line. It ends with the supervisor.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
from importlib import import_module

from attrs import define, field

from logbus.attrs_code import kept_attrs_code
from logbus.net.reactor_choice import process_reactor
from logbus.net.without_tls import import_without_tls
from logbus.workers.worker import Worker
from logbus.workers.worker_plan import WorkerPlan

CONTROL = 3
"""The descriptor of the control socket."""

HEADER = struct.Struct(">I")
"""Comes before a plan: its length."""

PING = 0
"""In place of a length: a request for an answer only; no plan follows."""

PRELOADED = (
    "logbus.broker.broker",
    "logbus.admin.site",
    "logbus.metastore.local_store",
    "logbus.net.reactor",
    "twisted.plugins",
    "twisted.web.server",
)
"""Modules that a worker needs; none of them may start a thread or import the reactor."""

WITHOUT_TLS = "without-tls"
"""The argument of a fork server whose workers cannot need TLS."""

WORKER: type[Worker] = Worker
"""The class of a worker's process; the test kit has another."""

IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that a terminal or a service manager sends to all processes: the supervisor stops the workers in order."""


@define(eq=False)
class ForkServer:
    """
    Forks workers.

    :param control: the supervisor's socket.
    """

    _control: socket.socket
    _wake: tuple[socket.socket, socket.socket] = field(factory=socket.socketpair, init=False)

    def run(self) -> None:
        """Serve until the supervisor is gone."""
        for end in self._wake:
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake[1].fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        gc.collect()
        gc.freeze()
        with contextlib.suppress(ConnectionError):
            while self._serve():
                pass

    def _serve(self) -> bool:
        # Not select(), which knows no descriptors above 1,023.
        looking = select.poll()
        control, wake = self._control.fileno(), self._wake[0].fileno()
        for descriptor in (control, wake):
            looking.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in looking.poll()}
        if wake in ready:
            with contextlib.suppress(BlockingIOError):
                self._wake[0].recv(4096)
            self._reap()
        return control not in ready or self._take()

    def _take(self) -> bool:
        """Fork for the next plan; False: there are no more."""
        header, descriptors, _, _ = socket.recv_fds(self._control, HEADER.size, 1)
        if len(header) < HEADER.size:
            return False
        (size,) = HEADER.unpack(header)
        if size == PING:
            self._say(pong=size)
            return True
        if len(descriptors) != 1:
            return False
        data = b""
        while len(data) < size:
            more = self._control.recv(size - len(data))
            if not more:
                return False
            data += more
        plan, (descriptor,) = WorkerPlan.decode(data), descriptors
        pid = os.fork()
        if pid == 0:
            self._become(plan, descriptor)
        os.close(descriptor)
        self._say(started=pid, index=plan.index)
        return True

    def _become(self, plan: WorkerPlan, descriptor: int) -> None:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            self._control.close()
            for end in self._wake:
                end.close()
            status = _run(plan, descriptor)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            # The fork server's exit handlers are not the worker's.
            os._exit(status)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._say(ended=ended[0], status=os.waitstatus_to_exitcode(ended[1]))

    def _say(self, **message: int) -> None:
        self._control.sendall(json.dumps(message).encode() + b"\n")


def _run(plan: WorkerPlan, descriptor: int) -> int:
    """Run a worker to its end; returns the exit status."""
    reactor = process_reactor()
    worker = WORKER(reactor, plan, descriptor)
    reactor.callWhenRunning(worker.start)
    reactor.run(installSignalHandlers=False)
    return worker.status


def main() -> None:
    """Run as a process: ``python -m logbus.workers.fork_server``."""
    if WITHOUT_TLS in sys.argv[1:]:
        import_without_tls()
    with kept_attrs_code():
        for name in PRELOADED:
            import_module(name)
        # These find modules by looking for them. Not imported above, since the supervisor imports this module.
        from logbus.handlers.discovery import handler_classes
        from logbus.protocols import protocol_plugins

        for _ in handler_classes():
            pass
        protocol_plugins()
    ForkServer(socket.socket(fileno=CONTROL)).run()


if __name__ == "__main__":
    main()
