"""
Keeps the rates of new connections of addresses as the security nodes have them.
"""

from __future__ import annotations

from attrs import define
from twisted.logger import Logger

from logbus.cluster.security_nodes import Changes, SecurityNodes
from logbus.config.client_quotas import CONNECTION_CREATION_RATE, quotas_of
from logbus.metastore.security_znodes import IP, EntityZnode
from logbus.metastore.znode_json import BadZnode
from logbus.metastore.znodes import IP_CONFIGS
from logbus.quotas.connection_rates import ConnectionRates


@define(eq=False)
class IpQuotaSubscriber:
    """Follows the quotas of addresses among the security nodes."""

    _rates: ConnectionRates
    _log = Logger()

    def follow(self, nodes: SecurityNodes) -> None:
        """Begin to follow them."""
        nodes.subscribe(IP_CONFIGS, self._changed)

    def _changed(self, changes: Changes) -> None:
        for path, data in changes.items():
            try:
                entity = EntityZnode.entity(path)
                quotas = quotas_of(EntityZnode.decode(path, data))
            except BadZnode as error:
                if data is not None and path != IP_CONFIGS:
                    self._log.error("a quota that cannot be read does not change: {error}", error=error)
                continue
            self._rates.set_address(entity[IP], quotas.get(CONNECTION_CREATION_RATE.name))
