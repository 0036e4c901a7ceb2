"""
Settings and counters of the replica fetchers: values.
"""

from __future__ import annotations

from attrs import define, frozen

from logbus.metrics import metric


@frozen
class ReplicaFetchSettings:
    """
    Settings of replica fetchers (``replica.fetch.*``, ``replica.socket.timeout.ms``).

    :ivar max_bytes: of one partition, several times as much where few are busy; ``response_max_bytes``: of an answer.
    :ivar backoff: the longest pause after a failure, in seconds.
    :ivar timeout: for an answer, in seconds, besides the time that the leader waits for records.
    """

    min_bytes: int = 1
    wait_max_ms: int = 500
    max_bytes: int = 1 << 20
    response_max_bytes: int = 10 << 20
    backoff: float = 1.0
    timeout: float = 30.0


@define(eq=False)
class ReplicaFetchCounters:
    """
    Counts of fetches and their outcomes, since the start.

    :ivar failed_fetches: as a whole; ``failed_partitions``: answers that were an error, or of no use.
    :ivar corrupt_batches: that a leader sent, and that were not appended.
    :ivar truncations: of logs; ``committed_cut``: those of them that took committed records, after unclean elections.
    :ivar refused_truncations: that would have taken committed records without an unclean election.
    """

    fetches: int = metric("logbus_replica_fetches_total", "Fetches from leaders.")
    bytes: int = metric("logbus_replica_fetched_bytes_total", "Bytes fetched from leaders and appended.")
    records: int = metric("logbus_replica_fetched_records_total", "Records fetched from leaders and appended.")
    failed_fetches: int = metric("logbus_replica_fetch_failures_total", "Fetches from leaders that failed as a whole.")
    failed_partitions: int = metric(
        "logbus_replica_partition_failures_total", "Errors and unusable responses of leaders for a partition."
    )
    corrupt_batches: int = metric(
        "logbus_replica_corrupt_batches_total", "Damaged batches received from a leader, which were not appended."
    )
    truncations: int = metric("logbus_replica_truncations_total", "Truncations of logs to match a leader's.")
    committed_cut: int = metric(
        "logbus_replica_committed_truncations_total",
        "Truncations that removed committed records, after unclean elections.",
    )
    refused_truncations: int = metric(
        "logbus_replica_refused_truncations_total",
        "Truncations refused since they would have removed committed records without an unclean election.",
    )
