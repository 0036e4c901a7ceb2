"""Monitors the free space of all log directories, and logs when one becomes low or full, or has space again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from attrs import define, field
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.errors import ApiError, StorageError
from logbus.metrics import Family, Registry, Sample
from logbus.storage.disk_space import DiskSpace, SpaceLevel, SpaceState
from logbus.storage.file_names import SPACE_TEST
from logbus.storage.istorage import IDisk, IOPool
from logbus.storage.log_directory import LogDirectory

TEST_BYTES = 1024 * 1024
"""Length of the test write, which shows whether a full directory has space again: that of a large batch."""

PAUSE_LOGS = 20
"""Logs between pauses of a collection, see :class:`~logbus.metrics.Family`; one may have many segments."""


@define(eq=False)
class SpaceMonitor:
    """
    The space of the log directories.

    :ivar warn_ratio: ``log.dir.usage.warn.ratio``.
    :ivar has_space_again: called when a full directory is not full any more.
    """

    _directories: Sequence[LogDirectory]
    warn_ratio: float
    has_space_again: Callable[[], object] = field(default=lambda: None, init=False)
    _states: Mapping[LogDirectory, SpaceState] = field(init=False)
    _measuring: set[LogDirectory] = field(factory=set, init=False)
    _log = Logger()

    @_states.default
    def _all(self) -> Mapping[LogDirectory, SpaceState]:
        for directory in self._directories:
            directory.disk.on_no_space(partial(self._refused, directory))
        return {directory: SpaceState() for directory in self._directories}

    @property
    def states(self) -> dict[str, SpaceState]:
        """The state of each online directory, by its path."""
        return {directory.disk.root: state for directory, state in self._states.items() if directory.is_online}

    @property
    def full_directories(self) -> list[str]:
        """The paths of the directories that refuse writes for lack of space."""
        return [root for root, state in self.states.items() if state.level is SpaceLevel.FULL]

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of space."""
        registry.gauge(
            "logbus_full_log_directories",
            "Log directories that refuse writes, since there is no space.",
            read=lambda: len(self.full_directories),
        )
        registry.add_source(self._families)

    def _families(self) -> Iterator[Family]:
        """Yield the space of each directory, as last measured."""
        measured = [(root, state.space) for root, state in self.states.items() if state.space is not None]
        used = "logbus_log_directory_log_bytes"
        yield Family(used, "Bytes of the logs in a log directory.", "gauge", self._log_bytes(used))
        free, size = "logbus_log_directory_free_bytes", "logbus_log_directory_size_bytes"
        yield Family(
            free,
            "Free space of the file system that a log directory is on.",
            "gauge",
            (Sample(free, (("directory", root),), space.usable_bytes) for root, space in measured),
        )
        yield Family(
            size,
            "Size of the file system that a log directory is on.",
            "gauge",
            (Sample(size, (("directory", root),), space.total_bytes) for root, space in measured),
        )

    def _log_bytes(self, name: str) -> Iterator[Sample | None]:
        for directory in self._directories:
            if directory.is_online:
                total = 0
                for number, log in enumerate([*directory.logs.values(), *directory.futures.values()], 1):
                    total += log.size
                    if number % PAUSE_LOGS == 0:
                        yield None
                yield Sample(name, (("directory", directory.disk.root),), total)

    def space_of(self, directory: LogDirectory) -> DiskSpace | None:
        """The last measurement; None: none yet, or unknown."""
        return self._states[directory].space

    def measure(self) -> None:
        """Measure all online directories, each in its background thread. Returns at once."""
        for directory, state in self._states.items():
            if directory.is_online and directory not in self._measuring:
                self._measuring.add(directory)
                disk = directory.disk
                measuring = disk.submit(IOPool.BACKGROUND, _measure, disk, state.level is SpaceLevel.FULL)
                measuring.addCallback(self._measured, directory)
                measuring.addErrback(self._failed)
                measuring.addBoth(self._done, directory)

    def _measured(self, found: tuple[DiskSpace | None, bool], directory: LogDirectory) -> None:
        state, (space, is_writable) = self._states[directory], found
        was_full = state.level is SpaceLevel.FULL
        if not state.measured(space, is_writable, self.warn_ratio):
            return
        if state.level is SpaceLevel.FULL:
            self._log.error(
                "log directory {root} is full: {space}; writes to it are refused until there is space",
                root=directory.disk.root,
                space=space,
            )
        elif state.level is SpaceLevel.LOW:
            self._log.warn(
                "log directory {root} is running out of space: {space}; writes are refused when it is full",
                root=directory.disk.root,
                space=space,
            )
        else:
            self._log.info(
                "log directory {root} has space again: {space}",
                root=directory.disk.root,
                space="how much, the system does not say" if space is None else space,
            )
        if was_full:
            self.has_space_again()

    def _done(self, _: object, directory: LogDirectory) -> None:
        self._measuring.discard(directory)

    def _refused(self, directory: LogDirectory, error: ApiError) -> None:
        if self._states[directory].refused():
            self._log.error(
                "log directory {root} is full: {error}; writes to it are refused until there is space",
                root=directory.disk.root,
                error=error.message,
            )

    def _failed(self, failure: Failure) -> None:
        # A directory that goes offline is reported already.
        if failure.check(StorageError) is None:
            self._log.failure("the space of a log directory cannot be measured", failure)


def _measure(disk: IDisk, is_full: bool) -> tuple[DiskSpace | None, bool]:
    """
    Runs in an I/O thread: measures the space; if there is hardly any, or was none before, also tries a test write.
    """
    is_writable, space = True, disk.space()
    if is_full or (space is not None and space.usable_bytes < TEST_BYTES):
        try:
            disk.replace(SPACE_TEST, bytes(TEST_BYTES), True, False)
        except ApiError:
            is_writable = False
        for left in (SPACE_TEST, SPACE_TEST + ".tmp"):
            try:
                disk.unlink(left)
            except ApiError:
                is_writable = False
        space = disk.space()
    return space, is_writable
