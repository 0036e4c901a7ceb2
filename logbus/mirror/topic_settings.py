"""Which settings of topics are copied, and what differs (Kafka: ConfigPropertyFilter). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from logbus.client.admin.config_admin import ConfigEntry, ConfigSource

NOT_COPIED = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)
"""Settings that are about a cluster's brokers, or would have the target change or refuse the source's timestamps."""


def copied_settings(entries: Iterable[ConfigEntry]) -> dict[str, str]:
    """The settings of a source's topic that its copy gets: those that were set for the topic."""
    return {
        each.name: each.value
        for each in entries
        if each.source is ConfigSource.TOPIC and each.value is not None and each.name not in NOT_COPIED
    }


def changed_settings(wanted: Mapping[str, str], entries: Iterable[ConfigEntry]) -> dict[str, str | None]:
    """
    The changes to make in a copy's settings.

    :param wanted: the result of :func:`copied_settings`.
    :param entries: the copy's.
    :returns: new values; None: back to the default, since the source has none any more.
    """
    present = copied_settings(entries)
    changes: dict[str, str | None] = {
        name: value for name, value in wanted.items() if present.get(name) != value and name not in NOT_COPIED
    }
    changes.update((name, None) for name in present if name not in wanted)
    return changes
