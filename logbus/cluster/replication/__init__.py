"""
This broker's replicas: logs with their roles, high watermarks and in-sync replicas, and the reads from them.

* ``replica_manager``: all replicas of this broker; takes roles from metadata updates (Kafka: ReplicaManager).
* ``replica``: one replica: its log, its role, and the requests that wait for it.
* ``record_deletion``: the offsets of DeleteRecords. Pure.
* ``replica_context``: the interface by which it knows the cluster around it. Pure.
* ``partition``: the state of a partition: high watermark, ISR, followers (Kafka: Partition). Pure.
* ``isr_change_state``: the ISR changes that the leader has asked for (KIP-497). Pure.
* ``role``: leader or follower, and the checks of requests against it. Pure.
* ``follower_state``: a follower, as its leader sees it. Pure.
* ``partition_metrics``: the metrics of single partitions.
* ``broker_topic_stats``: counts bytes and records by topic (Kafka: BrokerTopicStats).

Appends and reads:

* ``partition_fetch``: the parameters of a fetch, who fetches, and the result.
* ``replica_reader``: serves fetches of consumers and followers (Kafka: ReplicaManager.fetchMessages).
* ``partition_reader``: reads one partition for them (Kafka: Partition.fetchRecords).
* ``delayed_fetch``: those that wait for more (Kafka: DelayedFetch).
* ``replica_selector``: the replica that a consumer should fetch from (KIP-392).
* ``purgatory``: requests that wait for records, followers or a timeout (Kafka: DelayedOperationPurgatory).
* ``offset_waiters``: producers and DeleteRecords that wait for an offset.
* ``replication_throttle``: limits the rate of replication (KIP-73).

With the controller:

* ``isr_manager``: changes ISRs (Kafka: AlterPartitionManager).
* ``replica_reports``: reports incomplete and offline replicas, and log ends of partitions without a leader.
* ``replica_repair``: repairs damaged logs from other replicas.
* ``leader_fencing``: fences leaderships of a broker that is cut off.

A produced batch goes ``replica_manager`` → ``replica`` → the log; with ``acks=all`` it waits in ``offset_waiters``. A
follower's fetch goes ``replica_reader`` → ``partition_reader`` → ``partition``, which moves the high watermark; that
completes the waiting producers, and wakes the consumers in the ``purgatory``.
"""
