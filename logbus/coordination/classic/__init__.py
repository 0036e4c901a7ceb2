"""
A group of the classic protocol, as a pure state machine (Kafka: ClassicGroup; KIP-345, KIP-394, KIP-814).

A request goes to ``classic_group``, which checks it. ``group_join`` or ``rebalance`` change the members and the state.
Responses and records wait in ``response_queue`` until the group is in its new state.

* ``classic_group``: a group, with a method for each request
* ``classic_group_state``: its states and the transitions between them
* ``requests``: requests and responses, independent of their versions
* ``group_join``: JoinGroup
* ``rebalance``: moves a group from one generation to the next
* ``group_metadata``: the state, the generation and the record of a group
* ``group_roster``: members with their sessions and waiting requests
* ``members``: the members, their leader, and the protocols they share
* ``member_sessions``: session timeouts
* ``subscriptions``: the topics that members are subscribed to
* ``response_queue``: responses and record writes that wait for the new state
"""
