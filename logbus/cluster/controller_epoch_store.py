"""
Stores the highest controller epoch that this broker has seen, on disk.

A restarted broker must not obey a controller that was replaced meanwhile, nor one of a metadata store set back.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field
from twisted.logger import Logger

from logbus.errors import ApiError, StorageError
from logbus.storage.istorage import IDisk, IOPool

FILE_NAME = "controller-epoch"


@define(eq=False)
class ControllerEpochStore:
    """
    Keeps it in a file of the first working log directory; at a start the highest of all directories counts.

    :ivar disks: the log directories; without any it is kept in memory.
    :ivar highest: the highest epoch seen; 0 at first.
    """

    disks: Sequence[IDisk] = ()
    highest: int = field(default=0, init=False)
    _log = Logger()

    def load(self) -> None:
        """Read the files; an unreadable one counts as missing."""
        for disk in self.disks:
            if disk.failure is not None:
                continue
            try:
                self.highest = max(self.highest, int(disk.read(FILE_NAME)))
            except FileNotFoundError:
                pass
            except ValueError:
                self._log.warn("{path}/{name} is damaged; it is made anew", path=disk.root, name=FILE_NAME)
            except StorageError:
                pass  # The directory is offline now, and that was logged.

    async def remember(self, epoch: int) -> None:
        """Store it; returns once it is on stable storage, or no directory takes it: then it is kept in memory only."""
        self.highest = max(self.highest, epoch)
        for disk in self.disks:
            if disk.failure is None:
                try:
                    await disk.submit(IOPool.BACKGROUND, disk.replace, FILE_NAME, b"%d\n" % self.highest)
                    return
                except (StorageError, ApiError):
                    continue  # It failed, or is full; try the next.
        if self.disks:
            self._log.warn("the controller's epoch {epoch} cannot be kept: no log directory takes it", epoch=epoch)
