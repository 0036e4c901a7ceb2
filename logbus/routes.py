"""
Every handler, with what it needs: the table from API to method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logbus.cluster.forwarding import FORWARDED
from logbus.config import keys
from logbus.coordination.commits import Commits
from logbus.coordination.consumers import CONSUMER, Consumers
from logbus.coordination.transactional import TransactionalCommits
from logbus.coordination.transactions.hanging import HangingTransactions
from logbus.coordination.transactions.lookup import TransactionLookup
from logbus.coordination.transactions.participation import RetryBackoff
from logbus.handlers.active_producers import ActiveProducerHandlers
from logbus.handlers.cluster import ClusterHandlers, Doorkeeper
from logbus.handlers.config_resources import ConfigResourceHandlers
from logbus.handlers.configs import ConfigHandlers
from logbus.handlers.consumer_groups import ConsumerGroupHandlers
from logbus.handlers.coordinators import CoordinatorHandlers
from logbus.handlers.elections import ElectionHandlers
from logbus.handlers.fetch import FetchHandlers
from logbus.handlers.fetch_sessions import FetchSessions
from logbus.handlers.forwarding import ForwardHandlers
from logbus.handlers.group_admin import GroupAdminHandlers
from logbus.handlers.group_offsets import GroupOffsetHandlers
from logbus.handlers.groups import GroupHandlers
from logbus.handlers.leaders import LeaderHints
from logbus.handlers.log_dirs import LogDirHandlers
from logbus.handlers.markers import MarkerHandlers
from logbus.handlers.metadata import MetadataHandlers
from logbus.handlers.offset_rules import OffsetRules
from logbus.handlers.offsets import OffsetHandlers
from logbus.handlers.opening import ABOUT_THE_CLUSTER
from logbus.handlers.participation import Gate
from logbus.handlers.plugincalls import PluginCallHandlers
from logbus.handlers.produce import ProduceHandlers
from logbus.handlers.producers import ProducerHandlers
from logbus.handlers.refusals import Refusals
from logbus.handlers.routing import Router
from logbus.handlers.runs import ProduceRuns
from logbus.handlers.topic_pages import TopicPageHandlers
from logbus.handlers.topics import TopicHandlers
from logbus.handlers.transaction_admin import TransactionAdminHandlers
from logbus.handlers.transaction_offsets import TransactionOffsetHandlers
from logbus.handlers.transactions import TransactionHandlers
from logbus.handlers.versions import VersionHandlers
from logbus.model import INTERNAL_TOPICS
from logbus.wire.releases import CONSUMER_GROUP_APIS, advertised_table
from logbus.wire.versions import VersionRange

if TYPE_CHECKING:
    from logbus.broker import Broker


def routes(broker: Broker, release: str | None) -> tuple[Router, ProduceHandlers, FetchHandlers]:
    """
    The table, and the handlers that count what they move.

    :param release: advertise this Kafka release's versions; None: the default table.
    """
    config, metadata, replicas, topics = broker.config, broker.metadata, broker.replicas, broker.topic_admin
    groups, upkeep = broker.group_coordinator, broker.upkeep
    rules = OffsetRules(metadata, config)

    def verifies() -> bool:
        return config.get(keys.TRANSACTION_PARTITION_VERIFICATION_ENABLE)

    backoff = RetryBackoff.of(config)
    commits = TransactionalCommits(groups, broker.participation, verifies, backoff)
    gate = Gate(broker.participation, broker.reactor, verifies, backoff, broker.slice_scheduler)
    produce = ProduceHandlers(
        replicas, broker.reactor, broker.wall_clock, INTERNAL_TOPICS, Refusals(LeaderHints(metadata)), metadata, gate
    )
    lookup = TransactionLookup(broker.broker_id, metadata, broker.transactions, broker.peers)
    sessions = FetchSessions(
        replicas,
        broker.reactor.seconds,
        broker.random,
        config.get(keys.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS),
        config.get(keys.MAX_INCREMENTAL_FETCH_SESSION_CACHE_PARTITIONS),
    )
    fetch = FetchHandlers(broker.reader, replicas, metadata, sessions, config.get(keys.FETCH_MAX_BYTES))
    advertised: dict[int, VersionRange] = {}
    router = Router()
    door = Doorkeeper(broker.complaints)
    forwarding = ForwardHandlers(router, broker.controller, broker.forwarder, door)
    router.add(
        [
            VersionHandlers(advertised),
            MetadataHandlers(
                metadata,
                broker.topics_anywhere,
                INTERNAL_TOPICS,
                lambda: config.get(keys.AUTO_CREATE_TOPICS_ENABLE),
                broker.internal_topics.plan,
            ),
            produce,
            ProduceRuns(produce),
            fetch,
            OffsetHandlers(replicas, broker.reactor),
            ActiveProducerHandlers(replicas, broker.reactor),
            TopicHandlers(topics, metadata, config, lambda: config.get(keys.DELETE_TOPIC_ENABLE)),
            TopicPageHandlers(metadata, INTERNAL_TOPICS, lambda: config.get(keys.MAX_REQUEST_PARTITION_SIZE_LIMIT)),
            ConfigHandlers(config, metadata, topics, broker.peers),
            ConfigResourceHandlers(metadata),
            ElectionHandlers(broker.partition_admin),
            LogDirHandlers(replicas),
            ProducerHandlers(broker.producer_ids, broker.transactions),
            CoordinatorHandlers(groups, broker.transactions, broker.internal_topics, metadata),
            GroupHandlers(groups),
            GroupOffsetHandlers(groups, Commits(groups), upkeep, rules),
            TransactionOffsetHandlers(groups, commits, rules),
            GroupAdminHandlers(groups, upkeep),
            ConsumerGroupHandlers(Consumers(groups)),
            TransactionAdminHandlers(broker.transactions),
            TransactionHandlers(broker.transactions, groups, metadata, INTERNAL_TOPICS),
            MarkerHandlers(broker.marker_writer, HangingTransactions(replicas, lookup, INTERNAL_TOPICS)),
            ClusterHandlers(broker.broker_id, metadata, broker.store, broker.receiver, broker.controller, door),
            forwarding,
            PluginCallHandlers(broker.plugin_calls, door),
        ]
    )
    router.wrap(FORWARDED, forwarding.wrap)
    router.wrap(ABOUT_THE_CLUSTER, broker.opening.wrap)
    served = dict(router.served)
    if CONSUMER not in config.get(keys.GROUP_COORDINATOR_REBALANCE_PROTOCOLS):
        for key in CONSUMER_GROUP_APIS:
            del served[key]
    advertised.update(advertised_table(release, served))
    return router, produce, fetch
