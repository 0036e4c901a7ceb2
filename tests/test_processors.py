"""Tests of :mod:`logbus.processors`."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus import processors as module
from logbus.processors import cpu_quota, processors


class ProcessorsTests(SynchronousTestCase):
    def test_processors(self) -> None:
        """Those of the machine where nobody tells which are for this process; no more than its limit is worth."""
        own = len(os.sched_getaffinity(0))
        for quota, expected in ((None, own), (0.2, 1), (own - 0.5, own), (own + 5.0, own)):
            self.patch(module, "cpu_quota", lambda quota=quota: quota)
            self.assertEqual(processors(), expected)
        self.patch(module, "cpu_quota", lambda: None)
        os_without: Any = type("os", (), {"cpu_count": staticmethod(lambda: 12)})
        self.patch(module, "os", os_without)
        self.assertEqual(processors(), 12)


class CpuQuotaTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = Path(self.enterContext(TemporaryDirectory()))

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def test_container(self) -> None:
        """A container sees its own group as the root."""
        self.write({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"})
        self.assertEqual(cpu_quota(self.root), 1.5)

    def test_service(self) -> None:
        """The least limit of the groups that it is in; the others have none."""
        base = "sys/fs/cgroup"
        self.write(
            {
                "proc/self/cgroup": "0::/system.slice/logbus.service\n",
                f"{base}/system.slice/cpu.max": "400000 100000\n",
                f"{base}/system.slice/logbus.service/cpu.max": "max 100000\n",
            }
        )
        self.assertEqual(cpu_quota(self.root), 4.0)
        self.write({f"{base}/system.slice/logbus.service/cpu.max": "50000 100000\n"})
        self.assertEqual(cpu_quota(self.root), 0.5)

    def test_first_version(self) -> None:
        """Of a group by a path that the container does not have, its own is at the root."""
        base = "sys/fs/cgroup/cpu,cpuacct"
        self.write(
            {
                "proc/self/cgroup": "12:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n1:name=systemd:/docker/1\n0::/\n",
                f"{base}/cpu.cfs_quota_us": "200000\n",
                f"{base}/cpu.cfs_period_us": "100000\n",
            }
        )
        self.assertEqual(cpu_quota(self.root), 2.0)
        self.write({f"{base}/cpu.cfs_quota_us": "-1\n"})
        self.assertIsNone(cpu_quota(self.root))

    def test_unknown(self) -> None:
        """Without control groups, and with files that say something else, there is no limit."""
        self.assertIsNone(cpu_quota(self.root))
        for text in ("", "max\n", "many 100000\n", "1 2 3\n", "5 0\n", "\0\n"):
            self.write({"proc/self/cgroup": "0::/\nstrange\n", "sys/fs/cgroup/cpu.max": text})
            self.assertIsNone(cpu_quota(self.root), text)

    def test_here(self) -> None:
        """This machine's can be read, whatever they are."""
        quota = cpu_quota()
        self.assertTrue(quota is None or quota > 0)
