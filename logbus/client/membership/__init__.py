"""
Members of consumer groups.

::

    interface.py          what a consumer plugs in: Membership, its options, its listener, GroupMetadata, errors
    subscription.py       what a member wants to read: topics, or those whose names match an expression
    offsets.py            GroupOffsets: commit and look up offsets, with or without being a member; commits.py, pure
    coordinator.py        one group's coordinator, kept until it proves to be another
    shell.py              what both protocols have in common: the listener, the consumer's polls, commits
    missing_topics.py     tells the log of subscribed topics that do not exist
    classic.py            pure: what a member of the classic protocol does next; classic_steps.py its words
    classic_shell.py      does it: JoinGroup, SyncGroup, Heartbeat, LeaveGroup; topic_watch.py new topics and partitions
    memberdata.py         pure: what members tell each other
    assignors.py          pure: range, roundrobin; sticky.py, sticky_general.py: sticky, cooperative-sticky
    consumer_protocol.py  pure: what a member of the consumer protocol (KIP-848) does next
    consumer_shell.py     does it: ConsumerGroupHeartbeat
    failures.py           why a membership ended, and what to do

.. code-block:: python

    membership = membership_of(cluster, GroupOptions("billing"), listener)
    membership.subscribe(Subscription.of(["orders"]))
    ...                                                 # listener.on_assigned is called, and awaited
    membership.polled()                                 # each time records were asked for
    await membership.commit({TopicPartition("orders", 0): CommittedOffset(42)})
    await membership.close()
"""

from __future__ import annotations

from logbus.client.membership.group_offsets import GroupOffsets
from logbus.client.membership.interface import (
    CommitFailed,
    GroupListener,
    GroupMetadata,
    GroupOptions,
    Membership,
    MembershipFailed,
)
from logbus.client.membership.protocol_choice import membership_of
from logbus.client.membership.subscription import Subscription

__all__ = [
    "CommitFailed",
    "GroupListener",
    "GroupMetadata",
    "GroupOffsets",
    "GroupOptions",
    "Membership",
    "MembershipFailed",
    "Subscription",
    "membership_of",
]
