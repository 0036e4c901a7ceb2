"""
The follower's side of replication: fetching from leaders, and truncation where the logs differ.

* ``replica_fetcher_manager``: runs a fetcher for each leading broker (Kafka: ReplicaFetcherManager).
* ``replica_fetcher``: fetches the partitions that one broker leads, in a loop (Kafka: ReplicaFetcherThread).
* ``followed_partitions``: the fetch positions of these, and the handling of their answers.
* ``partition_fetch_state``: one of them.
* ``fetch_session_handler``: the incremental fetch session with a leader (KIP-227). Pure.
* ``divergence``: decides how to truncate a log that diverges from the leader's (KIP-101, KIP-595). Pure.
* ``truncator``: truncates logs, while other partitions go on.
* ``tier_state_machine``: begins logs behind what only remote storage has (KIP-405; Kafka: TierStateMachine).
* ``fetch_settings``: settings and counters.
* ``sibling_copies``: new replicas begin with linked copies of logs of other workers of this machine.

A fetch goes ``replica_fetcher`` → the leader's broker; ``followed_partitions`` has its answer appended by
``Replica.follow``, or ``divergence`` decides and ``truncator`` truncates the log.
"""
