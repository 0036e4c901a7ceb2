"""
A group of the consumer protocol (KIP-848): the coordinator assigns, members only send heartbeats. Pure.

A heartbeat goes to ``consumer_group``, which finds or adds its member (``join_and_leave``). A changed subscription
increases the group epoch and leads to a new ``target_assignment``. Then the member takes its next step to the target
(``reconciliation``). All changes are made in ``recorded_state``, which emits their records.

* ``consumer_group``: a group (Kafka: ConsumerGroup)
* ``consumer_group_settings``: its settings
* ``heartbeat``: a heartbeat, its response, and its validation
* ``consumer_group_member``: a member, and its position on the way to its target
* ``join_and_leave``: finds, adds and replaces members
* ``recorded_state``: the state of a group that is in its records
* ``records``: the state to records and back
* ``partition_sets``: immutable sets of partitions
* ``topics_view``: the interface to the cluster's topics
* ``regular_expressions``: regular expressions in linear time
* ``target_assignment``: computes the targets of all members
* ``assignors``, ``uniform_assignor``: the assignors ``uniform`` and ``range``
* ``reconciliation``: a member's next step towards its target
* ``classic_protocol_adapter``: serves members that use the classic protocol
* ``consumer_protocol``: subscriptions and assignments that such members embed
* ``migration``: upgrade from, and downgrade to, a classic group
"""
