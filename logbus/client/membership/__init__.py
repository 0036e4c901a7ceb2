"""
Memberships in consumer groups, in the classic protocol and that of KIP-848.

Used by consumers:

* ``interface``: GroupOptions, GroupArguments, GroupListener, and errors
* ``subscription``: Subscription: topics by name or by regular expression
* ``protocol_choice``: makes a membership of either protocol
* ``group_offsets``: GroupOffsets: commits and fetches offsets, also without a membership

Both protocols:

* ``base_membership``: Membership: starts and ends, calls the listener
* ``member_commits``: MemberCommits: commits as the current member, across rebalances
* ``poll_watch``: PollWatch: notices that the application does not poll
* ``actions``: the actions that the state machines return; pure
* ``group_coordinator_client``: requests to the group's coordinator
* ``offset_requests``: OffsetCommit and OffsetFetch; pure
* ``missing_topics``: logs subscribed topics that do not exist
* ``failures``: error messages with advice

The classic protocol:

* ``classic_membership``: sends JoinGroup, SyncGroup, Heartbeat, LeaveGroup
* ``classic_state_machine``, ``classic_states``: the states of a member; pure
* ``topic_watch``: detects topic changes that require a rebalance
* ``classic_codec``: encodes subscriptions and assignments; pure
* ``assignors``: the assignors by name; pure
* ``range_assignor``, ``sticky_assignor``, ``sticky_general_assignment``: how they assign partitions; pure
* ``racks``: racks of members and replicas (KIP-881); pure

The consumer protocol (KIP-848):

* ``consumer_membership``: sends ConsumerGroupHeartbeat
* ``consumer_state_machine``: the states of a member; pure

A response of the coordinator goes to the state machine, which returns actions: requests to send, or calls of the
listener. The membership executes them and reports the results to the state machine.

.. code-block:: python

    membership = membership_of(cluster, GroupOptions("billing"), listener)
    membership.subscribe(Subscription.of(["orders"]))
    ...                                                 # listener.on_assigned is called, and awaited
    membership.polled()                                 # each time records were asked for
    await membership.commit({TopicPartition("orders", 0): CommittedOffset(42)})
    await membership.close()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from logbus.client.membership.interface import (
    CommitFailed,
    GroupArguments,
    GroupListener,
    GroupMetadata,
    GroupOptions,
    MembershipFailed,
)
from logbus.client.membership.subscription import Subscription

if TYPE_CHECKING:
    from logbus.client.membership.base_membership import Membership
    from logbus.client.membership.group_offsets import GroupOffsets
    from logbus.client.membership.protocol_choice import membership_of

__all__ = [
    "CommitFailed",
    "GroupArguments",
    "GroupListener",
    "GroupMetadata",
    "GroupOffsets",
    "GroupOptions",
    "Membership",
    "MembershipFailed",
    "Subscription",
    "membership_of",
]

_MODULES = {"GroupOffsets": "group_offsets", "Membership": "base_membership", "membership_of": "protocol_choice"}


def __getattr__(name: str) -> object:
    """Import what only members need at first use, so that others start faster."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
