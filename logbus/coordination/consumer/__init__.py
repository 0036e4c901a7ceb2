"""
A group of the consumer protocol (KIP-848): the coordinator assigns, members only send heartbeats. Pure.

======================================================== ============================================================
:mod:`~logbus.coordination.consumer.partitions`          sets of partitions
:mod:`~logbus.coordination.consumer.topics`              what a group asks about topics
:mod:`~logbus.coordination.consumer.member`              what a member wants, and where it is on its way
:mod:`~logbus.coordination.consumer.records`             both as records of ``__consumer_offsets``
:mod:`~logbus.coordination.consumer.ledger`              what the records of a group say, altered by records only
:mod:`~logbus.coordination.consumer.expressions`         regular expressions in linear time
:mod:`~logbus.coordination.consumer.assignors`           ``uniform`` and ``range``
:mod:`~logbus.coordination.consumer.uniform`             the fair and sticky one
:mod:`~logbus.coordination.consumer.targets`             from subscriptions and topics to what each is to have
:mod:`~logbus.coordination.consumer.reconciliation`      a member's next step to what it is to own
:mod:`~logbus.coordination.consumer.beats`               a heartbeat, and what is wrong with one
:mod:`~logbus.coordination.consumer.membership`          members joining, coming back and leaving
:mod:`~logbus.coordination.consumer.deadlines`           until when each member is to be heard of
:mod:`~logbus.coordination.consumer.group`               the group
:mod:`~logbus.coordination.consumer.embedded`            what members of the classic protocol embed
:mod:`~logbus.coordination.consumer.classic`             members that still speak the classic protocol
:mod:`~logbus.coordination.consumer.migration`           from one protocol to the other
======================================================== ============================================================
"""
