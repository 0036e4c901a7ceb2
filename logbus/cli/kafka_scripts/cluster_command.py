"""``kafka-cluster``: prints the id of a cluster and the addresses of its brokers (Kafka: ClusterTool)."""

from __future__ import annotations

from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.java_errors import broker_text
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import with_cluster
from logbus.client.admin.admin_client import AdminClient, ClusterDescription
from logbus.client.cluster.cluster import Cluster
from logbus.errors import ApiError, LogbusError

_ACTIONS = ("cluster-id", "unregister", "list-endpoints")
_LEAVING = "a broker that is stopped leaves the cluster by itself"
_CONTROLLERS = "brokers of logbus are controllers, too; give --bootstrap-server"

PARSER = OptionParser(
    f"Prints what the first word says: {', '.join(_ACTIONS)}.",
    [
        Option(("bootstrap-server", "b"), "server to connect to", "Brokers to connect to, as HOST:PORT, with commas."),
        Option("bootstrap-controller", "server to connect to", refusal=_CONTROLLERS),
        Option(("command-config", "config", "c"), "config property file", "Properties of Kafka's clients."),
        Option(("id", "i"), "broker id", refusal=_LEAVING),
        Option("include-fenced-brokers", help="Accepted: brokers that are gone are not known here."),
    ],
)


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    actions = [each for each in options.words if each in _ACTIONS]
    if not options.words:
        raise UsageError(f"kafka-cluster: error: too few arguments; give one of {', '.join(_ACTIONS)}")
    choices = ", ".join(f"'{each}'" for each in _ACTIONS)
    if not actions:
        raise UsageError(f"kafka-cluster: error: invalid choice: '{options.words[0]}' (choose from {choices})")
    if actions[0] == "unregister":
        raise UsageError(f"unregister is not served; {_LEAVING}")
    if not options.has("bootstrap-server"):
        raise UsageError("kafka-cluster: error: one of the arguments --bootstrap-server is required")

    async def work(cluster: Cluster, admin: AdminClient) -> ClusterDescription:
        return await admin.describe_cluster()

    try:
        found = with_cluster(options, work)
    except LogbusError as e:
        complain(f"Error: {broker_text(e) if isinstance(e, ApiError) else e}")
        return 1
    for line in cluster_lines(found, actions[0]):
        say(line)
    return 0


def cluster_lines(found: ClusterDescription, action: str) -> list[str]:
    """What is printed."""
    if action == "cluster-id":
        if found.cluster_id is None:
            return ["No cluster ID found. The Kafka version is probably too old."]
        return [f"Cluster ID: {found.cluster_id}"]
    # Widths as Kafka's: of a rack and a host at least ten.
    hosts = max([9, *(len(each.host) for each in found.nodes)])
    racks = max([10, *(len(each.rack or "null") for each in found.nodes)])
    rows = [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")]
    rows += [
        (str(each.node_id), each.host, str(each.port), each.rack or "null", "unfenced", "broker")
        for each in sorted(found.nodes, key=lambda node: node.node_id)
    ]
    return [
        f"{number:<10} {host:<{hosts}} {port:<10} {rack:<{racks}} {state:<10} {kind:<15}"
        for number, host, port, rack, state, kind in rows
    ]
