"""
The coordinators of consumer groups and transactions (Kafka: org.apache.kafka.coordinator), and the state of groups.

A request goes from a handler to a coordinator, which finds the shard of the group. The group decides, and emits its
changes; the shard appends them to its partition of ``__consumer_offsets``; the client is answered when they are
durable. A broker that becomes the leader of a partition reads its records back, and goes on from there.

Groups of either protocol:

* ``group``: the interface of a group (Kafka: Group), which emits changes (pure)
* ``classic``: groups of the classic protocol (a package, pure)
* ``consumer``: groups of the consumer protocol, KIP-848 (a package, pure)
* ``share``: share groups, KIP-932 (a package, pure)
* ``streams``: streams groups, KIP-1071 (a package, pure)
* ``assignment_interval``: when partitions or tasks may be assigned anew (pure)
* ``assignment_epochs``: since when a member has them, and which commits are too old (pure)
* ``modern_group``: what groups of the last three kinds have in common (pure)
* ``modern_heartbeat``: saves the changes that a heartbeat makes to one of these
* ``recorded_group``: and what is the same in their recorded states (pure)
* ``recorded_changes``: changes of a group's state that can be undone (pure)
* ``member_deadlines``: session timeouts and revocation timeouts (pure)
* ``group_coordinator``: the groups of this broker, by partition, with leadership
* ``group_metadata_manager``: creates groups, writes their records, and keeps their timers
* ``consumer_group_service``: heartbeats of the consumer protocol, and the upgrade of classic groups
* ``share_group_service``: heartbeats of share groups
* ``share_group_states``: makes and deletes the states of their partitions
* ``share_group_offsets``: describes, sets and deletes their start offsets
* ``streams_group_service``: heartbeats of streams groups
* ``streams_internal_topics``: creates the topics that their applications need
* ``metadata_topics``: the cluster's topics, as groups of these protocols see them
* ``group_settings``: settings of groups, from the configuration
* ``limit``, ``member_memory``: limits of what clients can create, and of the memory of members
* ``member_ids``: generates member ids (pure)
* ``generation_log``: logs new generations and epochs

Committed offsets:

* ``committed_offset``: a committed offset, as a value and as a record (pure)
* ``group_offsets``: the committed offsets of a group, and their expiration (pure)
* ``deleted_topics``: which offsets of deleted topics are still to be removed (pure)
* ``pending_offsets``: the offsets of open transactions (pure)
* ``unreplicated_offsets``: the changes that not all in-sync replicas have yet (pure)
* ``offset_commits``: OffsetCommit
* ``txn_offset_commits``: TxnOffsetCommit
* ``offset_target``: the target of an offset reset, and the offset it gives (pure)
* ``group_lags``: the lags of groups, also as metrics
* ``group_lag_history``: these over the last hour
* ``remote_end_offsets``: the ends of other brokers' partitions, for these lags
* ``group_cleanup``: removes expired offsets, offsets of deleted topics, and groups

The log of groups:

* ``coordinator_partition``: maps a group or transactional id to a partition (pure)
* ``coordinator_runtime``: shards, their leadership, and looking them up, for all coordinators
* ``periodic_scan``: scans what a coordinator has, again and again
* ``group_shard``: a partition of ``__consumer_offsets`` with its groups
* ``group_records``: changes to records and back (pure)
* ``group_loader``, ``group_replay``: load a shard, and restore its groups from records
* ``state_log``, ``state_log_reader``: append to a partition of an internal topic, and read it back

Transactions:

* ``transactions``: the transaction coordinator (a package)
* ``internal_topics``: creates ``__consumer_offsets``, ``__transaction_state`` and others on first use

Share groups:

* ``share_state``: the share coordinator, which keeps what was delivered (a package)
"""
