"""
The controller, and the administration of topics.
"""

from __future__ import annotations

from functools import partial

from logbus.broker.cluster_member import ClusterMember
from logbus.broker.dynamic_broker_config import DynamicBrokerConfig
from logbus.broker.environment import Environment
from logbus.broker.replication import Replication
from logbus.broker.security import BrokerSecurity
from logbus.cluster.controlled_shutdown import ControlledShutdown
from logbus.cluster.controller.config_admin import ConfigAdmin
from logbus.cluster.controller.controller import Controller
from logbus.cluster.controller.leader_rebalancer import LeaderRebalancer
from logbus.cluster.controller.metadata_update_sender import update_receivers
from logbus.cluster.controller.partition_admin import PartitionAdmin
from logbus.cluster.controller.security_admin import SecurityAdmin
from logbus.cluster.controller.token_expiration import TokenExpiration
from logbus.cluster.controller.topic_admin import TopicAdmin
from logbus.cluster.controller_epoch_store import ControllerEpochStore
from logbus.cluster.metadata_update_receiver import MetadataUpdateReceiver
from logbus.cluster.topic_admin_forwarder import TopicAdminForwarder
from logbus.config import keys
from logbus.config.group_config import check_group_overrides
from logbus.config.key_table import TOPIC_KEYS
from logbus.settings import topic_defaults, topic_rules


class ClusterControl:
    """
    The controller, while this broker is it; the updates from the controller; and the administration of topics.

    :ivar topic_admin: of this broker as the controller; ``topics_anywhere``: of whichever broker is it.
    :ivar config_admin: changes configs, if this broker is the controller.
    :ivar security_admin: changes users, quotas and ACLs, if this broker is the controller.
    :ivar token_expiration: removes delegation tokens that have ended.
    :ivar balancer: gives leaderships back to preferred leaders.
    """

    def __init__(
        self, env: Environment, member: ClusterMember, replication: Replication, security: BrokerSecurity
    ) -> None:
        config, reactor, replicas = env.config, env.reactor, replication.replicas
        broker_configs = DynamicBrokerConfig(env.broker_id, config, security)
        self._config, self._replicas = config, replicas
        self.epochs = ControllerEpochStore(replicas.logs.disks)
        self.receiver = MetadataUpdateReceiver(
            env.broker_id,
            member.metadata,
            replicas,
            member.epoch,
            broker_configs.apply,
            self.epochs,
            env.slice_scheduler,
        )
        self.controller = Controller(
            member.store,
            env.broker_id,
            member.membership.registration.incarnation,
            member.metadata,
            update_receivers(
                self.receiver,
                env.broker_id,
                member.peers,
                reactor,
                config.get(keys.CONTROLLER_SOCKET_TIMEOUT_MS) / 1000,
                env.slice_scheduler,
            ),
            partial(topic_rules, config),
            reactor,
            env.wall_clock,
            env.slice_scheduler,
        )
        # A circle in fact: a controller gives its own broker's replicas their roles, and they report to it.
        replication.channel.controller = self.controller
        self.topic_admin = TopicAdmin(
            self.controller,
            reactor,
            env.random,
            partial(topic_defaults, config),
            config.validate_topic_overrides,
            env.slice_scheduler,
            config.validate_topic_change,
        )
        self.config_admin = ConfigAdmin(
            self.controller,
            reactor,
            config.validate_topic_overrides,
            broker_configs.check,
            partial(check_group_overrides, config.get),
            config.validate_topic_change,
        )
        self.security_admin = SecurityAdmin(self.controller, reactor, env.slice_scheduler)
        self.token_expiration = TokenExpiration(security.tokens, self.security_admin, config, reactor, env.wall_clock)
        self.topics_anywhere = TopicAdminForwarder(self.topic_admin, self.config_admin, member.forwarder)
        self.partition_admin = PartitionAdmin(self.controller, reactor)
        self.balancer = LeaderRebalancer(self.partition_admin, config, reactor)
        self.controlled_shutdown = ControlledShutdown(replication.channel, config, reactor)
        self.controller.register_metrics(env.registry)
        config.subscribe(TOPIC_KEYS.values(), lambda view: self._topic_defaults_changed())

    def _topic_defaults_changed(self) -> None:
        self._replicas.defaults_changed()
        self.controller.settings_changed()
