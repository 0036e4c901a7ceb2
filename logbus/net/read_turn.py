"""Work that the connections found readable by one poll leave to be done together, after the last was read."""

from __future__ import annotations

from collections.abc import Callable

from logbus.net.response_batch import ResponseBatch


class ReadTurn:
    """
    One pass of the reactor over the connections that are ready.

    :ivar begun: when they were found ready, by the monotonic clock, if there are several; else 0.
    :ivar reading: the transport whose connection may leave work; None: all work must be done at once.
    :ivar finish: does the work that was left; None: there is none.
    :ivar responses: what small responses to that work are sent by.
    """

    __slots__ = ("begun", "finish", "reading", "responses")

    def __init__(self) -> None:
        self.begun = 0.0
        self.reading: object = None
        self.finish: Callable[[], None] | None = None
        self.responses = ResponseBatch()

    def end(self) -> None:
        """Do what was left until now."""
        finish, self.finish = self.finish, None
        if finish is not None:
            finish()
