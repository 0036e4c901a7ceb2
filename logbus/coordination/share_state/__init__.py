"""
The share coordinator (KIP-932): which records of a share partition were delivered how often, and are done.

A share partition is one partition of a topic as one share group reads it. Its leader keeps what happens to its records
in memory, and has the share coordinator write it down, so that the next leader goes on from there.

The state:

* ``share_state``: the state of a share partition, as a value (pure)
* ``batch_merge``: merges changed batches into those of a state (pure)
* ``recorded_state``: decides which record is written, and applies it (pure)
* ``share_state_records``: records of ``__share_group_state``, and back (pure)

The coordinator:

* ``share_coordinator``: the share partitions of this broker
* ``share_state_shard``: a partition of ``__share_group_state`` with its share partitions
* ``share_state_loader``: loads a shard
* ``share_state_upkeep``: deletes records that are not needed any more, and states of deleted topics

Its users:

* ``persister``: reads and writes the states at their coordinator, on whichever broker that is
* ``persister_queue``: sends calls to another broker, several in a request
* ``share_state_calls``: the calls as values, and as requests between brokers (pure)
"""
