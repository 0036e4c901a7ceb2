"""
Points of a job at which its processes can be held, so that one is killed exactly there.

A process that comes to a point notes it, and looks whether somebody is to be held there. It takes the order, so that no
other one is held by it, and waits until the order is withdrawn. What both sides share is a directory, which the
environment names: it reaches Spark's executors, their Python workers, and the processes in which a driver plans and
commits.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from attrs import define, field

VARIABLE = "LOGBUS_KILL_POINTS"
LONGEST = 300.0
"""Seconds for which a process is held, should whoever gave the order be gone."""

_LOOK = 0.005


def at(point: str) -> None:
    """
    This process has come to a point.

    :param point: letters, digits and hyphens.
    """
    directory = Path(os.environ[VARIABLE])
    held = directory / f"held-{os.getpid()}"
    try:
        with (directory / "passed").open("a") as passed:
            passed.write(f"{point}\n")
        (directory / f"hold-{point}").rename(held)
    except FileNotFoundError:
        return  # There is no order; or nobody any more who gives some.
    deadline = time.monotonic() + LONGEST
    while held.exists() and time.monotonic() < deadline:
        time.sleep(_LOOK)


@define(eq=False)
class Orders:
    """
    The side that gives orders.

    :param directory: empty; this one's own.
    """

    directory: Path
    _read: int = field(default=0, init=False)
    _counts: dict[str, int] = field(factory=dict, init=False)
    _last: str = field(default="the start", init=False)

    def __attrs_post_init__(self) -> None:
        (self.directory / "passed").touch()

    def hold(self, point: str) -> None:
        """Who comes to a point next is to wait there."""
        (self.directory / f"hold-{point}").touch()

    def held(self) -> int | None:
        """The process that waits."""
        found = [int(name.partition("-")[2]) for name in os.listdir(self.directory) if name.startswith("held-")]
        return found[0] if found else None

    def release(self) -> None:
        """Nobody is to wait any more."""
        for path in self.directory.iterdir():
            if path.name != "passed":
                path.unlink(missing_ok=True)

    def count(self, point: str) -> int:
        """How often a point was passed so far."""
        self._catch_up()
        return self._counts.get(point, 0)

    @property
    def last(self) -> str:
        """The point that was passed last."""
        self._catch_up()
        return self._last

    def _catch_up(self) -> None:
        with (self.directory / "passed").open("rb") as passed:
            passed.seek(self._read)
            whole = passed.read().rpartition(b"\n")[0]
        self._read += len(whole) + bool(whole)
        for point in whole.decode().split():
            self._counts[point] = self._counts.get(point, 0) + 1
            self._last = point
