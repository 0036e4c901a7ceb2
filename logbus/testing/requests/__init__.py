"""
Requests of clients as a test sees them: which API, which topics, which errors in the answer.

* ``apis``: Kafka's APIs by name
* ``partitions``: the topics and partitions that requests name
* ``broker_view``: what requests leave out, since the broker knows it
* ``interception``: puts something between the connections of a broker and its handlers
"""

from __future__ import annotations
