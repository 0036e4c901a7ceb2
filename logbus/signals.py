"""
Signal handling of a broker's process.

Twisted stops its reactor at SIGTERM and SIGINT, and fails at a second one; it does not handle SIGHUP, which would kill
the process. Here the first signal stops the broker in order, further ones are logged, SIGHUP has certificates and
levels of loggers read again and the log file reopened, and SIGUSR1 has a new log file begun.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

from attrs import define, field
from twisted.logger import Logger

Handler = Callable[[int, FrameType | None], Any] | int | None


@define(eq=False)
class ProcessSignals:
    """
    Handles the signals of the process, and stops its reactor.

    :param reactor: stopped once.
    :param handler_of: ``signal.getsignal``.
    :param handle: ``signal.signal``; only a process's main thread may call it.
    :ivar hung_up: called in the reactor after a SIGHUP.
    :ivar rotate: called in the reactor after a SIGUSR1.
    """

    _reactor: Any
    _handler_of: Callable[[int], Handler] = signal.getsignal
    _handle: Callable[[int, Handler], Any] = signal.signal
    hung_up: Callable[[], object] = field(default=lambda: None, init=False)
    rotate: Callable[[], object] = field(default=lambda: None, init=False)
    _is_stopping: bool = field(default=False, init=False)
    _log = Logger(namespace="logbus")

    def install(self) -> None:
        """Install the handlers: SIGHUP at once, the others after the reactor, which installs its own, has started."""
        # Also under nohup, which has it ignored: it does no harm here, and certificates must be read again somehow.
        self._handle(signal.SIGHUP, self._hangup)
        self._handle(signal.SIGUSR1, lambda *_: self._reactor.callFromThread(self.rotate))
        self._reactor.callWhenRunning(self._reactor.callLater, 0, self._wrap)

    def stop(self) -> None:
        """Stop the reactor, unless it is stopping."""
        if not self._is_stopping:
            self._is_stopping = True
            self._reactor.stop()

    def stopping(self) -> None:
        """Note that the process is about to end for another reason; later signals do not stop it again."""
        self._is_stopping = True

    def _wrap(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            before = self._handler_of(number)
            if callable(before):
                self._handle(number, self._once(before))

    def _once(self, before: Callable[[int, FrameType | None], Any]) -> Handler:
        def handler(number: int, frame: FrameType | None) -> None:
            if self._is_stopping:
                self._log_signal("{signal}: the broker is stopping already", number)
            else:
                self._is_stopping = True
                before(number, frame)

        return handler

    def _hangup(self, number: int, frame: FrameType | None) -> None:
        self._log_signal(
            "{signal}: certificates are read again, and logger.levels, and the log file is opened again; `logbus "
            "configs` changes the configuration of a running broker",
            number,
        )
        self._reactor.callFromThread(self.hung_up)

    def _log_signal(self, message: str, number: int) -> None:
        # A signal may interrupt anything, even a write to the log.
        self._reactor.callFromThread(self._log.info, message, signal=signal.Signals(number).name)
