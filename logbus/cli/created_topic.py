"""Creates the topic that a command sends to, if it is asked to, and says so."""

from __future__ import annotations

import click

from logbus.client.admin.admin_client import AdminClient, NewTopic
from logbus.client.cluster.cluster import Cluster
from logbus.errors import ApiError, ErrorCode

_NOT_SO = (ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.UNSUPPORTED_VERSION)
"""What brokers before 2.4 answer, which have no defaults for topics that clients create."""


async def create_if_absent(cluster: Cluster, name: str) -> None:
    """
    Create a topic with the cluster's defaults, unless it is there; whether brokers create topics by themselves does not
    matter.

    :raises ApiError: it cannot be created.
    """
    try:
        await cluster.topic(name)
    except ApiError as e:
        if e.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    else:
        return
    error = (await AdminClient(cluster).create_topics([NewTopic(name)]))[name]
    if error is not None and error.code in _NOT_SO:
        await cluster.topic(name, create=True)
    elif error is not None:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise error
        return
    # On standard error, since standard output may have a summary in JSON.
    click.echo(f"Created topic {name}.", err=True)
