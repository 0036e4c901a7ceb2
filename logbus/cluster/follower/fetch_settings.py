"""
Settings and counters of the replica fetchers: values.
"""

from __future__ import annotations

from attrs import define, frozen


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

    fetches: int = 0
    bytes: int = 0
    records: int = 0
    failed_fetches: int = 0
    failed_partitions: int = 0
    corrupt_batches: int = 0
    truncations: int = 0
    committed_cut: int = 0
    refused_truncations: int = 0
