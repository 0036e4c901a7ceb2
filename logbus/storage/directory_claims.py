"""
Tells by ``meta.properties`` whether the log directories are those of this broker, and all of them.

A disk that is not mounted looks like a new directory. A broker that took it for one would begin its partitions anew,
and find two logs of each when the disk is back.
"""

from __future__ import annotations

from collections.abc import Sequence

from logbus.errors import ConfigError
from logbus.storage.checkpoints import MetaProperties
from logbus.storage.log_directory import LogDirectory


async def claim_directories(
    directories: Sequence[LogDirectory], broker_id: int, cluster_id: str, *, allow_missing: bool
) -> int:
    """
    Check that the directories are those of a broker, and note in all of them how many there are. If some are missing,
    the former number stays until the cluster knows what was lost: a start after a crash before that says it again.

    :param allow_missing: whether the broker may do without directories that it had.
    :returns: how many directories that it had are missing.
    :raises ConfigError: a directory is another broker's, or of another cluster; or directories are missing.
    """
    for each in directories:
        if each.meta is not None and (each.meta.broker_id, each.meta.cluster_id) != (broker_id, cluster_id):
            raise ConfigError(
                f"{each.disk.root} belongs to broker {each.meta.broker_id} of cluster {each.meta.cluster_id}, not to "
                f"broker {broker_id} of cluster {cluster_id}: set broker.id and log.dirs to what belongs together"
            )
    missing = _missing(directories)
    if missing and not allow_missing:
        raise ConfigError(_said_of(missing, directories))
    meta = MetaProperties(broker_id, cluster_id, max(_had(directories), len(directories)))
    # The new ones first: after a crash in between, none of those that are noted to be there is missing.
    for each in sorted(directories, key=lambda each: each.meta is not None):
        if each.is_online:
            await each.claim(meta)
    return missing


def _had(directories: Sequence[LogDirectory]) -> int:
    return max((each.meta.directories for each in directories if each.meta is not None), default=0)


def _missing(directories: Sequence[LogDirectory]) -> int:
    """How many directories the broker had that are not among these; a directory whose disk fails is there."""
    return max(0, _had(directories) - sum(each.meta is not None or not each.is_online for each in directories))


def _said_of(missing: int, directories: Sequence[LogDirectory]) -> str:
    new = [each.disk.root for each in directories if each.meta is None and each.is_online]
    what = f"{missing} log director{'y' if missing == 1 else 'ies'} that this broker had "
    if new:
        what += (
            f"{'is' if missing == 1 else 'are'} missing, and {', '.join(new)} {'is' if len(new) == 1 else 'are'} new"
        )
        advice = "is a disk not mounted?"
    else:
        what += f"{'is' if missing == 1 else 'are'} not in the list"
        advice = "name all of them."
    return (
        f"log.dirs: {what}: {advice} With log.dirs.allow.missing=true the broker starts without: partitions that were "
        "there begin without records, or are copied from other replicas"
    )
