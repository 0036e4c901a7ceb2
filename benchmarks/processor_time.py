"""
Processor time of a process and of all that it started, which only grows.

Linux adds the time of a process that has ended to that of its parent, if the parent asks how it ended. Else it is
nowhere any more, such as that of Python workers whose daemon was killed before them; and between two looks at
``/proc`` a process may have ended. So what was seen of processes that are gone is kept here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from attrs import define, field

Key = tuple[int, int]
"""A process: its id, and when it began, since ids come again."""


class Usage(NamedTuple):
    """Seconds of a process, of those of its children that it has seen end, and who its parent is."""

    own: float
    ended: float
    parent: Key | None


def processes(pid: int, parent: Key | None = None) -> dict[Key, Usage]:
    """Those that live, below a process and with it."""
    found: dict[Key, Usage] = {}
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        user, system, ended_user, ended_system = (int(each) / os.sysconf("SC_CLK_TCK") for each in words[11:15])
        key = (pid, int(words[19]))
        found[key] = Usage(user + system, ended_user + ended_system, parent)
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                found.update(processes(int(child), key))
    return found


def steady(pid: int) -> dict[Key, Usage]:
    """The same at a moment at which none of them ends."""
    before = processes(pid)
    while True:
        now = processes(pid)
        if {key: each.ended for key, each in now.items()} == {key: each.ended for key, each in before.items()}:
            return now
        before = now


@define
class ProcessorTime:
    """
    :param look: the processes that live, with the first one.
    """

    look: Callable[[], Mapping[Key, Usage]]
    _seen: Mapping[Key, Usage] = field(factory=dict, init=False)
    _lost: float = field(default=0.0, init=False)
    _last: float = field(default=0.0, init=False)

    @classmethod
    def of(cls, pid: int) -> ProcessorTime:
        """Of a process and of all that it started."""
        return cls(lambda: steady(pid))

    def seconds(self) -> float:
        """So far; never less than the time before."""
        now = self.look()
        gone: dict[Key, float] = {}
        for key, usage in self._seen.items():
            if key in now:
                continue
            heir = usage.parent
            while heir is not None and heir not in now:
                heir = self._seen[heir].parent
            if heir is None:
                self._lost += usage.own + usage.ended
            else:
                gone[heir] = gone.get(heir, 0.0) + usage.own + usage.ended
        for heir, seconds in gone.items():
            self._lost += max(0.0, seconds - (now[heir].ended - self._seen[heir].ended))
        self._seen = now
        self._last = max(self._last, self._lost + sum(each.own + each.ended for each in now.values()))
        return self._last
