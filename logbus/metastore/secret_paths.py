"""
Which znodes strangers may not read when ``zookeeper.set.acl`` is on (Kafka: ZkData.sensitivePath). Pure.

Whoever adds a node that holds a secret adds its path here.
"""

from __future__ import annotations

from logbus.metastore.operations import NodeAccess
from logbus.metastore.znodes import BROKER_CONFIGS, BROKER_INCARNATIONS, BROKER_SECRET, USER_CONFIGS

SECRET_PATHS = (
    # Credentials of users, and passwords among the settings of brokers.
    USER_CONFIGS,
    BROKER_CONFIGS,
    "/delegation_token",
    # What a broker proves itself with to another one, and what identifies its process.
    BROKER_SECRET,
    BROKER_INCARNATIONS,
)
"""Of these nodes, and of all below, the content is not for everybody."""

CONSUMERS = "/consumers"
"""Consumers that coordinate through ZooKeeper write below it, and have no credentials: it stays open, as in Kafka."""


def access_of(path: str) -> NodeAccess:
    """
    The access that others have to a node of a protected cluster.

    :param path: below the chroot.
    """
    if _is_below(path, CONSUMERS):
        return NodeAccess.OPEN
    return NodeAccess.SECRET if any(_is_below(path, secret) for secret in SECRET_PATHS) else NodeAccess.READABLE


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")
