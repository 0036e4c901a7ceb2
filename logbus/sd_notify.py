"""
Tells systemd when the process is ready, reloads, stops, and still turns (``sd_notify(3)``, ``Type=notify``).

systemd names a datagram socket in ``NOTIFY_SOCKET``; without it nothing is sent. The reactor sends the sign of life
that ``WatchdogSec=`` demands, so a process whose reactor hangs is ended and started again. While a broker starts or
stops, which takes as long as there are logs to recover or to sync, it asks for more time again and again:
``TimeoutStartSec=`` and ``TimeoutStopSec=`` are then limits for one that hangs.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, MutableMapping
from typing import Self

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

EXTENSION = 30.0
"""Seconds that are asked for while it starts or stops, three times as often."""


def _send(address: str, message: bytes) -> None:
    # An abstract socket's name begins with a zero byte, which the variable cannot hold.
    where = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as notify:
        notify.sendto(message, where)


@define(eq=False)
class ServiceManager:
    """
    The service manager that has started this process, if there is one.

    :param address: its socket; empty: there is none.
    :param watchdog: seconds within which it expects a sign of life; 0: it does not.
    :param send: sends a datagram.
    :param monotonic: the system's monotonic clock in seconds, which a reload is told by.
    """

    _clock: IReactorTime
    _address: str = ""
    _watchdog: float = 0.0
    _send: Callable[[str, bytes], object] = _send
    _monotonic: Callable[[], float] = time.monotonic
    _sign_of_life: IDelayedCall | None = field(default=None, init=False)
    _extension: IDelayedCall | None = field(default=None, init=False)
    _log = Logger(namespace="logbus")

    @classmethod
    def of_environment(cls, clock: IReactorTime, environment: MutableMapping[str, str], pid: int) -> Self:
        """
        Return the service manager that the environment names, and take its variables out: processes that this one
        starts have nothing to tell it.

        :param pid: of this process; ``WATCHDOG_PID`` may name another one.
        """
        address = environment.pop("NOTIFY_SOCKET", "")
        microseconds = environment.pop("WATCHDOG_USEC", "")
        watched = environment.pop("WATCHDOG_PID", str(pid))
        expects_life = address and re.fullmatch("[0-9]{1,15}", microseconds) and watched == str(pid)
        return cls(clock, address, int(microseconds) / 1e6 if expects_life else 0.0)

    def starting(self) -> None:
        """Ask for more time until :meth:`ready`."""
        if self._address:
            self._extend()

    def ready(self) -> None:
        """Say that the broker serves clients, and give signs of life from now on."""
        if self._address:
            self._end_extension()
            self._notify("READY=1")
            if self._watchdog and self._sign_of_life is None:
                self._live()

    def reloading(self) -> None:
        """Say that the configuration is read again; :meth:`ready` says when it was (``Type=notify-reload``)."""
        self._notify("RELOADING=1", f"MONOTONIC_USEC={int(self._monotonic() * 1e6)}")

    def stopping(self) -> None:
        """Say that the broker stops, and ask for more time until :meth:`stopped`; signs of life go on."""
        if self._address:
            self._notify("STOPPING=1")
            self._end_extension()
            self._extend()

    def stopped(self) -> None:
        """End the timers."""
        self._end_extension()
        if self._sign_of_life is not None:
            self._sign_of_life.cancel()
            self._sign_of_life = None

    def _live(self) -> None:
        self._notify("WATCHDOG=1")
        self._sign_of_life = self._clock.callLater(self._watchdog / 2, self._live)

    def _extend(self) -> None:
        self._notify(f"EXTEND_TIMEOUT_USEC={int(EXTENSION * 1e6)}")
        self._extension = self._clock.callLater(EXTENSION / 3, self._extend)

    def _end_extension(self) -> None:
        if self._extension is not None:
            self._extension.cancel()
            self._extension = None

    def _notify(self, *lines: str) -> None:
        if self._address:
            try:
                self._send(self._address, "\n".join(lines).encode())
            except OSError as e:
                # Without the sign of life systemd ends this process: the reason has to be in the log.
                self._log.warn(
                    "systemd at {address} was not told {lines}: {error}", address=self._address, lines=lines, error=e
                )
