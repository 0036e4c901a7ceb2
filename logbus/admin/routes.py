"""
All routes of an admin listener.

A module of its own, as are the views that it imports: they are imported when a client or another broker first asks for
something, so that a broker starts faster and an unused listener costs no memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from logbus.admin.acls import AclViews
from logbus.admin.broker_history import HistoryViews
from logbus.admin.cluster import ClusterViews
from logbus.admin.cluster_health import ClusterHealthViews
from logbus.admin.condition_watch import ConditionWatch
from logbus.admin.conditions import ConditionViews
from logbus.admin.configs import ConfigViews
from logbus.admin.group_changes import GroupChangeViews
from logbus.admin.groups import GroupViews
from logbus.admin.hanging_transactions import HangingTransactionViews
from logbus.admin.log_dirs import LogDirViews
from logbus.admin.loggers import LoggerViews
from logbus.admin.metrics_view import MetricsView
from logbus.admin.mirrors import MirrorViews
from logbus.admin.openapi import OpenApiView
from logbus.admin.partition_changes import PartitionChangeViews
from logbus.admin.partitions import PartitionViews
from logbus.admin.probes import ProbeViews
from logbus.admin.quotas import QuotaViews
from logbus.admin.record_reader import RecordReader
from logbus.admin.record_writer import RecordWriter
from logbus.admin.records import RecordViews
from logbus.admin.routing import Router
from logbus.admin.site import AdminSite
from logbus.admin.snapshots import SnapshotViews
from logbus.admin.topic_groups import TopicGroupViews
from logbus.admin.topics import TopicViews
from logbus.admin.transactions import TransactionViews
from logbus.admin.usage import UsageViews
from logbus.admin.users import UserViews
from logbus.config import keys
from logbus.log_levels import process_levels


def make_router(site: AdminSite) -> Router:
    """Return the routes of a listener."""
    router, config, metadata, requests = Router(site.relay), site.config, site.metadata, site.requests
    broker_id = site.broker.broker_id
    reader = RecordReader(requests, metadata, site.clock)
    conditions = ConditionViews(broker_id, site.conditions)
    site.events.conditions = ConditionWatch(
        metadata, site.relay, site.clock, conditions.rows, site.events.conditions_changed
    )
    groups = GroupViews(metadata, site.lags, site.lag_history)

    def cleanup_policy(overrides: Mapping[str, str]) -> str:
        return overrides.get("cleanup.policy") or ",".join(sorted(config.topic_config({}).cleanup_policy))

    router.add(
        [
            ProbeViews(site.not_ready),
            MetricsView(site.families, site.combine_metrics),
            ClusterViews(metadata, broker_id),
            ClusterHealthViews(
                metadata,
                broker_id,
                lambda given: config.topic_config(given).min_insync_replicas,
                site.not_ready,
                site.stop,
            ),
            conditions,
            site.events,
            TopicViews(
                metadata,
                site.topics,
                site.internal_topics,
                lambda: config.get(keys.DELETE_TOPIC_ENABLE),
                cleanup_policy,
            ),
            PartitionViews(metadata, site.replicas),
            UsageViews(metadata, broker_id, site.replicas, site.clock),
            RecordViews(
                metadata,
                reader,
                RecordWriter(requests, metadata, site.relay, site.wall_clock),
                site.replicas,
                site.streams,
            ),
            HistoryViews(metadata, broker_id, site.history),
            LogDirViews(metadata, broker_id, requests),
            SnapshotViews(metadata, broker_id, site.snapshots),
            AclViews(metadata, requests),
            QuotaViews(metadata, requests),
            UserViews(metadata, requests),
            PartitionChangeViews(metadata, requests, site.internal_topics),
            groups,
            TopicGroupViews(metadata, site.lags, site.clock),
            GroupChangeViews(metadata, groups, requests, reader, site.relay),
            TransactionViews(metadata, site.transactions, requests),
            HangingTransactionViews(metadata, site.replicas, site.transactions, site.hanging_transactions, requests),
            MirrorViews(metadata, broker_id, site.clock, site.mirrors),
            ConfigViews(metadata, site.topics, config, broker_id, requests),
            LoggerViews(metadata, broker_id, process_levels, requests),
            OpenApiView(router),
        ]
    )
    return router
