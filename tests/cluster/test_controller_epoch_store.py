"""The highest controller epoch, over restarts."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.controller_epoch_store import FILE_NAME, ControllerEpochStore
from logbus.errors import StorageError
from logbus.testing.simulation.environment.inodes import PowerCutOutcome
from logbus.testing.simulation.environment.memory_disk import MemoryDisk


class StoredEpochsTests(SynchronousTestCase):
    """Two log directories."""

    def setUp(self) -> None:
        self.disks = [MemoryDisk("/one"), MemoryDisk("/two")]

    def remember(self, epoch: int) -> None:
        self.successResultOf(Deferred.fromCoroutine(ControllerEpochStore(self.disks).remember(epoch)))

    def loaded(self) -> int:
        """What a broker that starts now believes."""
        epochs = ControllerEpochStore(self.disks)
        epochs.load()
        return epochs.highest

    def test_survives(self) -> None:
        """It is there after a power cut, however unlucky."""
        self.assertEqual(self.loaded(), 0)
        self.remember(7)
        self.disks[0] = self.disks[0].after_power_cut(PowerCutOutcome("lose"))
        self.assertEqual(self.loaded(), 7)

    def test_another_directory(self) -> None:
        """It goes to the next directory when the first does not work, and the highest of both counts."""
        self.remember(7)
        self.disks[0].fail(StorageError("gone"))
        self.remember(9)
        self.assertEqual(self.disks[1].read(FILE_NAME), b"9\n")
        self.disks[0] = self.disks[0].after_kill()
        self.assertEqual(self.loaded(), 9)

    def test_nowhere(self) -> None:
        """With no directory left it is remembered for this life."""
        for disk in self.disks:
            disk.fail(StorageError("gone"))
        epochs = ControllerEpochStore(self.disks)
        epochs.load()
        self.successResultOf(Deferred.fromCoroutine(epochs.remember(3)))
        self.assertEqual(epochs.highest, 3)

    def test_damaged(self) -> None:
        """A file that is no number counts for nothing."""
        self.disks[0].replace(FILE_NAME, b"\xff\x00")
        self.disks[1].replace(FILE_NAME, b"4\n")
        self.assertEqual(self.loaded(), 4)
