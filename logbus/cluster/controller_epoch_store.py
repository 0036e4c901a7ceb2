"""
The highest controller epoch that this broker has heard of, on disk: a broker that restarts must not listen to a
controller that was replaced meanwhile, nor to one of a metadata store that was set back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import define, field
from twisted.logger import Logger

from logbus.errors import ApiError, StorageError
from logbus.storage.istorage import IDisk, IOPool

FILE_NAME = "controller-epoch"


class ControllerEpochStore(Protocol):
    """Remembers the highest controller epoch."""

    @property
    def highest(self) -> int:
        """The highest heard of; 0 at first."""

    async def remember(self, epoch: int) -> None:
        """Note an epoch higher than :attr:`highest`."""


@define(eq=False)
class MemoryControllerEpochStore:
    """For those that have no disk."""

    highest: int = 0

    async def remember(self, epoch: int) -> None:
        """Note it for as long as we live."""
        self.highest = epoch


@define(eq=False)
class FileControllerEpochStore:
    """
    Keeps the epoch in the first log directory that works; what counts at a start is the highest in any of them.

    :ivar disks: the log directories.
    """

    disks: Sequence[IDisk]
    highest: int = field(default=0, init=False)
    _log = Logger()

    def load(self) -> None:
        """Read what was kept; a file that cannot be read is as if it were not there."""
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
                pass  # The directory is offline now, and that has been said.

    async def remember(self, epoch: int) -> None:
        """Keep it; returns once it is on stable storage, or cannot be put there: then it is kept for this life only."""
        self.highest = max(self.highest, epoch)
        for disk in self.disks:
            if disk.failure is None:
                try:
                    await disk.submit(IOPool.BACKGROUND, disk.replace, FILE_NAME, b"%d\n" % self.highest)
                    return
                except (StorageError, ApiError):
                    continue  # It failed, or is full; perhaps another one is not.
        self._log.warn("the controller's epoch {epoch} cannot be kept: no log directory takes it", epoch=epoch)
