"""
Notices the end of the parent process, however it ended.

There are three signs, and the first one counts:

* the parent's process descriptor becomes readable (Linux, ``pidfd_open``). ``PR_SET_PDEATHSIG`` would be sent as well
  when only the parent's *thread* that started this process ends, as threads of Go and Java do.
* standard input, a pipe or a socket whose other end the parent has, comes to its end. It also shows the end of a
  program that has started this one through a shell.
* ``getppid`` changes; it is called twice a second, for systems without process descriptors.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IReadDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

INIT = 1
"""The process that children get whose parent has ended; a parent of this number is not watched."""
SECONDS = 0.5
"""Between two looks at the parent's number."""
CHUNK = 4096


@define(eq=False)
class ParentWatch:
    """
    :param reactor: watches descriptors, and has the timer.
    :param ended: called once, with what has shown that the parent has ended.
    :param parent: returns the number of the parent process.
    :param stdin: the descriptor of standard input.
    """

    _reactor: Any
    _ended: Callable[[str], object]
    _parent: Callable[[], int] = os.getppid
    _stdin: int = 0
    _descriptors: list[_Descriptor] = field(factory=list, init=False)
    _timer: Any = field(default=None, init=False)

    def start(self) -> None:
        """Begin to watch; a parent that has ended already is noticed at once."""
        if _is_pipe(self._stdin):
            self._watch(self._stdin, "standard input has ended", reads=True)
        parent = self._parent()
        if parent > INIT:
            descriptor = _process_descriptor(parent)
            if descriptor is not None:
                self._watch(descriptor, f"the parent process {parent} has ended")
            # Also if it ended before the descriptor was opened, and that was another process of its number.
            self._check_parent(parent)

    def stop(self) -> None:
        """Watch no longer."""
        for each in self._descriptors:
            self._reactor.removeReader(each)
            if not each.reads:
                os.close(each.descriptor)
        self._descriptors.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self, descriptor: int, sign: str, *, reads: bool = False) -> None:
        watched = _Descriptor(descriptor, reads, lambda: self._report_end(sign))
        try:
            self._reactor.addReader(watched)
        except OSError:  # it is of a kind that cannot be watched
            if not reads:
                os.close(descriptor)
        else:
            self._descriptors.append(watched)

    def _check_parent(self, parent: int) -> None:
        self._timer = None
        if self._parent() != parent:
            self._report_end(f"the parent process {parent} has ended")
        else:
            self._timer = self._reactor.callLater(SECONDS, self._check_parent, parent)

    def _report_end(self, sign: str) -> None:
        self.stop()
        self._ended(sign)


@implementer(IReadDescriptor)
@define(eq=False)
class _Descriptor:
    """
    A watched descriptor.

    :ivar reads: whether what comes is read until the end; otherwise that it is readable is the sign.
    """

    descriptor: int
    reads: bool
    sign: Callable[[], object]

    def fileno(self) -> int:
        return self.descriptor

    def logPrefix(self) -> str:
        return "ParentWatch"

    def doRead(self) -> None:
        if self.reads:
            try:
                if os.read(self.descriptor, CHUNK):
                    return
            except BlockingIOError:
                return
            except OSError:
                pass  # the other end was closed with something unread: it has ended as well
        self.sign()

    def connectionLost(self, reason: Failure) -> None:
        self.sign()


def _is_pipe(descriptor: int) -> bool:
    """Whether it is a pipe or a socket: the end of a file, or of ``/dev/null``, says nothing of the parent."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _process_descriptor(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
