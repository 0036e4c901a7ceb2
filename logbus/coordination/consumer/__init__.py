"""
A group of the consumer protocol (KIP-848): the coordinator assigns, members only send heartbeats. Pure.

======================================================== ============================================================
:mod:`~logbus.coordination.consumer.partitions`          sets of partitions
:mod:`~logbus.coordination.consumer.topics`              what a group asks about topics
:mod:`~logbus.coordination.consumer.member`              what a member wants, and where it is on its way
:mod:`~logbus.coordination.consumer.records`             both as records of ``__consumer_offsets``
:mod:`~logbus.coordination.consumer.state`               what the records of a group say, altered by records only
:mod:`~logbus.coordination.consumer.subscriptions`       which topics members want, expressions resolved
:mod:`~logbus.coordination.consumer.expressions`         regular expressions in linear time
:mod:`~logbus.coordination.consumer.assignors`           ``uniform`` and ``range``
:mod:`~logbus.coordination.consumer.uniform`             the fair and sticky one
:mod:`~logbus.coordination.consumer.reconciliation`      a member's next step to what it is to own
:mod:`~logbus.coordination.consumer.beats`               a heartbeat, and what is wrong with one
:mod:`~logbus.coordination.consumer.rebalancing`         epochs, targets and members joining and leaving
:mod:`~logbus.coordination.consumer.sessions`            until when each member is to be heard of
:mod:`~logbus.coordination.consumer.group`               the group
:mod:`~logbus.coordination.consumer.classic`             members that still speak the classic protocol
:mod:`~logbus.coordination.consumer.migration`           from one protocol to the other
======================================================== ============================================================
"""
