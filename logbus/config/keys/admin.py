"""The admin listener: HTTP."""

from __future__ import annotations

from logbus.config.keys.declare import CLUSTER, boolean, texts

ADMIN_ALLOWED_HOSTS = texts(
    "admin.allowed.hosts",
    (),
    "Names besides ``localhost`` and addresses that the ``Host`` of a request may have; ``*`` is any. When empty, any "
    "name is good on an address that other machines reach, and none on a loopback address, where only a web page that "
    "tricks the browser would use one.",
    dynamic=CLUSTER,
)
ADMIN_METRICS_PER_PARTITION = boolean(
    "admin.metrics.per.partition",
    False,
    "Whether ``/metrics`` has series for each partition: six each, which is 60,000 at 10,000 partitions; and two for "
    "each partition that a group has committed an offset for.",
    dynamic=CLUSTER,
)
