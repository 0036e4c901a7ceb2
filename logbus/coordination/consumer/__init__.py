"""
A group of the consumer protocol (KIP-848): the coordinator assigns, members only send heartbeats. Pure.

======================================================== ============================================================
:mod:`~logbus.coordination.consumer.partition_sets`          sets of partitions
:mod:`~logbus.coordination.consumer.topics_view`              what a group asks about topics
:mod:`~logbus.coordination.consumer.consumer_group_member`              what a member wants, and where it is on its way
:mod:`~logbus.coordination.consumer.records`             both as records of ``__consumer_offsets``
:mod:`~logbus.coordination.consumer.recorded_state`              what the records of a group say, altered by records
    only
:mod:`~logbus.coordination.consumer.regular_expressions`         regular expressions in linear time
:mod:`~logbus.coordination.consumer.assignors`           ``uniform`` and ``range``
:mod:`~logbus.coordination.consumer.uniform_assignor`             the fair and sticky one
:mod:`~logbus.coordination.consumer.target_assignment`             from subscriptions and topics to what each is to have
:mod:`~logbus.coordination.consumer.reconciliation`      a member's next step to what it is to own
:mod:`~logbus.coordination.consumer.heartbeat`               a heartbeat, and what is wrong with one
:mod:`~logbus.coordination.consumer.join_and_leave`          members joining, coming back and leaving
:mod:`~logbus.coordination.consumer.member_deadlines`           until when each member is to be heard of
:mod:`~logbus.coordination.consumer.consumer_group`               the group
:mod:`~logbus.coordination.consumer.consumer_protocol`            what members of the classic protocol embed
:mod:`~logbus.coordination.consumer.classic_protocol_adapter`             members that still speak the classic protocol
:mod:`~logbus.coordination.consumer.migration`           from one protocol to the other
======================================================== ============================================================
"""
