"""
The metrics of a broker, read from its parts when they are collected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from logbus.admin.group_lags import GroupLags
from logbus.admin.transaction_metrics import TransactionStateMetrics
from logbus.coordination.classic.classic_group_state import ClassicGroupState
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.metrics import Family, Sample
from logbus.storage.filesystem.space_monitor import SpaceMonitor
from logbus.wire.messages import API_NAMES

if TYPE_CHECKING:
    from logbus.broker import Broker


def register_broker_metrics(broker: Broker) -> None:
    """Register the metrics of the broker's parts."""
    registry = broker.registry

    def counter(name: str, help: str, read: Callable[[], float]) -> None:
        registry.counter(name, help).labels().function = read

    def gauge(name: str, help: str, read: Callable[[], float]) -> None:
        registry.gauge(name, help).labels().function = read

    net, produced, fetched = broker.net_metrics, broker.produce_handlers, broker.fetch_handlers
    gauge("logbus_connections_open", "Connections of Kafka clients.", lambda: net.connections_open)
    counter("logbus_connections_accepted_total", "Connections served.", lambda: net.connections_accepted)
    counter(
        "logbus_connections_refused_total",
        "Connections closed because there were too many.",
        lambda: net.connections_refused,
    )
    counter(
        "logbus_connections_expired_total",
        "Connections closed for being idle, or slow to complete a frame.",
        lambda: net.connections_expired,
    )
    counter("logbus_received_bytes_total", "Bytes received from Kafka clients.", lambda: net.bytes_in)
    counter("logbus_sent_bytes_total", "Bytes sent to Kafka clients.", lambda: net.bytes_out)
    gauge("logbus_requests_pending", "Requests whose answers are not ready.", lambda: net.requests_pending)
    gauge("logbus_request_memory_bytes", "Memory reserved for large requests.", lambda: net.request_memory)
    counter(
        "logbus_broken_frames_total",
        "Connections closed because of undecodable requests.",
        lambda: net.broken_frames,
    )
    counter(
        "logbus_request_failures_total", "Requests that failed because of a bug in the broker.", lambda: net.failures
    )
    counter(
        "logbus_throttled_reads_total",
        "Pauses of reading because of too many pending responses, requests or bytes.",
        lambda: net.throttled_reads,
    )
    counter(
        "logbus_cold_reads_total",
        "Responses that waited for data that was not in the page cache.",
        lambda: net.cold_reads,
    )
    counter("logbus_produced_records_total", "Records appended for producers.", lambda: produced.records)
    counter("logbus_produced_batches_total", "Batches appended for producers.", lambda: produced.batches)
    counter("logbus_produced_bytes_total", "Bytes of batches appended for producers.", lambda: produced.bytes_written)
    counter("logbus_produce_errors_total", "Batches refused.", lambda: produced.refused)
    counter("logbus_fetched_bytes_total", "Bytes of batches sent to consumers.", lambda: fetched.bytes_sent)
    gauge("logbus_fetch_sessions", "Incremental fetch sessions.", lambda: len(fetched.sessions))
    gauge("logbus_fetches_waiting", "Fetches that wait for records.", lambda: len(broker.purgatory))
    gauge("logbus_topics", "Topics of the cluster.", lambda: len(broker.metadata.topics))
    gauge("logbus_partitions", "Partitions on this broker.", lambda: len(broker.replicas))
    gauge(
        "logbus_offline_log_directories",
        "Log directories that failed.",
        lambda: len(broker.logs.offline_directories),
    )
    gauge(
        "logbus_full_log_directories",
        "Log directories that refuse writes, since there is no space.",
        lambda: len(broker.logs.space.full_directories),
    )
    gauge(
        "logbus_shortened_logs",
        "Logs that ended below their own checkpoints when the broker started: they lost records.",
        lambda: broker.logs.shortened,
    )
    registry.add_source(lambda: _space(broker.logs.space))
    damage, scrubber, repairs = broker.logs.damage, broker.logs.scrubber, broker.repairs
    gauge("logbus_damaged_segments", "Segments that are damaged, and not repaired.", lambda: damage.count)
    counter("logbus_damaged_segments_found_total", "Segments in which damage was found.", lambda: damage.found)
    counter(
        "logbus_damaged_segments_repaired_total",
        "Damaged segments replaced with data of another replica.",
        lambda: damage.repaired,
    )
    counter("logbus_repair_failures_total", "Attempts to repair a damaged log that failed.", lambda: repairs.failures)
    counter("logbus_scrub_read_bytes_total", "Bytes of segments checked for damage.", lambda: scrubber.read_bytes)
    counter("logbus_scrub_rounds_total", "Completed checks of all closed segments.", lambda: scrubber.rounds)
    cleaner = broker.logs.cleaner
    counter("logbus_cleanings_total", "Compactions of a log.", lambda: cleaner.cleanings)
    counter("logbus_cleaner_read_bytes_total", "Bytes read to compact logs.", lambda: cleaner.read_bytes)
    counter("logbus_cleaner_written_bytes_total", "Bytes of segments compacted.", lambda: cleaner.written_bytes)
    counter("logbus_cleaner_removed_records_total", "Records that compaction removed.", lambda: cleaner.removed_records)
    gauge(
        "logbus_uncleanable_partitions",
        "Partitions that cannot be compacted, and grow.",
        lambda: len(cleaner.uncleanable),
    )
    gauge(
        "logbus_cleaner_max_dirty_ratio",
        "Share of the dirtiest compacted log that is not compacted, at the last look.",
        lambda: cleaner.max_dirty_ratio,
    )
    gauge(
        "logbus_active_controller",
        "1 on the broker that is the controller.",
        lambda: int(broker.metadata.controller_id == broker.broker_id),
    )
    broker.replication.register(registry)
    groups, grouped = broker.group_coordinator, broker.group_coordinator.metrics
    registry.add_source(lambda: [_groups(groups)])
    gauge("logbus_committed_offsets", "Offsets that groups have committed.", groups.committed_count)
    gauge(
        "logbus_group_partitions_loading",
        "Partitions of __consumer_offsets that are being loaded.",
        lambda: sum(shard.loading for shard in groups.shards.values()),
    )
    counter("logbus_offset_commits_total", "Offsets committed.", lambda: grouped.commits)
    counter("logbus_offsets_expired_total", "Expired committed offsets.", lambda: grouped.expired)
    counter("logbus_group_loads_total", "Loaded partitions of __consumer_offsets.", lambda: grouped.loads)
    counter(
        "logbus_group_load_seconds_total",
        "Time spent loading partitions of __consumer_offsets.",
        lambda: grouped.load_seconds,
    )
    counter(
        "logbus_group_records_damaged_total",
        "Damaged records skipped while loading __consumer_offsets.",
        lambda: grouped.damaged,
    )
    registry.add_source(GroupLags(groups, broker.replicas).families)
    TransactionStateMetrics(broker.transactions, broker.replicas).register(registry)
    requests = registry.counter("logbus_requests_total", "Requests by API.", ("api",))
    for key in broker.router.served:
        requests.labels(api=API_NAMES[key]).function = lambda key=key: broker.router.counts[key]


def _space(monitor: SpaceMonitor) -> list[Family]:
    """Return the space of each log directory, as last measured."""
    measured = [(root, state.space) for root, state in monitor.states.items() if state.space is not None]
    free, total = "logbus_log_directory_free_bytes", "logbus_log_directory_size_bytes"
    return [
        Family(
            free,
            "Free space of the file system that a log directory is on.",
            "gauge",
            (Sample(free, (("directory", root),), space.usable_bytes) for root, space in measured),
        ),
        Family(
            total,
            "Size of the file system that a log directory is on.",
            "gauge",
            (Sample(total, (("directory", root),), space.total_bytes) for root, space in measured),
        ),
    ]


def _groups(coordinator: GroupCoordinator) -> Family:
    """Return the number of groups by state, including common states without groups."""
    usual = {state.value: 0 for state in ClassicGroupState if state is not ClassicGroupState.DEAD}
    counted = {**usual, **coordinator.states()}
    samples = (Sample("logbus_groups", (("state", state),), count) for state, count in counted.items())
    return Family("logbus_groups", "Groups that this broker coordinates, by state.", "gauge", samples)
