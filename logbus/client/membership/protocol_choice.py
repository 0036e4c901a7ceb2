"""Chooses between the classic and the consumer protocol."""

from __future__ import annotations

from logbus.client.cluster.cluster import Cluster
from logbus.client.membership.base_membership import Membership
from logbus.client.membership.interface import GroupListener, GroupOptions


def membership_of(cluster: Cluster, options: GroupOptions, listener: GroupListener) -> Membership:
    """
    A membership that is not active yet: :meth:`.Membership.subscribe` starts it.

    :raise ConfigError: an assignor is not known.
    """
    if options.group_protocol == "consumer":
        from logbus.client.membership.consumer_membership import ConsumerMembership

        return ConsumerMembership(cluster, options, listener)
    from logbus.client.membership.classic_membership import ClassicMembership

    return ClassicMembership(cluster, options, listener)
