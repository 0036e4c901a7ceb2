"""Users in the metadata store of a cluster that does not run, for the first one: nobody could log in to add it."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from logbus.cli.runner import CommandFailed
from logbus.cluster.membership import ensure_cluster
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import Create, NodeExists, NoNode, Op, Set
from logbus.metastore.security_znodes import USER, EntityZnode
from logbus.metastore.znodes import BROKER_IDS, CLUSTER_ID
from logbus.security.sasl.scram_credential import ScramCredential


async def add_user(
    store: IMetadataStore, name: str, credentials: Mapping[str, ScramCredential], *, begins: bool
) -> None:
    """
    Add a user.

    :param credentials: by mechanism.
    :param begins: whether the cluster is created if it was never started.
    :raise CommandFailed: a broker runs, the user exists, or there is no cluster.
    """
    if not begins and await store.exists(CLUSTER_ID) is None:
        raise CommandFailed("there is no cluster yet: --new-cluster begins one")
    await ensure_cluster(store, uuid4)
    alive = await store.children(BROKER_IDS)
    if alive:
        raise CommandFailed(f"broker {', '.join(alive)} is running: add users to a running cluster with --bootstrap")
    path = EntityZnode.path({USER: name})
    try:
        data, stat = await store.get(path)
    except NoNode:
        data, stat = b"", None
    settings = EntityZnode.decode(path, data)
    if any(mechanism in settings for mechanism in credentials):
        raise CommandFailed(f"there is a user {name!r} already")
    settings |= {mechanism: credential.encode() for mechanism, credential in credentials.items()}
    written = EntityZnode.encode(settings) or b""
    op: Op = Create(path, written) if stat is None else Set(path, written, stat.version)
    try:
        await store.multi([op])
    except NodeExists:
        raise CommandFailed(f"somebody else added the user {name!r} just now") from None
