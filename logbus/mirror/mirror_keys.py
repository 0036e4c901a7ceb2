"""
The options of a mirror from the values of its keys, which a broker's configuration has and ``logbus mirror`` takes as
options. Pure.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from logbus.config import keys
from logbus.config.config_key import ConfigKey
from logbus.errors import ConfigError
from logbus.mirror.mirror_options import MirrorOptions, check_alias, check_aliases
from logbus.mirror.name_filter import GROUPS_EXCLUDED, TOPICS_EXCLUDED, NameFilter
from logbus.mirror.replication_policy import Naming

T = TypeVar("T")


class MirrorSettings(Protocol):
    """Values of keys, and under which names they were given."""

    def get(self, key: ConfigKey[T]) -> T:
        """Return a value."""

    def name_of(self, key: ConfigKey[T]) -> str:
        """Return its name, for errors."""


def mirror_options(
    settings: MirrorSettings, *, flow: str | None = None, until_end: bool = False, of_broker: bool = False
) -> MirrorOptions:
    """
    Make the options.

    :param flow: the mirror's name, if there are several between two clusters.
    :param until_end: as of :class:`.MirrorOptions`, likewise ``of_broker``.
    :raises ConfigError: a value is wrong; names its key.
    """
    get = settings.get
    source, target = get(keys.MIRROR_SOURCE_NAME), get(keys.MIRROR_TARGET_NAME)
    source_key, target_key = settings.name_of(keys.MIRROR_SOURCE_NAME), settings.name_of(keys.MIRROR_TARGET_NAME)
    check_alias(source_key, source)
    check_alias(target_key, target)
    check_aliases(source, target, f"{source_key} and {target_key}")
    return MirrorOptions(
        source=source,
        target=target,
        name=flow,
        naming=Naming(get(keys.MIRROR_NAMING)),
        topics=_names(settings, keys.MIRROR_TOPICS, keys.MIRROR_TOPICS_EXCLUDE, TOPICS_EXCLUDED),
        groups=_names(
            settings,
            keys.MIRROR_GROUPS,
            keys.MIRROR_GROUPS_EXCLUDE,
            () if get(keys.MIRROR_GROUPS) else GROUPS_EXCLUDED,
        ),
        sync_groups=get(keys.MIRROR_SYNC_GROUPS),
        sync_settings=get(keys.MIRROR_SYNC_SETTINGS),
        sync_acls=get(keys.MIRROR_SYNC_ACLS),
        start="latest" if get(keys.MIRROR_START) == "latest" else "earliest",
        on_recreated="continue" if get(keys.MIRROR_ON_RECREATED) == "continue" else "stop",
        on_too_large="skip" if get(keys.MIRROR_ON_TOO_LARGE) == "skip" else "stop",
        replication_factor=get(keys.MIRROR_REPLICATION_FACTOR) or None,
        rate=get(keys.MIRROR_RATE) or None,
        interval=get(keys.MIRROR_INTERVAL_SECONDS),
        refresh_interval=get(keys.MIRROR_REFRESH_INTERVAL_SECONDS),
        checkpoint_interval=get(keys.MIRROR_CHECKPOINT_INTERVAL_SECONDS),
        heartbeat_interval=get(keys.MIRROR_HEARTBEAT_INTERVAL_SECONDS),
        until_end=until_end,
        of_broker=of_broker,
    )


def _names(
    settings: MirrorSettings,
    include: ConfigKey[tuple[str, ...]],
    exclude: ConfigKey[tuple[str, ...]],
    always_excluded: tuple[str, ...],
) -> NameFilter:
    wanted, unwanted = settings.get(include), settings.get(exclude)
    for key, given in ((include, wanted), (exclude, unwanted)):
        try:
            NameFilter(given)
        except ConfigError as e:
            raise ConfigError(f"{settings.name_of(key)}: {e}") from None
    return NameFilter(wanted or (".*",), (*always_excluded, *unwanted))
