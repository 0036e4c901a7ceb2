"""The waits between attempts at a request."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from logbus.client.retry import Backoff
from logbus.coroutines import sleep


@define
class Attempts:
    """
    Attempts at a request, after waits that grow, until a deadline.

    :ivar deadline: in the reactor's time.
    """

    _reactor: Any
    _backoff: Backoff
    deadline: float
    _failed: int = field(default=0, init=False)

    async def again(self) -> bool:
        """Wait before the next attempt. Returns False, at once, if it would come after the deadline."""
        self._failed += 1
        wait = self._backoff.before(self._failed)
        if self._reactor.seconds() + wait > self.deadline:
            return False
        await sleep(self._reactor, wait)
        return True
