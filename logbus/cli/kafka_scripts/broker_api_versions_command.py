"""``kafka-broker-api-versions``: prints the versions of APIs that brokers serve (Kafka: BrokerApiVersionsCommand)."""

from __future__ import annotations

from collections.abc import Mapping

from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.option_parser import OptionParser, ParsedOptions
from logbus.cli.kafka_scripts.session import with_cluster
from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import Cluster, Node
from logbus.errors import LogbusError
from logbus.wire.kafka_releases import KAFKA_API_NAMES
from logbus.wire.messages import api, api_keys
from logbus.wire.version_range import VersionRange

_NOT_FOR_CLIENTS = frozenset({4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82})
"""The APIs that brokers and controllers serve to each other."""

Versions = Mapping[int, VersionRange]

PARSER = OptionParser("Prints the versions of APIs that brokers serve, and the one that is used of each.", [])


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    options.require("bootstrap-server")

    async def work(cluster: Cluster, admin: AdminClient) -> int:
        ours = {key: api(key).versions for key in api_keys()}
        status = 0
        for node in (await admin.describe_cluster()).nodes:
            try:
                channel = await cluster.channel(node.node_id)
            except LogbusError as e:
                say(f"{node_text(node)} -> ERROR: {e}")
                status = 1
                continue
            say(versions_text(node, channel.versions, ours))
        return status

    try:
        return with_cluster(options, work)
    except LogbusError as e:
        complain(str(e))
        return 1


def versions_text(node: Node, served: Versions, ours: Versions) -> str:
    """
    What is printed about a broker.

    :param ours: the versions spoken here.
    """
    keys = sorted((KAFKA_API_NAMES.keys() - _NOT_FOR_CLIENTS) | served.keys())
    lines = [f"\t{_api_text(key, served.get(key), ours.get(key))}" for key in keys]
    return f"{node_text(node)} -> (\n" + ",\n".join(lines) + "\n)"


def node_text(node: Node) -> str:
    """A broker as Kafka's command prints it."""
    rack = "null" if node.rack is None else node.rack
    return f"{node.host}:{node.port} (id: {node.node_id} rack: {rack} isFenced: false)"


def _api_text(key: int, served: VersionRange | None, ours: VersionRange | None) -> str:
    name = f"{KAFKA_API_NAMES.get(key, 'UNKNOWN')}({key})"
    if served is None:
        return f"{name}: UNSUPPORTED"
    versions = f"{served.min}" if served.min == served.max else f"{served.min} to {served.max}"
    if ours is None or served.min > ours.max:
        return f"{name}: {versions} [unusable: node too new]"
    if served.max < ours.min:
        return f"{name}: {versions} [unusable: node too old]"
    return f"{name}: {versions} [usable: {min(served.max, ours.max)}]"
