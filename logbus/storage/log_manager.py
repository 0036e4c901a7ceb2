"""
Manages all logs of a broker, in all its log directories (Kafka: LogManager).

Opening, creating, deleting and closing logs wait for disks, and return Deferreds; a log itself is used by plain calls.
A directory that fails goes offline with its logs; the others keep working.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.config.topic_config import TopicConfig
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.metrics import Family, Registry, histogram_samples
from logbus.model import TopicPartition
from logbus.storage import file_names
from logbus.storage.checkpoints import MetaProperties
from logbus.storage.cleaner.log_cleaner import LogCleaner
from logbus.storage.directory_claims import claim_directories
from logbus.storage.directory_opening import open_directories
from logbus.storage.filesystem.bounded_work import SyncQueues
from logbus.storage.filesystem.file_cache import FileCache
from logbus.storage.housekeeping import Housekeeping
from logbus.storage.istorage import IDeletePolicy, IDisk, IOPool
from logbus.storage.log import Log
from logbus.storage.log_creator import LogCreator
from logbus.storage.log_directory import LogDirectory, rename_for_good
from logbus.storage.log_linker import LogLinker
from logbus.storage.log_mover import LogMover, Swap
from logbus.storage.log_snapshots import LogSnapshots
from logbus.storage.log_truncator import LogTruncator
from logbus.storage.log_user import LogUser, NoLogUser
from logbus.storage.repair.damage import DamageReports
from logbus.storage.repair.log_repairer import LogRepairer
from logbus.storage.repair.log_scrubber import LogScrubber
from logbus.storage.retention import TimeAndSize
from logbus.storage.settings import CleanerSettings, ScrubSettings, StorageSettings
from logbus.storage.space_monitor import SpaceMonitor
from logbus.storage.stray_logs import StrayLogs


@define(eq=False, repr=False)
class LogManager:
    """
    The logs of a broker.

    :ivar disks: one for each log directory.
    :ivar clock: drives periodic work.
    :ivar wall_clock: seconds since 1970.
    :ivar jitter: spreads segment rolls, and makes names for deleted directories.
    :ivar policy: decides what retention deletes.
    :ivar user: what the logs are used by; replicas need the logs first, so they are set later.
    :ivar cleaner_settings: called before each round of the cleaner; ``scrub_settings``: of the scrubber.
    :ivar move_bytes_per_second: called before each move of a log (``replica.alter.log.dirs.io.max.bytes.per.second``).
    :ivar damage: known damage in the logs.
    """

    disks: Sequence[IDisk]
    clock: IReactorTime
    wall_clock: Callable[[], float]
    settings: StorageSettings = field(factory=StorageSettings, kw_only=True)
    default_config: TopicConfig = field(factory=TopicConfig, kw_only=True)
    jitter: random.Random = field(factory=random.Random, kw_only=True)
    policy: IDeletePolicy = field(factory=TimeAndSize, kw_only=True)
    user: LogUser = field(factory=NoLogUser, kw_only=True)
    cleaner_settings: Callable[[], CleanerSettings] = field(default=CleanerSettings, kw_only=True)
    scrub_settings: Callable[[], ScrubSettings] = field(default=ScrubSettings, kw_only=True)
    move_bytes_per_second: Callable[[], float] = field(default=lambda: float("inf"), kw_only=True)
    damage: DamageReports = field(factory=DamageReports, init=False)
    files: FileCache = field(init=False)
    directories: list[LogDirectory] = field(init=False)
    housekeeping: Housekeeping = field(init=False)
    cleaner: LogCleaner = field(init=False)
    space: SpaceMonitor = field(init=False)
    scrubber: LogScrubber = field(init=False)
    repairer: LogRepairer = field(init=False)
    mover: LogMover = field(init=False)
    creator: LogCreator = field(init=False)
    truncator: LogTruncator = field(init=False)
    linker: LogLinker = field(init=False)
    snapshots: LogSnapshots = field(init=False)
    strays: StrayLogs = field(init=False)
    _queues: dict[IDisk, SyncQueues] = field(init=False)
    _missing: int = field(default=0, init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        settings = self.settings
        most = max(settings.max_open_files, settings.max_unsynced_files)
        self.files = FileCache(settings.max_open_files, most, self._warn_of_files)
        self._queues = {disk: SyncQueues() for disk in self.disks}
        self.directories = [LogDirectory(disk, self._new_log, self.clock.seconds) for disk in self.disks]
        for directory in self.directories:
            directory.disk.on_failure(partial(self._failed, directory))
        self.space = SpaceMonitor(self.directories, self.settings.usage_warn_ratio)
        self.housekeeping = Housekeeping(
            self.directories,
            self.clock,
            self.wall_clock,
            settings=self.settings,
            policy=self.policy,
            high_watermark_of=self._high_watermark_of,
            measure_space=self.space.measure,
        )
        timers = self.housekeeping.timers
        self.cleaner = LogCleaner(
            self.directories, timers, self.wall_clock, self._high_watermark_of, self.cleaner_settings
        )
        # A different order after each start, without using up random numbers of other users.
        order = random.Random(self.wall_clock())
        self.scrubber = LogScrubber(self.directories, timers, self.damage, order, self.scrub_settings)
        self.housekeeping.suspicion = self.scrubber.suspect
        self.repairer = LogRepairer(self.directories, timers, self.cleaner, self.damage)
        self.mover = LogMover(
            self.directories,
            timers,
            self.cleaner,
            self.repairer,
            self._new_log,
            self.housekeeping.remove_trees_later,
            self._unique,
            self.move_bytes_per_second,
            self._swap_log,
        )
        self.strays = StrayLogs(
            self.directories,
            self.settings.stray_retention_ms,
            self.housekeeping.steady_now_ms,
            self.clock.seconds,
            self._unique,
            self.housekeeping.remove_trees,
        )
        self.housekeeping.remove_strays = self.strays.remove_expired
        self.creator = LogCreator(
            self.directories,
            self.get,
            self._new_log,
            self.mover.preferred,
            self.strays.take_back,
            self.mover.free_name,
            self.strays.set_remains_aside,
        )
        self.truncator = LogTruncator(self.directories, self.cleaner, self.repairer, self.clock)
        self.linker = LogLinker(
            self.directories,
            timers,
            self.cleaner,
            self.repairer,
            self.truncator,
            self._new_log,
            self.housekeeping.remove_trees_later,
            self._unique,
            self.mover.free_name,
            lambda name, reason: self.user.directory_failed([name], reason),
        )
        self.snapshots = LogSnapshots(
            self.directories,
            timers,
            self.cleaner,
            self.repairer,
            self.truncator,
            self._high_watermark_of,
            self.housekeeping.remove_trees_later,
            self._unique,
        )

    def _swap_log(self, name: TopicPartition, swap: Swap) -> Awaitable[None]:
        return self.user.swap_log(name, swap)

    def _high_watermark_of(self, log: Log) -> int:
        return self.user.high_watermark_of(log)

    def _unique(self) -> uuid.UUID:
        return uuid.UUID(int=self.jitter.getrandbits(128), version=4)

    def _new_log(self, partition: TopicPartition, disk: IDisk, directory: str) -> Log:
        return Log(
            partition,
            disk,
            directory,
            config=self.default_config,
            settings=self.settings,
            files=self.files,
            queues=self._queues[disk],
            wall_clock=self.wall_clock,
            jitter=self.jitter,
            owner=self.housekeeping,
        )

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of the logs and log directories."""
        registry.gauge(
            "logbus_offline_log_directories",
            "Log directories that failed.",
            read=lambda: len(self.offline_directories),
        )
        registry.gauge(
            "logbus_shortened_logs",
            "Logs that ended below their own checkpoints when the broker started: they lost records.",
            read=lambda: self.shortened,
        )
        for part in (self.space, self.damage, self.cleaner, self.strays):
            part.register_metrics(registry)
        registry.add_fields(self.scrubber)
        registry.add_source(self._flush_families)

    def _flush_families(self) -> Iterator[Family]:
        name = "logbus_log_flush_seconds"
        help = "How long it took until records of a log were on stable storage, by log directory."
        disks = [directory.disk for directory in self.directories]
        samples = (
            sample
            for disk in disks
            for sample in histogram_samples(name, (("directory", disk.root),), disk.flush_times.histogram)
        )
        yield Family(name, help, "histogram", samples)

    def __len__(self) -> int:
        return sum(len(directory.logs) for directory in self.directories)

    def __iter__(self) -> Iterator[Log]:
        """Every log that is online."""
        for directory in self.directories:
            if directory.is_online:
                yield from list(directory.logs.values())

    @property
    def offline_directories(self) -> list[str]:
        """The paths of the log directories that failed."""
        return [directory.disk.root for directory in self.directories if not directory.is_online]

    def get(self, partition: TopicPartition) -> Log | None:
        """A partition's log; None if this broker has none, or its directory is offline."""
        for directory in self.directories:
            log = directory.logs.get(partition)
            if log is not None and directory.is_online:
                return log
        return None

    # -- Start and stop

    @returns_deferred
    async def open(self) -> None:
        """
        Lock the directories and open every log in them, recovering those not closed cleanly.

        Nothing is deleted, and no periodic work begins, before :meth:`start_housekeeping`: the logs lack their topics'
        settings yet.

        :raises ConfigError: (as a failure) a directory is locked, belongs to another program, or two have the same
            partition.
        :raises StorageError: (as a failure) no directory works.
        """
        await open_directories(self.directories)
        for directory in self.directories:
            self.housekeeping.remove_trees(directory.disk, directory.leftovers)
            self.mover.remove_given_up(directory)
        self.strays.opened()

    @property
    def meta(self) -> MetaProperties | None:
        """The broker and cluster that the directories belong to, from ``meta.properties``; None if all are new."""
        return next((directory.meta for directory in self.directories if directory.meta is not None), None)

    @property
    def unsynced_lost(self) -> bool:
        """
        Whether a directory may have lost unsynced data: it was not closed cleanly, and the machine was restarted since.
        """
        return any(directory.unsynced_lost for directory in self.directories)

    @property
    def unclean_shutdown(self) -> bool:
        """Whether a directory that was in use before was not closed cleanly."""
        return any(directory.unclean_shutdown for directory in self.directories)

    @property
    def shortened(self) -> int:
        """Number of logs that ended below their own checkpoints when they were opened."""
        return sum(directory.shortened for directory in self.directories)

    @property
    def logs_lost(self) -> bool:
        """Whether a directory is new or missing: if it replaces another one, all logs of that are lost."""
        return self._missing > 0 or any(directory.is_new for directory in self.directories)

    @returns_deferred
    async def claim(self, broker_id: int, cluster_id: str) -> None:
        """
        Write ``meta.properties``, or compare it with what is there.

        :raises ConfigError: (as a failure) a directory belongs to another broker or cluster, or one is missing.
        """
        self._missing = await claim_directories(
            self.directories, broker_id, cluster_id, allow_missing=self.settings.allow_missing_directories
        )

    def start_housekeeping(self) -> None:
        """
        Start retention, compaction, checkpoints and expiry: the logs have their settings now, and the cluster knows
        what this broker lost.
        """
        for directory in self.directories:
            if directory.is_online:
                directory.remember_boot().addErrback(self._checkpoint_failed, directory)
                if self._missing:
                    noted = Deferred.fromCoroutine(directory.note_directories(len(self.directories)))
                    noted.addErrback(self._checkpoint_failed, directory)
        self.housekeeping.start()
        self.cleaner.start()
        self.scrubber.start()
        self.mover.resume()

    @returns_deferred
    async def close(self) -> None:
        """Sync and close all logs, and write the markers of a clean shutdown."""
        await self.snapshots.stop()
        await self.linker.stop()
        await self.scrubber.stop()
        await self.repairer.stop()
        await self.mover.stop()
        await self.cleaner.stop()
        self.housekeeping.stop()
        for log in self:
            log.high_watermark = self.user.high_watermark_of(log)
        # Stop all of them before waiting for the first.
        for closing in [Deferred.fromCoroutine(directory.close()) for directory in self.directories]:
            await closing
        # The last syncs scheduled checkpoints; the markers of a clean shutdown already contain them.
        self.housekeeping.stop()

    # -- Creating and deleting logs

    def create(
        self, partition: TopicPartition, topic_id: uuid.UUID | None = None, config: TopicConfig | None = None
    ) -> Deferred[Log]:
        """
        Create a log in the directory with the fewest logs, or return the existing one, also one that was set aside.

        The new directory is synced with the first flush of the log.

        :raises ApiError: (as a failure) INCONSISTENT_TOPIC_ID: there is a log of another topic of that name;
            KAFKA_STORAGE_ERROR: no space; INVALID_TOPIC_EXCEPTION: the name cannot be a directory's.
        :raises StorageError: (as a failure) no log directory works.
        """
        return self.creator.create(partition, topic_id, config)

    @returns_deferred
    async def delete(self, partition: TopicPartition) -> None:
        """
        Delete a log: its directory has been renamed when this fires; the files are removed after
        ``file.delete.delay.ms``. Does nothing without a log.
        """
        for directory in self.directories:
            log = directory.logs.pop(partition, None)
            if log is None or not directory.is_online:
                continue
            await log.close()
            gone = file_names.deleted_directory(partition, self._unique())
            await directory.disk.submit(IOPool.BACKGROUND, rename_for_good, directory.disk, log.directory, gone)
            self.housekeeping.remove_trees_later(directory.disk, [gone], log.config.file_delete_delay_ms)

    @returns_deferred
    async def set_aside(self, partition: TopicPartition) -> None:
        """
        Keep the log of a partition that the cluster does not know, or not on this broker, under another name for
        ``log.stray.retention.ms``; :meth:`create` finds it by the topic's id. Does nothing without a log.
        """
        if not self.settings.stray_retention_ms:
            await self.delete(partition)
            return
        for directory in self.directories:
            log = directory.logs.pop(partition, None)
            if log is not None and directory.is_online:
                await self.strays.set_aside(directory, log)

    @returns_deferred
    async def delete_records(self, partition: TopicPartition, offset: int) -> int:
        """
        Delete the records before ``offset``: fires with the log start offset once that is on stable storage.

        :raises ApiError: (as a failure) OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION; NOT_LEADER_OR_FOLLOWER: it is
            just being replaced by its copy in another log directory.
        """
        for directory in self.directories:
            log = directory.logs.get(partition)
            if log is not None and directory.is_online:
                if log.is_closed and offset > log.log_start_offset:
                    # The copy that replaces it now would bring the records back.
                    raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition}: the log is being replaced")
                if log.advance_start(offset):
                    # Also if the log has no settings of its topic yet.
                    log.saved_start_offset = None
                    await directory.save_start_offsets()
                return log.log_start_offset
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} is not on this broker")

    def _warn_of_files(self) -> None:
        self._log.warn(
            "{most} files of logs have unsynced data, as many as may be open: whoever opens another one now waits "
            "until one is synced; a higher limit on open files (ulimit -n) allows more",
            most=self.files.most,
        )

    def _checkpoint_failed(self, failure: Failure, directory: LogDirectory) -> None:
        failure.trap(ApiError, StorageError)
        self._log.warn("{root}: {error}", root=directory.disk.root, error=failure.getErrorMessage())

    def _failed(self, directory: LogDirectory, error: StorageError) -> None:
        lost = list(directory.logs)
        self._log.error("{count} logs go offline with {root}", count=len(lost), root=directory.disk.root)
        self.user.directory_failed(lost, str(error))
