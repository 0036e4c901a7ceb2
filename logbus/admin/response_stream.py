"""
Answers that are made while they are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime
from twisted.internet.task import CooperativeTask, Cooperator, TaskFinished, TaskStopped
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import Request
from zope.interface import implementer


@implementer(IPushProducer)
@define(eq=False)
class ResponseStream:
    """
    Sends an answer piece by piece, none while the client does not take them.

    :ivar pieces: the answer; each piece is made in a reactor turn of its own.
    :ivar cooperator: gives the turns, to one stream at a time.
    :ivar stall_seconds: how long a client may take nothing.
    :ivar abort: closes the connection at once: an answer that broke off must not look whole.
    """

    request: Request
    pieces: Iterator[bytes]
    cooperator: Cooperator
    clock: IReactorTime
    stall_seconds: float
    abort: Callable[[], None]
    _task: CooperativeTask[Iterator[None]] | None = field(default=None, init=False)
    _stalled: IDelayedCall | None = field(default=None, init=False)
    _log = Logger()

    def start(self) -> None:
        """Begin; the request is finished at the end."""
        self.request.registerProducer(self, True)
        self.request.notifyFinish().addErrback(lambda _: self.stopProducing())
        self._task = self.cooperator.cooperate(self._send())
        self._task.whenDone().addCallback(lambda _: self._finish()).addErrback(self._failed)

    def _send(self) -> Iterator[None]:
        for piece in self.pieces:
            self.request.write(piece)
            yield

    def _finish(self) -> None:
        self._forget_stall()
        self.request.unregisterProducer()
        self.request.finish()

    def _failed(self, failure: Failure) -> None:
        self._forget_stall()
        if failure.check(TaskStopped) is None:
            self._log.failure("the answer to {path} broke off", failure, path=self.request.path)
            self.request.unregisterProducer()
            self.abort()

    def pauseProducing(self) -> None:
        if self._task is not None and self._stalled is None:
            self._task.pause()
            self._stalled = self.clock.callLater(self.stall_seconds, self._give_up)

    def resumeProducing(self) -> None:
        if self._task is not None and self._stalled is not None:
            self._forget_stall()
            self._task.resume()

    def stopProducing(self) -> None:
        self._forget_stall()
        if self._task is not None:
            task, self._task = self._task, None
            try:
                task.stop()
            except TaskFinished:
                pass  # by itself

    def _give_up(self) -> None:
        self._stalled = None
        self.abort()

    def _forget_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
