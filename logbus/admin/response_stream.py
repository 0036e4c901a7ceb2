"""
Sends an answer while it is being made (a Twisted push producer).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from attrs import define, field
from twisted.internet.defer import Deferred
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
    Sends an answer in chunks, and pauses while the client does not read.

    :ivar pieces: the answer; each chunk is made in its own reactor turn; a Deferred is waited for.
    :ivar cooperator: schedules the turns.
    :ivar stall_seconds: how long a client may read nothing.
    :ivar abort: closes the connection at once: a truncated answer must not look complete.
    """

    request: Request
    pieces: Iterator[bytes | Deferred[None]]
    cooperator: Cooperator
    clock: IReactorTime
    stall_seconds: float
    abort: Callable[[], None]
    _task: CooperativeTask[Iterator[Deferred[None] | None]] | None = field(default=None, init=False)
    _stalled: IDelayedCall | None = field(default=None, init=False)
    _log = Logger()

    def start(self) -> None:
        """Start sending; finishes the request at the end."""
        self.request.registerProducer(self, True)
        self.request.notifyFinish().addErrback(lambda _: self.stopProducing())
        self._task = self.cooperator.cooperate(self._send())
        self._task.whenDone().addCallback(lambda _: self._finish()).addErrback(self._failed)

    def _send(self) -> Iterator[Deferred[None] | None]:
        for piece in self.pieces:
            if isinstance(piece, Deferred):
                yield piece
            else:
                self.request.write(piece)
                yield None

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
            if isinstance(self.pieces, Generator):
                self.pieces.close()

    def _give_up(self) -> None:
        self._stalled = None
        self.abort()

    def _forget_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
