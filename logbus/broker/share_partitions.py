"""
The partitions that share groups read, of which this broker is the leader.
"""

from __future__ import annotations

from logbus.broker.cluster_member import ClusterMember
from logbus.broker.environment import Environment
from logbus.broker.replication import Replication
from logbus.coordination.share.share_group_settings import ShareGroupSettingsCache
from logbus.coordination.share_state.persister import SharePersister
from logbus.share.share_fetches import ShareFetcher
from logbus.share.share_partition_manager import SharePartitionManager


class SharePartitions:
    """
    The share partitions of this broker.

    :ivar manager: has them; ``fetcher``: reads them for members.
    """

    def __init__(
        self, env: Environment, member: ClusterMember, replication: Replication, persister: SharePersister
    ) -> None:
        metadata = member.metadata
        self.manager = SharePartitionManager(
            replication.replicas,
            metadata,
            persister,
            ShareGroupSettingsCache(env.config, metadata.group_configs).of,
            env.timers,
            env.wall_ms,
            env.slice_scheduler,
        )
        self.fetcher = ShareFetcher(self.manager, replication.reader, replication.purgatory, env.reactor)
        replication.replicas.listeners.append(self.manager)
