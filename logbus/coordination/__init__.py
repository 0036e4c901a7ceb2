"""
What a broker coordinates for clients: consumer groups and the offsets they commit, and transactions.

=============================================== =====================================================================
:mod:`~logbus.coordination.classic.classic_group`               a group of the classic protocol: a pure, table-driven
    state machine
:mod:`~logbus.coordination.consumer`            a group of the consumer protocol (KIP-848), pure too
:mod:`~logbus.coordination.group_offsets`             what one group has committed, and when that expires (pure)
:mod:`~logbus.coordination.pending_offsets`             what transactions that are open have committed for it (pure)
:mod:`~logbus.coordination.group_records`             states as records of ``__consumer_offsets``, and back (pure)
:mod:`~logbus.coordination.coordinator_partition`           which partition, and so which broker, coordinates a group
    (pure)
:mod:`~logbus.coordination.state_log`            appends to, and loading from, one partition of an internal topic
:mod:`~logbus.coordination.state_log_reader`             reading it back: records, and how transactions ended
:mod:`~logbus.coordination.group_shard`               one partition with its groups: what is appended is in force
:mod:`~logbus.coordination.group_replay`              from the records of a partition back to its groups
:mod:`~logbus.coordination.group_loader`             the same, in slices between which others are served
:mod:`~logbus.coordination.group_coordinator`              the coordinator: groups by partition, leadership, deadlines
:mod:`~logbus.coordination.offset_commits`             who may commit, and where it goes
:mod:`~logbus.coordination.group_cleanup`              how offsets and groups go: age, deletion, the end of a topic
:mod:`~logbus.coordination.transactions`        transactional ids, and how transactions come about
:mod:`~logbus.coordination.internal_topics`      the topics that brokers keep state in, made when they are needed
=============================================== =====================================================================

The state of a group is what its records say: a change is appended first and is in force then; a broker that takes over
a partition of ``__consumer_offsets`` reads it from the start and goes on.
"""
