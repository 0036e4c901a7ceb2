"""The log of a test's broker, and waits for its entries."""

from __future__ import annotations

from typing import Protocol

from logbus.client import validators as check
from logbus.testing.broker_process import SHOWN_LINES
from logbus.testing.errors import is_closed
from logbus.testing.waiting import WaitTimedOut, wait_until

WAIT_SECONDS = 30.0
"""A wait takes so long at most, unless it says otherwise."""


class LogSource(Protocol):
    """Whatever runs a broker."""

    @property
    def log_mark(self) -> int: ...
    def log_lines(self, since: int) -> list[str]: ...


class Logged:
    """Base of brokers."""

    @property
    def _log_source(self) -> LogSource | None:
        """What runs the broker, or ran it last."""
        raise NotImplementedError

    _closed = False

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped."""
        raise NotImplementedError

    @property
    def output(self) -> str:
        """The last lines of its log; in this process: of all that is logged in the broker's thread."""
        return "\n".join(self.log_lines()[-SHOWN_LINES:])

    @property
    def log_mark(self) -> int:
        """Where its log is now, for :meth:`log_lines`."""
        source = self._log_source
        return source.log_mark if source is not None and self.running else 0

    def log_lines(self, since: int = 0) -> list[str]:
        """
        The last lines of its log, of the last start if there were several.

        :param since: a :attr:`log_mark`: only what was logged afterwards.
        """
        source = self._log_source
        return [] if source is None else source.log_lines(since)

    def wait_logged(self, words: str, *, since: int = 0, timeout: float = WAIT_SECONDS) -> str:
        """
        The first line of its log with these words, as soon as there is one; while it starts, too, after ``launch``.

        :param since: a :attr:`log_mark`: only what was logged afterwards.
        :raise WaitTimedOut: there was none; the message has the last lines.
        :raise BrokerFailed: there was none, and the broker is closed.
        """
        __tracebackhide__ = True
        check.text("words", words)
        check.seconds("timeout", timeout)

        def find() -> str | None:
            found = next((line for line in self.log_lines(since) if words in line), None)
            if found is None and self._closed:
                raise is_closed(f"wait_logged: there is no line with {words!r}")
            return found

        try:
            return wait_until(
                find,
                f"a line with {words!r} in the broker's log",
                timeout,
            )
        except WaitTimedOut as e:
            raise WaitTimedOut(f"{e}; it ends:\n{self.output}") from None
