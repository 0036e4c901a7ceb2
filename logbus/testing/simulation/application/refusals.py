"""Refuses what an application does outside the simulation: real time, threads, sockets, processes."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from attrs import define, field

from logbus.errors import LogbusError

_OURS = str(Path(__file__).parent.parent.parent.parent)
_LIBRARIES = tuple(
    {_OURS, *(os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))}
)


class NotSimulated(LogbusError):
    """The application did something that has no place on virtual time, such as to start a thread."""


@define(eq=False)
class Refusals:
    """
    What a run refused. Applications often catch errors and go on, so the run looks here.

    :ivar first: the first refusal, with the place in the application; None: none yet.
    """

    first: str | None = field(default=None, init=False)

    def refuse(self, what: str, instead: str) -> NotSimulated:
        """
        The error to raise.

        :param what: the thing called; ``instead``: what to use.
        """
        text = f"{_place()}{what} is not simulated: {instead}"
        if self.first is None:
            self.first = text
        return NotSimulated(text)

    def refusing(self, what: str, instead: str) -> Callable[..., object]:
        """A function that refuses all calls."""

        def refused(*args: object, **kwargs: object) -> object:
            raise self.refuse(what, instead)

        return refused


def _place() -> str:
    """``FILE:LINE: `` of the innermost frame that is in no library; empty if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith("<") and not os.path.realpath(name).startswith(_LIBRARIES):
            return f"{os.path.relpath(name)}:{frame.f_lineno}: "
        frame = frame.f_back
    return ""
