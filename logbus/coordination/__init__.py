"""
What a broker coordinates for clients: consumer groups and the offsets they commit, and transactions.

=============================================== =====================================================================
:mod:`~logbus.coordination.group`               a group of the classic protocol: a pure, table-driven state machine
:mod:`~logbus.coordination.consumer`            a group of the consumer protocol (KIP-848), pure too
:mod:`~logbus.coordination.offsets`             what one group has committed, and when that expires (pure)
:mod:`~logbus.coordination.pending`             what transactions that are open have committed for it (pure)
:mod:`~logbus.coordination.records`             states as records of ``__consumer_offsets``, and back (pure)
:mod:`~logbus.coordination.placement`           which partition, and so which broker, coordinates a group (pure)
:mod:`~logbus.coordination.statelog`            appends to, and loading from, one partition of an internal topic
:mod:`~logbus.coordination.reading`             reading it back: records, and how transactions ended
:mod:`~logbus.coordination.shard`               one partition with its groups: what is appended is in force
:mod:`~logbus.coordination.replay`              from the records of a partition back to its groups
:mod:`~logbus.coordination.loading`             the same, in slices between which others are served
:mod:`~logbus.coordination.groups`              the coordinator: groups by partition, leadership, deadlines
:mod:`~logbus.coordination.commits`             who may commit, and where it goes
:mod:`~logbus.coordination.upkeep`              how offsets and groups go: age, deletion, the end of a topic
:mod:`~logbus.coordination.transactions`        transactional ids, and how transactions come about
:mod:`~logbus.coordination.internaltopics`      the topics that brokers keep state in, made when they are needed
=============================================== =====================================================================

The state of a group is what its records say: a change is appended first and is in force then; a broker that takes over
a partition of ``__consumer_offsets`` reads it from the start and goes on.
"""
