"""Where one syncfs stands for many syncs."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory

from twisted.trial.unittest import SynchronousTestCase

from logbus.storage.filesystem import file_systems
from logbus.storage.filesystem.file_systems import kernel_version, open_for_syncfs, type_of

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
23 22 0:21 / /proc rw,nosuid - proc proc rw
99 22 8:17 /logs /var/lib/my\\040logs rw,noatime shared:7 master:1 - xfs /dev/sdb1 rw
100 22 0:55 / /merged rw - overlay overlay rw,lowerdir=/a - b
torn 1
"""


class FileSystemTests(SynchronousTestCase):
    """The file system of a directory."""

    def test_types(self) -> None:
        """A device's type is what the kernel says of its mount; one that is not mounted has none."""
        for device, expected in (((254, 0), "ext4"), ((8, 17), "xfs"), ((0, 55), "overlay"), ((8, 1), None)):
            self.assertEqual(type_of(os.makedev(*device), MOUNTS), expected)

    def test_kernel_versions(self) -> None:
        """Releases are compared by their first two numbers."""
        for release, expected in (("6.1.0-18-amd64", (6, 1)), ("5.4", (5, 4)), ("", (0, 0)), ("next-1", (0, 0))):
            self.assertEqual(kernel_version(release), expected)

    def test_unknown_ones(self) -> None:
        """Each file is synced by itself on an old kernel, on other file systems, and where nothing can be found out."""
        with TemporaryDirectory() as root:
            self.patch(file_systems, "_KNOWN", frozenset())
            self.assertEqual(open_for_syncfs(root), -1)
        self.assertEqual(open_for_syncfs(root), -1)
        self.patch(file_systems, "_REPORTING_KERNEL", (1000, 0))
        self.assertEqual(open_for_syncfs("/"), -1)
