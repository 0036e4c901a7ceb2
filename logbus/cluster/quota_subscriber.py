"""
Keeps the quotas of users and client ids as the security nodes have them.
"""

from __future__ import annotations

from attrs import define
from twisted.logger import Logger

from logbus.cluster.security_nodes import Changes, SecurityNodes
from logbus.config.client_quotas import quotas_of
from logbus.metastore.security_znodes import EntityZnode
from logbus.metastore.znode_json import BadZnode
from logbus.metastore.znodes import CLIENT_CONFIGS, USER_CONFIGS
from logbus.quotas.quota_managers import QuotaManagers


@define(eq=False)
class QuotaSubscriber:
    """Follows the quotas among the security nodes."""

    _managers: QuotaManagers
    _log = Logger()

    def follow(self, nodes: SecurityNodes) -> None:
        """Begin to follow them."""
        for root in (USER_CONFIGS, CLIENT_CONFIGS):
            nodes.subscribe(root, self._changed)

    def _changed(self, changes: Changes) -> None:
        for path, data in changes.items():
            try:
                entity = EntityZnode.entity(path)
            except BadZnode:
                continue  # Only the parent of others.
            try:
                quotas = quotas_of(EntityZnode.decode(path, data))
            except BadZnode as error:
                self._log.error("quotas that cannot be read do not change: {error}", error=error)
                continue
            self._managers.set(entity, quotas)
