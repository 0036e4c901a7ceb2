"""
A streams group (KIP-1071): the members of a Kafka Streams application, to which the coordinator assigns tasks. Pure.

The members bring a topology: subtopologies with their source topics, repartition topics and changelog topics. Each
subtopology is as many tasks as its source topics have partitions.

A heartbeat goes to ``streams_group``, which finds or adds its member (``join_and_leave``). Changed members, topics or
settings increase the group epoch and lead to a new ``target_assignment``. Then the member takes its next step to the
target (``reconciliation``). All changes are made in ``recorded_state``, which emits their records.

* ``streams_group``: a group (Kafka: StreamsGroup)
* ``streams_group_settings``: its settings
* ``heartbeat``: a heartbeat, its response, and its validation
* ``streams_group_member``: a member, and its position on the way to its target
* ``join_and_leave``: finds and adds members
* ``recorded_state``: the state of a group that is in its records
* ``records``: the state to records and back
* ``wire_topology``: the topology to messages and back
* ``topology``: what the application reads and writes
* ``tasks``: immutable sets of tasks
* ``target_assignment``: computes the targets of all members
* ``configured_topology``: numbers of partitions and tasks for it, and which topics are missing
* ``sticky_assignor``: the assignor ``sticky``
* ``reconciliation``: a member's next step towards its target
* ``endpoints``: the partitions whose state each process has
* ``status``: what responses say of the group's state
"""
