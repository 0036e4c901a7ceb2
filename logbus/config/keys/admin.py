"""Keys of the admin listener (HTTP)."""

from __future__ import annotations

from logbus.config.keys.declare import CLUSTER, boolean, choice, int32, key, texts
from logbus.config.listener_address import HTTP, ListenerAddress, http_listener_list

ADMIN_LISTENERS = key(
    http_listener_list(),
    "admin.listeners",
    (ListenerAddress(HTTP, "127.0.0.1", 8080),),
    "Where the broker serves metrics, health and its REST API, as ``http://host:port`` with commas between; an empty "
    "host is every interface, port 0 a free one; empty: nowhere. The listeners are named ``admin``, ``admin-2`` and so "
    "on; ``--listen admin:…`` replaces the first one. A key of logbus, named as Kafka Connect's.",
)
ADMIN_ALLOWED_HOSTS = texts(
    "admin.allowed.hosts",
    (),
    "Names that the ``Host`` of a request may have, besides ``localhost``, addresses, this machine's host name and the "
    "names that the broker advertises; ``*`` is any. A web page of another site that makes its own name point to the "
    "broker is refused.",
    dynamic=CLUSTER,
)
ADMIN_AUTHENTICATION = choice(
    "admin.authentication",
    "",
    ("", "required", "optional"),
    "Whether clients of HTTP must log in: by a password of SCRAM or PLAIN (Basic), a token (Bearer) or a certificate, "
    "as the keys ``sasl.…`` and ``ssl.client.auth`` say. ``optional``: who does not is ``User:ANONYMOUS``, who may do "
    "everything if there is no authorizer. Empty: optional for listeners that only this machine reaches, required "
    "for all others.",
    per_listener=True,
)
ADMIN_PUBLIC_PATHS = texts(
    "admin.public.paths",
    ("/healthz", "/readyz", "/readyz/in-sync"),
    "Paths that are answered without a login, to everybody.",
    choices=("/healthz", "/readyz", "/readyz/in-sync", "/metrics"),
    dynamic=CLUSTER,
)
ADMIN_EVENT_STREAMS = int32(
    "admin.event.streams",
    32,
    "How many streams of events, such as those that follow a topic's records, an HTTP listener serves at a time.",
    at_least=0,
    at_most=10_000,
    dynamic=CLUSTER,
)
ADMIN_METRICS_PER_PARTITION = boolean(
    "admin.metrics.per.partition",
    False,
    "Whether ``/metrics`` has series for each partition: seven each, and two for each partition that a group has "
    "committed an offset for; ``admin.metrics.max.series`` limits them.",
    dynamic=CLUSTER,
)
ADMIN_METRICS_MAX_SERIES = int32(
    "admin.metrics.max.series",
    1_000,
    "How many series a metric has in ``/metrics`` of a broker: one more, whose labels are ``_other``, has the sum of "
    "the rest (or the largest, of a maximum), and ``logbus_folded_series`` tells how many those are. A key of logbus.",
    at_least=1,
    at_most=1_000_000,
    dynamic=CLUSTER,
)
