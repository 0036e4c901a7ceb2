"""
The logs on a broker's disks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from logbus.broker.environment import Environment
from logbus.config import keys
from logbus.settings import cleaner_settings, scrub_settings, storage_settings
from logbus.storage.delete_policy import delete_policy
from logbus.storage.filesystem.disk import disks_at
from logbus.storage.istorage import IDisk
from logbus.storage.log_manager import LogManager


def log_manager(env: Environment, disks: Sequence[IDisk] | None) -> LogManager:
    """
    Build the manager of the logs.

    :param disks: the log directories; None: those of the configuration.
    """
    config = env.config
    if disks is None:
        directories = config.get(keys.LOG_DIRS)
        disks = disks_at(list(directories), env.reactor)
    logs = LogManager(
        disks,
        env.reactor,
        env.wall_clock,
        settings=storage_settings(config),
        cleaner_settings=partial(cleaner_settings, config),
        scrub_settings=partial(scrub_settings, config),
        move_bytes_per_second=lambda: config.get(keys.REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND),
        policy=delete_policy(config.get(keys.LOG_DELETE_POLICY)),
        jitter=env.random,
    )
    logs.register_metrics(env.registry)
    return logs
