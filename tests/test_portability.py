"""What macOS has by another name than Linux, or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import resource

from twisted.trial.unittest import SynchronousTestCase

from logbus import portability, settings
from logbus.portability import sync


class PortabilityTests(SynchronousTestCase):
    """The calls are replaced: no system here has those of macOS."""

    def test_full_sync(self) -> None:
        """Where there is F_FULLFSYNC it is asked for alone; a file system that lacks it has fsync; errors are told."""
        called: list[str] = []
        answer: list[OSError] = []

        def control(fd: int, command: int) -> int:
            called.append("full")
            if answer:
                raise answer[0]
            return 0

        self.patch(fcntl, "fcntl", control)
        self.patch(os, "fsync", lambda fd: called.append("plain"))
        sync(3)
        self.assertEqual(called, ["plain"])
        self.patch(portability, "_FULL_SYNC", 51)
        called.clear()
        sync(3)
        self.assertEqual(called, ["full"])
        answer.append(OSError(errno.ENOTSUP, "not supported"))
        sync(3)
        self.assertEqual(called, ["full", "full", "plain"])
        answer[0] = OSError(errno.EIO, "the disk is gone")
        self.assertRaises(OSError, sync, 3)

    def test_unbounded_descriptors(self) -> None:
        """A limit without a bound in name is raised as far as the system lets it."""
        limit, most = 256, 10_240

        def setrlimit(kind: int, limits: tuple[int, int]) -> None:
            nonlocal limit
            if limits[0] > most:
                raise ValueError("current limit exceeds maximum limit")
            limit = limits[0]

        self.patch(resource, "getrlimit", lambda kind: (limit, resource.RLIM_INFINITY))
        self.patch(resource, "setrlimit", setrlimit)
        settings.raise_descriptor_limit()
        self.assertEqual(limit, 10_240)
        settings.raise_descriptor_limit()
        self.assertEqual(limit, 10_240)
        most = 1_000_000
        settings.raise_descriptor_limit()
        self.assertEqual(limit, 65_536)
