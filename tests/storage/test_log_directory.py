"""Detection of losses at a start."""

from __future__ import annotations

from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.filesystem.disk import read_boot_id
from logbus.storage.log_manager import LogManager
from logbus.testing.simulation.environment.inodes import PowerCutOutcome
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.storage.builders import PARTITION, a_manager, batch


class LossTests(SynchronousTestCase):
    """Lives of a broker, one after the other."""

    def life(self, *disks: MemoryDisk, serves: bool = True, stops: bool = False) -> tuple[bool, bool]:
        """Start, and say what the start found: whether the unsynced was lost, and whether a directory was."""
        manager = a_manager(*disks)
        self.successResultOf(manager.open())
        found = (manager.unsynced_lost, manager.logs_lost)
        self.write(manager)
        if serves:
            manager.start_housekeeping()
        if stops:
            self.successResultOf(manager.close())
        return found

    def write(self, manager: LogManager) -> None:
        log = self.successResultOf(manager.create(PARTITION))
        append_as_leader(log, batch(), 0)

    def test_a_new_directory(self) -> None:
        """It may stand in the place of another; once it was served from, it is known."""
        disk = MemoryDisk()
        self.assertEqual(self.life(disk, stops=True), (False, True))
        self.assertEqual(self.life(disk.after_kill(), stops=True), (False, False))
        # A second one that is new says so, whatever the first one holds.
        self.assertEqual(self.life(disk.after_kill(), MemoryDisk("/b"), stops=True), (False, True))

    def test_kills(self) -> None:
        """The page cache outlives the process."""
        disk = MemoryDisk()
        self.life(disk)
        self.assertEqual(self.life(disk.after_kill()), (False, False))

    def test_power_cuts(self) -> None:
        """It does not outlive the machine, even if nothing happens to be missing."""
        for mode in ("lose", "keep"):
            disk = MemoryDisk()
            self.life(disk, stops=True)
            disk = disk.after_kill()
            self.life(disk)
            disk = disk.after_power_cut(PowerCutOutcome(mode))
            self.assertEqual(self.life(disk), (True, False))
            self.assertEqual(self.life(disk.after_kill()), (False, False))

    def test_a_clean_stop_before(self) -> None:
        """What was closed cleanly outlives the machine's run."""
        disk = MemoryDisk()
        self.life(disk, stops=True)
        self.assertEqual(self.life(disk.after_power_cut(PowerCutOutcome("keep"))), (False, False))

    def test_unfinished_start(self) -> None:
        """Until a loss of records is recorded, each start finds it again."""
        disk = MemoryDisk()
        self.life(disk)
        disk = disk.after_power_cut(PowerCutOutcome("lose"))
        for serves, lost in ((False, True), (False, True), (True, True), (True, False)):
            self.assertEqual(self.life(disk, serves=serves), (lost, False))
            disk = disk.after_kill()
        fresh = MemoryDisk()
        self.assertEqual(self.life(fresh, serves=False), (False, True))
        self.assertEqual(self.life(fresh.after_kill()), (False, True))

    def test_clean_stop_before_the_loss_is_reported(self) -> None:
        """A broker that stops cleanly before the controller knows of a loss reports it after the restart."""
        disk = MemoryDisk()
        self.life(disk)
        disk = disk.after_power_cut(PowerCutOutcome("lose"))
        self.assertEqual(self.life(disk, serves=False, stops=True), (True, False))
        disk = disk.after_kill()
        self.assertEqual(self.life(disk, stops=True), (True, False))
        self.assertEqual(self.life(disk.after_kill(), stops=True), (False, False))

    def test_unclean_stops(self) -> None:
        """A start that finds no marker of a clean stop says so, until the cluster knows of it."""
        disk = MemoryDisk()
        unclean = []
        for serves, stops in ((True, True), (True, False), (False, True), (True, True), (True, True)):
            manager = a_manager(disk)
            self.successResultOf(manager.open())
            unclean.append(manager.unclean_shutdown)
            if serves:
                manager.start_housekeeping()
            if stops:
                self.successResultOf(manager.close())
            disk = disk.after_kill()
        self.assertEqual(unclean, [False, False, True, True, False])

    def test_log_end_below_checkpoints(self) -> None:
        """A log that ends below its high watermark or recovery point lost records: it is named, and counted."""
        for checkpoint in ("high watermarks", "recovery points"):
            disk = MemoryDisk()
            manager = a_manager(disk)
            self.successResultOf(manager.open())
            self.write(manager)
            [log] = manager
            self.successResultOf(log.flush())
            [directory] = manager.directories
            if checkpoint == "high watermarks":
                log.high_watermark = 1
                self.successResultOf(directory.checkpoint_high_watermarks())
            else:
                self.successResultOf(directory.checkpoint_recovery_points())
            disk = disk.after_kill()
            disk.open("orders-0/00000000000000000000.log").truncate(10)
            with capturedLogs() as events:
                manager = a_manager(disk)
                self.successResultOf(manager.open())
            [said] = [event for event in events if "by its checkpoints" in event["log_format"]]
            self.assertEqual((said["partition"], said["end"]), (PARTITION, 0))
            self.assertEqual(manager.shortened, 1)
            # It is said once: what comes in the place of what was lost is not held against it.
            manager = a_manager(disk.after_kill())
            self.successResultOf(manager.open())
            self.assertEqual(manager.shortened, 0)

    def test_boot_id_is_stable(self) -> None:
        """The boot id is the same in every call."""
        self.assertEqual(read_boot_id(), read_boot_id())
        self.assertRegex(read_boot_id() or "", "^[0-9a-f-]{36}$")
