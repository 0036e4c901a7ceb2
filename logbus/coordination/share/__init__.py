"""
A share group (KIP-932): its members read the same partitions together, record by record. Pure.

The coordinator assigns partitions to members, which only send heartbeats. Other than in a consumer group, several
members may have a partition, and none waits for another one to give it up: a member gets its target with its next
heartbeat. Before a partition is assigned, its state is made at the share coordinator (``share_partitions``).

* ``share_group``: a group (Kafka: ShareGroup)
* ``share_group_settings``: the settings of a group
* ``heartbeat``: a heartbeat, its response, and its validation
* ``share_group_member``: a member, and what it was told
* ``recorded_state``: the state of a group that is in its records
* ``records``: the state to records and back
* ``share_partitions``: the share partitions that have a state
* ``target_assignment``: computes the targets of all members
* ``simple_assignor``: the assignor ``simple``
"""
