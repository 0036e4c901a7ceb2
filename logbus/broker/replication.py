"""
The replication of a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from twisted.logger import Logger

from logbus.broker.cluster_member import ClusterMember
from logbus.broker.environment import Environment
from logbus.cluster.controller_channel import ControllerChannel
from logbus.cluster.follower.replica_fetcher_manager import ReplicaFetcherManager
from logbus.cluster.follower.sibling_copies import SiblingCopies
from logbus.cluster.replication.isr_manager import IsrManager
from logbus.cluster.replication.leader_fencing import LeaderFencing
from logbus.cluster.replication.partition_reader import PartitionReader
from logbus.cluster.replication.purgatory import Purgatory
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.cluster.replication.replica_reader import ReplicaReader
from logbus.cluster.replication.replica_repair import ReplicaRepair
from logbus.cluster.replication.replica_reports import ReplicaReports
from logbus.cluster.replication.replication_throttle import FollowerThrottle, LeaderThrottle
from logbus.cluster.replication_metrics import ReplicationMetrics
from logbus.config import keys
from logbus.model import TopicPartition
from logbus.net.read_turn import ReadTurn
from logbus.net.standstills import Standstills
from logbus.settings import fetch_settings, replica_selector, replication_rates, topic_config
from logbus.storage.log_manager import LogManager


class Replication:
    """
    This broker's replicas, with what fetches, reads, repairs and fences them, and reports on them to the controller.

    :param hang_up: closes the connections of clients.
    :param standstills: of this process.
    :param siblings: the brokers of this machine that have their logs below the same directories, by id.
    :ivar channel: to the controller.
    :ivar copies: has logs begin as copies of other workers' logs.
    """

    _log = Logger()

    def __init__(
        self,
        env: Environment,
        logs: LogManager,
        member: ClusterMember,
        hang_up: Callable[[], object],
        standstills: Standstills,
        siblings: Collection[int] = (),
    ) -> None:
        config, reactor, metadata, broker_id = env.config, env.reactor, member.metadata, env.broker_id
        self._broker_id = broker_id
        self._metadata = metadata
        self._membership = member.membership
        leaders_rate, followers_rate = replication_rates(config, reactor)
        self.channel = ControllerChannel(broker_id, metadata, member.peers, member.epoch)
        self._reports = ReplicaReports(broker_id, metadata, self.channel, reactor)
        self.fetcher = ReplicaFetcherManager(
            broker_id,
            member.epoch,
            logs,
            member.peers.channel_for,
            env.timers,
            partial(fetch_settings, config),
            FollowerThrottle(followers_rate),
            self._reports.leader_incomplete,
        )
        self.copies = copies = SiblingCopies(
            broker_id, siblings, self.fetcher, logs.linker, member.plugin_calls, env.timers
        )
        if siblings:
            copies.serve()
        self.replicas = copies.replicas = ReplicaManager(
            broker_id,
            logs,
            partial(topic_config, config),
            fetcher=copies,
            # What a starting broker has not heard of yet may be on others.
            exists=lambda topic, number: (
                not metadata.is_whole or metadata.partition(TopicPartition(topic, number)) is not None
            ),
            leaderless=self._reports.leaderless,
            offline=self._report_offline,
            slices=env.slice_scheduler,
        )
        selector = replica_selector(config, metadata)
        self.isr = IsrManager(
            self.replicas,
            metadata,
            self.channel,
            reactor,
            partial(config.get, keys.REPLICA_LAG_TIME_MAX_MS),
            followers_serve=selector is not None,
        )
        self.repairs = ReplicaRepair(broker_id, self.replicas, member.peers.channel_for, env.timers, self._reports)
        # Circles in fact: logs ask the replicas that use them for high watermarks, and each replica has its ISR changed
        # and its log repaired by those that look at all replicas.
        logs.user = self.replicas
        logs.space.has_space_again = self._bring_up
        self.replicas.cluster = self.isr
        self.replicas.repair = self.repairs.check_and_repair
        self.replicas.listeners.append(self.repairs)
        turn: ReadTurn | None = getattr(reactor, "turn", None)
        self.purgatory = Purgatory(reactor, None if turn is None else turn.responses)
        self.reader = ReplicaReader(
            self.replicas,
            self.purgatory,
            PartitionReader(selector, LeaderThrottle(leaders_rate), self.repairs.check),
        )
        self.fencing = LeaderFencing(
            self.replicas,
            metadata,
            member.store,
            member.epoch,
            reactor,
            config.get(keys.ZOOKEEPER_SESSION_TIMEOUT_MS) / 1000,
            standstills,
            hang_up,
        )
        self.metrics = ReplicationMetrics(broker_id, metadata, self.replicas, self.isr)
        env.registry.add_source(self.replicas.topic_stats.families)
        env.registry.gauge("logbus_fetches_waiting", "Fetches that wait for records.", read=self.purgatory.__len__)
        for counted in (self.isr, self.repairs, copies):
            env.registry.add_fields(counted)
        for owner in (self.fetcher, self.metrics):
            owner.register_metrics(env.registry)

    def _report_offline(self, partitions: Sequence[TopicPartition]) -> None:
        if self._broker_id in self._metadata.brokers:  # else with the first roles
            self._reports.offline(partitions)

    def _bring_up(self) -> None:
        """There is space again: have the controller forget which replicas could not be brought up without."""
        if self.replicas.lacked_space:
            self.replicas.lacked_space = False
            self._log.info("registering again, to lead partitions that could not be brought up, as there was no space")
            self._membership.renew().addErrback(
                lambda failure: self._log.failure("the broker could not register again", failure)
            )

    def close(self) -> None:
        """Report nothing more: the broker stops."""
        self._reports.close()
        self.copies.stop()
