"""Tests of :mod:`logbus.sd_notify`."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.sd_notify import EXTENSION, ServiceManager


class ServiceManagerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.told: list[str] = []

    def manager(self, watchdog: float = 0.0) -> ServiceManager:
        def send(address: str, message: bytes) -> None:
            self.assertEqual(address, "/notify")
            self.told.append(message.decode())

        return ServiceManager(self.clock, "/notify", watchdog, send, lambda: 12.5)

    def test_life_of_a_broker(self) -> None:
        """It asks for time while it starts and stops, and shows that it lives in between."""
        manager = self.manager(watchdog=20.0)
        extension = f"EXTEND_TIMEOUT_USEC={EXTENSION * 1e6:.0f}"
        manager.starting()
        self.clock.advance(EXTENSION / 3)
        manager.ready()
        self.clock.advance(10.0)
        self.assertEqual(self.told, [extension, extension, "READY=1", "WATCHDOG=1", "WATCHDOG=1"])
        del self.told[:]
        manager.stopping()
        self.clock.advance(10.0)
        self.assertEqual(self.told[:2], ["STOPPING=1", extension])
        self.assertEqual(sorted(self.told[2:]), [extension, "WATCHDOG=1"])
        manager.stopped()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_reload(self) -> None:
        """systemd compares the time with that of its request."""
        manager = self.manager()
        manager.ready()
        manager.reloading()
        manager.ready()
        self.assertEqual(self.told, ["READY=1", "RELOADING=1\nMONOTONIC_USEC=12500000", "READY=1"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_ready_twice(self) -> None:
        """One timer gives the signs of life."""
        manager = self.manager(watchdog=4.0)
        manager.ready()
        manager.ready()
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)

    def test_no_service_manager(self) -> None:
        """Nothing is sent, and no timer set."""
        manager = ServiceManager.of_environment(self.clock, {"PATH": "/bin"}, 1)
        for step in (manager.starting, manager.ready, manager.reloading, manager.stopping, manager.stopped):
            step()
            self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_environment(self) -> None:
        """What concerns this process alone is not handed on; a watchdog of another process is not fed."""
        for watched, timers in ((None, 1), ("7", 1), ("8", 0)):
            with (
                TemporaryDirectory() as directory,
                closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as systemd,
            ):
                path = str(Path(directory) / "notify")
                systemd.bind(path)
                environment = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "3000000", "LANG": "C"}
                if watched is not None:
                    environment["WATCHDOG_PID"] = watched
                manager = ServiceManager.of_environment(self.clock, environment, 7)
                self.assertEqual(environment, {"LANG": "C"})
                manager.ready()
                self.assertEqual(systemd.recv(100), b"READY=1")
                self.assertEqual(len(self.clock.getDelayedCalls()), timers)
                manager.stopped()

    def test_abstract_socket(self) -> None:
        """An at sign stands for the zero byte."""
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as systemd:
            systemd.bind("")  # the kernel chooses an abstract name
            name = systemd.getsockname().decode()
            self.assertTrue(name.startswith("\0"))
            ServiceManager.of_environment(self.clock, {"NOTIFY_SOCKET": "@" + name[1:]}, 1).ready()
            self.assertEqual(systemd.recv(100), b"READY=1")

    def test_systemd_is_gone(self) -> None:
        """A broker goes on without it."""
        manager = ServiceManager.of_environment(self.clock, {"NOTIFY_SOCKET": "/nowhere/notify"}, 1)
        manager.ready()


@given(st.dictionaries(st.sampled_from(["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]), st.text()), st.integers())
def test_any_environment(environment: dict[str, str], pid: int) -> None:
    """Whatever is in the variables, they are read and taken out."""
    ServiceManager.of_environment(Clock(), environment, pid)
    assert environment == {}
