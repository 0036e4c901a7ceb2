"""Checks what tests give brokers and clusters: each wrong value is one line that says what would be right."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from logbus.client import validators as check
from logbus.client.validators import InvalidOption, shown


def settings_of(kind: str) -> str:
    """Where the settings go of a broker or cluster, for those who give them as the marker has them."""
    return f"settings are a dict: {kind}(config={{'num.partitions': 3}})"


def broker_arguments(users: object, data_dir: object, timeout: object, as_version: object, **flags: object) -> None:
    """
    Check those of a broker.

    :raises InvalidOption: one is wrong.
    """
    check.seconds("timeout", timeout, positive=True)
    for name, value in flags.items():
        check.flag(name, value)
    if data_dir is not None and not isinstance(data_dir, (str, os.PathLike)):
        raise InvalidOption(f"data_dir is {shown(data_dir)}; it is a path, or None")
    _release(as_version)
    if users is None:
        return
    if not isinstance(users, Mapping):
        raise InvalidOption(f"users is {shown(users)}; it is a dict of passwords by name, such as {{'bob': 'secret'}}")
    for name, password in users.items():
        check.text("a name of users", name)
        if not isinstance(password, str):
            raise InvalidOption(f"users: the password of {name} is {shown(password)}; it is a text")


def not_placed(config: Mapping[str, object]) -> None:
    """
    Refuse settings that say where to listen.

    :raises InvalidOption: there is one.
    """
    if "listeners" in config:
        raise InvalidOption(
            "config: listeners is not for a broker of tests, which listens on free ports of 127.0.0.1; for others give "
            "placement=Placement(...), of logbus.testing.placement"
        )


def _release(as_version: object) -> None:
    """
    Check the release of Kafka whose API versions a broker has.

    :raises InvalidOption: it is no text.
    :raises ConfigError: it is none of those that are known.
    """
    if as_version is not None and not isinstance(as_version, str):
        raise InvalidOption(f"as_version is {shown(as_version)}; it is a text such as '3.9', or None")
    if as_version is not None:
        from logbus.wire.kafka_releases import release_table

        release_table(as_version)


def cluster_arguments(brokers: object, racks: object, timeout: object, as_version: object = None) -> None:
    """
    Check those of a cluster.

    :raises InvalidOption: one is wrong.
    """
    check.integer("brokers", brokers, 1, 100)
    _release(as_version)
    check.seconds("timeout", timeout, positive=True)
    if racks is None:
        return
    if isinstance(racks, (str, bytes)) or not isinstance(racks, Sequence):
        raise InvalidOption(f"racks is {shown(racks)}; it is a list with the rack of each broker")
    if len(racks) != brokers:
        raise InvalidOption(f"racks has {len(racks)} racks for {brokers} brokers; it is a list with the rack of each")


def ensemble_size(zookeepers: object) -> None:
    """
    Check the number of ZooKeeper servers.

    :raises InvalidOption: it is even: a majority of two is two, so that the loss of either ends both.
    """
    check.integer("zookeepers", zookeepers, 1, 9)
    if isinstance(zookeepers, int) and not zookeepers % 2:
        raise InvalidOption(
            f"zookeepers is {zookeepers}; it is an odd number from 1 to 9: {zookeepers} survive no more losses than "
            f"{zookeepers - 1}"
        )
