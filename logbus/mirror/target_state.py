"""Tells whether a target knows less than it did."""

from __future__ import annotations

from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import Cluster
from logbus.client.producer.idempotence import ProducerId
from logbus.errors import ApiError, ErrorCode, LogbusError


class TargetSetBack(LogbusError):
    """The target knows less than it did: a new session finds out what."""


async def is_set_back(target: Cluster, transactional_id: str, ours: ProducerId | None) -> bool:
    """
    Whether a producer is fenced since its coordinator has forgotten it, rather than since there is a newer one.

    :param ours: the producer's id and epoch.
    """
    try:
        theirs = (await AdminClient(target).describe_transactions([transactional_id]))[transactional_id]
    except LogbusError:
        return False
    if ours is None or isinstance(theirs, ApiError):
        return isinstance(theirs, ApiError) and theirs.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    return (theirs.producer_id, theirs.producer_epoch) < ours
