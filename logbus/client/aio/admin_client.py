"""The admin client for asyncio."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typing_extensions import Unpack

from logbus.client.admin import admin_client as core
from logbus.client.aio.awaiting import awaited
from logbus.client.aio.cluster import Cluster, ClusterArguments
from logbus.client.aio.cluster_client import Client


class AdminClient(Client):
    """
    Sends administrative requests to the brokers concerned. Its methods are those of :class:`logbus.client.AdminClient`,
    as coroutines.

    .. code-block:: python

        async with AdminClient("127.0.0.1:9092") as admin:
            answers = await admin.create_topics([NewTopic("orders", partitions=3)])

    :param cluster: ``HOST:PORT``, or several, or a :class:`~logbus.client.aio.Cluster`.
    :param request_timeout: seconds the brokers may take for a request.
    :param options: of the cluster, if it is not shared.
    """

    def __init__(
        self,
        cluster: Cluster | str | Iterable[str],
        *,
        request_timeout: float = 30.0,
        **options: Unpack[ClusterArguments],
    ) -> None:
        own: dict[str, Any] = dict(options)
        super().__init__(cluster, own, "an admin client", ["request_timeout"])
        self._core = core.AdminClient(self._cluster.core, timeout=request_timeout)

    create_topics = awaited(core.AdminClient.create_topics)
    delete_topics = awaited(core.AdminClient.delete_topics)
    create_partitions = awaited(core.AdminClient.create_partitions)
    delete_records = awaited(core.AdminClient.delete_records)
    list_topics = awaited(core.AdminClient.list_topics)
    describe_topics = awaited(core.AdminClient.describe_topics)
    describe_cluster = awaited(core.AdminClient.describe_cluster)
    features = awaited(core.AdminClient.features)
    list_offsets = awaited(core.AdminClient.list_offsets)

    describe_configs = awaited(core.AdminClient.describe_configs)
    min_insync_replicas = awaited(core.AdminClient.min_insync_replicas)
    alter_configs = awaited(core.AdminClient.alter_configs)

    list_groups = awaited(core.AdminClient.list_groups)
    describe_groups = awaited(core.AdminClient.describe_groups)
    list_group_offsets = awaited(core.AdminClient.list_group_offsets)
    alter_group_offsets = awaited(core.AdminClient.alter_group_offsets)
    delete_group_offsets = awaited(core.AdminClient.delete_group_offsets)
    delete_groups = awaited(core.AdminClient.delete_groups)

    elect_leaders = awaited(core.AdminClient.elect_leaders)
    alter_reassignments = awaited(core.AdminClient.alter_reassignments)
    list_reassignments = awaited(core.AdminClient.list_reassignments)

    describe_log_dirs = awaited(core.AdminClient.describe_log_dirs)
    alter_replica_log_dirs = awaited(core.AdminClient.alter_replica_log_dirs)

    list_transactions = awaited(core.AdminClient.list_transactions)
    describe_transactions = awaited(core.AdminClient.describe_transactions)
    describe_producers = awaited(core.AdminClient.describe_producers)
    abort_transaction = awaited(core.AdminClient.abort_transaction)
    terminate_transaction = awaited(core.AdminClient.terminate_transaction)

    describe_acls = awaited(core.AdminClient.describe_acls)
    create_acls = awaited(core.AdminClient.create_acls)
    delete_acls = awaited(core.AdminClient.delete_acls)

    describe_scram_users = awaited(core.AdminClient.describe_scram_users)
    alter_scram_users = awaited(core.AdminClient.alter_scram_users)

    describe_client_quotas = awaited(core.AdminClient.describe_client_quotas)
    alter_client_quotas = awaited(core.AdminClient.alter_client_quotas)

    create_delegation_token = awaited(core.AdminClient.create_delegation_token)
    renew_delegation_token = awaited(core.AdminClient.renew_delegation_token)
    expire_delegation_token = awaited(core.AdminClient.expire_delegation_token)
    describe_delegation_tokens = awaited(core.AdminClient.describe_delegation_tokens)
